#pragma once

// Models of texts: their loss, and the generation of text. Texts that are empty
// or longer than the context, ids outside the vocabulary, and options that do not fit throw
// std::invalid_argument.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

/// The text around x that a layer reads: x is [batch, length, width].
struct DecodeContext {
  /// [batch, positions]: the tokens from the beginning of the text to the last position of x. The
  /// last `length` are those of x; there are more only if a text is read piece by piece. A sliding
  /// reader gives the last `context` tokens of a longer text.
  const Ids& ids;
  /// Where the layer keeps what it needs of earlier positions besides their ids, if a text is read
  /// piece by piece: a tensor for this layer and this text, empty at first. Null if x has all
  /// positions.
  Tensor* kept;
  /// To which memories of n-grams add their gates; null if nobody asks for them.
  std::vector<Tensor>* gates = nullptr;
};

/// Reads one text piece by piece, in evaluation mode, and remembers what later pieces need of it.
class IncrementalDecoder {
 public:
  virtual ~IncrementalDecoder() = default;

  /// The logits [vocabulary] for the token after these ids, which follow those read before.
  virtual Tensor next_logits(std::span<const std::int32_t> ids) = 0;
};

/// Former names of DecodeContext and IncrementalDecoder.
using TextSoFar [[deprecated("use DecodeContext")]] = DecodeContext;
using TextReader [[deprecated("use IncrementalDecoder")]] = IncrementalDecoder;

/// A model that gives each position of a text logits of some classes: of the next token, or of what
/// the text is about. Its batches are windows (TokenWindows), its loss is the cross-entropy, in
/// nats. A model names its head and says what that reads; the rest follows.
class TextModel : public Classifier {
 public:
  /// The head, a linear layer with an output for each class; null for a model that has none, and
  /// overrides forward() instead of hidden_states().
  virtual Linear* output_layer() { return nullptr; }

  /// What the head reads: ids [batch, length], length ≤ context → [batch, length, inputs of the
  /// head]. (A model may take ids of other ranks, too; batches and generation give it two axes.)
  /// Throws std::logic_error unless a model overrides it.
  virtual Variable hidden_states(Tape& tape, const Ids& ids);

  /// Former name of hidden_states().
  [[deprecated("use hidden_states()")]] Variable before_head(Tape& tape, const Ids& ids) {
    return hidden_states(tape, ids);
  }

  /// The logits [batch, length, classes]: what the head makes of hidden_states().
  virtual Variable forward(Tape& tape, const Ids& ids);

  using Classifier::loss;  // of a batch

  /// Returns cross_entropy(forward(tape, ids), targets, options), where targets have the shape of
  /// ids. With a head, this is faster and never has all logits in memory.
  virtual Variable loss(Tape& tape, const Ids& ids, const Ids& targets,
                        const CrossEntropyOptions& options = {});

  Variable logits(Tape& tape, const Batch& batch) final { return forward(tape, batch.inputs()); }
  const Ids& targets(const Batch& batch) const final { return batch.targets(); }
  Variable loss_with(Tape& tape, const Batch& batch, const CrossEntropyOptions& options) final {
    return loss(tape, batch.inputs(), batch.targets(), options);
  }

  virtual std::size_t context() const = 0;  // the longest input
};

/// A model that predicts each next token of a text: its classes are the vocabulary.
class LanguageModel : public TextModel {
 public:
  /// Returns a reader of a new text. By default, it reads the whole text again for each piece.
  virtual std::unique_ptr<IncrementalDecoder> decoder();

  /// Returns a reader of a new text that goes on past the context, in bounded memory. Throws
  /// std::invalid_argument, saying why, if the model has none, as by default.
  virtual std::unique_ptr<IncrementalDecoder> sliding_decoder();

  virtual std::size_t vocabulary() const = 0;  // number of tokens
  std::size_t classes() const final { return vocabulary(); }
};

/// The same model, if it predicts tokens; throws std::invalid_argument, in the name of `caller`, if
/// it does not.
LanguageModel& as_language_model(Layer& model, std::string_view caller);

/// Ways to continue a text that is longer than the context.
enum class PastContext {
  /// Reads the last `context` tokens again for each new token, as a text of their own. All models
  /// can do this. Each token costs a pass over `context` positions.
  kRecompute,
  /// Reads each token once, with a LanguageModel::sliding_decoder(). Each token costs one position,
  /// as within the context.
  ///
  /// In a GptModel, each layer attends to the last `context` positions, whose keys and values stay
  /// as they were when their tokens were read. So logits depend, through the layers, on the last
  /// layers · (context − 1) + 1 tokens, as with sliding-window attention (Jiang et al. 2023,
  /// "Mistral 7B"). A model that was not trained that way may write worse texts (Xiao et al. 2024,
  /// "Efficient Streaming Language Models with Attention Sinks"). After 500 steps of `train --model
  /// gpt`, losses past the context were equal within 0.001 with rotary, ALiBi's and Shaw's
  /// positions, but larger by 0.2 with T5's and none.
  kSlidingWindow
};

/// Options of generate().
struct GenerateOptions {
  /// The number of tokens to generate. Past the context, each of them costs as much as reading the
  /// whole context, unless past_context is kSlidingWindow.
  std::size_t max_new_tokens = 100;
  /// The logits are divided by it; at 0, the most likely token is always taken.
  double temperature = 1;
  /// Tokens are drawn only from this many of the most likely ones; 0 for all.
  std::size_t top_k = 0;
  /// Called for each new token; if it returns false, generation stops.
  std::function<bool(std::int32_t)> on_token = {};
  /// Fetches rows of tables before they are looked up; null if all rows are here.
  TablePlacement* tables = nullptr;
  /// Says how a text goes on past the context. Models that cannot slide throw
  /// std::invalid_argument before anything is drawn.
  PastContext past_context = PastContext::kRecompute;
};

/// The ids that continue the last `context` ids of `prompt`, each drawn from softmax(logits /
/// temperature) as by torch.multinomial, in evaluation mode. Until the text is longer than the
/// context, an id depends on all ids before it; afterwards, see PastContext.
Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random);

/// Draws an index with probabilities softmax(logits / temperature) of the top_k largest. Logits
/// that are NaN or all −∞ throw std::invalid_argument.
std::size_t sample_token(std::span<const real> logits, double temperature, std::size_t top_k,
                         Random& random);
[[deprecated("use sample_token()")]] inline std::size_t draw_token(std::span<const real> logits,
                                                                   double temperature,
                                                                   std::size_t top_k,
                                                                   Random& random) {
  return sample_token(logits, temperature, top_k, random);
}

}  // namespace rowgrad
