#pragma once

// Language models and text classifiers: their loss, and text generation. Invalid options, ids
// outside the vocabulary, empty prompts, and inputs longer than the context throw
// std::invalid_argument.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <rowgrad/core/ops/sampled_loss.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/linear.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

/// The tokens and state that a layer needs in addition to its input x [batch, length, width].
struct DecodeContext {
  /// [batch, positions]: the tokens from the start of the document to the last position of x. The
  /// last `length` are the tokens of x; earlier tokens are included if the document is read in
  /// chunks. A sliding decoder passes at most the last `context` tokens.
  const Ids& ids;
  /// State that the layer carries from chunk to chunk of a document: one tensor, initially empty.
  /// Null if x has all positions.
  Tensor* kept;
  /// If not null, receives the gates of each n-gram memory.
  std::vector<Tensor>* gates = nullptr;
};

/// A reader of one document, in chunks, in evaluation mode. It keeps state for later chunks.
class IncrementalDecoder {
 public:
  virtual ~IncrementalDecoder() = default;

  /// Reads `ids`, which follow the ids read before, and returns the logits [vocabulary] for the
  /// next token.
  virtual Tensor next_logits(std::span<const std::int32_t> ids) = 0;
};

/// Former names of DecodeContext and IncrementalDecoder.
using TextSoFar [[deprecated("use DecodeContext")]] = DecodeContext;
using TextReader [[deprecated("use IncrementalDecoder")]] = IncrementalDecoder;

/// A model that computes logits for each position of a document: for the next token, or for classes
/// of the document. Its batches are windows with targets; its loss is the cross-entropy in nats. A
/// derived class overrides output_layer() and hidden_states(), from which loss and evaluation
/// follow.
class TextModel : public Classifier {
 public:
  /// Returns the head, a linear layer with an output for each class. Returns null for a model
  /// without a head, which overrides forward() instead of hidden_states().
  virtual Linear* output_layer() { return nullptr; }

  /// Returns the input of the head: ids [batch, length], length ≤ context → [batch, length, inputs
  /// of the head]. Batches and generation pass ids with two axes; a model may accept other shapes.
  /// The default throws std::logic_error.
  virtual Variable hidden_states(Tape& tape, const Ids& ids);

  /// Former name of hidden_states(). Classes that override before_head() do not compile.
  [[deprecated("use hidden_states()")]] virtual Variable before_head(Tape& tape,
                                                                     const Ids& ids) final {
    return hidden_states(tape, ids);
  }

  /// Returns the logits [batch, length, classes]. The default applies the head to hidden_states().
  virtual Variable forward(Tape& tape, const Ids& ids);

  using Classifier::loss;  // the loss of a batch

  /// Returns cross_entropy(forward(tape, ids), targets, options), where targets have the shape of
  /// ids. With a head, this is faster and never stores all logits.
  virtual Variable loss(Tape& tape, const Ids& ids, const Ids& targets,
                        const CrossEntropyOptions& options = {});

  Variable logits(Tape& tape, const Batch& batch) final { return forward(tape, batch.inputs()); }
  const Ids& targets(const Batch& batch) const final { return batch.targets(); }
  Variable loss_with(Tape& tape, const Batch& batch, const CrossEntropyOptions& options) final {
    return loss(tape, batch.inputs(), batch.targets(), options);
  }

  /// Makes loss() compare each target with `count` classes that the batch shares, drawn with the
  /// tape's generator, in training mode on a gradient tape: see sampled_softmax_loss(). Requires: a
  /// head without an adapter, a weight for each class, 1 <= count <= classes().
  void sample_loss(NegativeSampler sampler, std::size_t count);

  virtual std::size_t context() const = 0;  // returns the maximum input length, in tokens

 private:
  std::optional<NegativeSampler> sampler_;
  std::size_t samples_ = 0;
};

/// A model that predicts the token after each position: its classes are the vocabulary.
class LanguageModel : public TextModel {
 public:
  /// Returns a decoder for a new document. The default rereads the document for each chunk.
  virtual std::unique_ptr<IncrementalDecoder> decoder();

  /// Returns a decoder that can read a new document past the context, in bounded memory.
  /// Models that cannot slide throw std::invalid_argument.
  virtual std::unique_ptr<IncrementalDecoder> sliding_decoder();

  virtual std::size_t vocabulary() const = 0;  // returns the number of tokens
  std::size_t classes() const final { return vocabulary(); }
};

/// Returns `model` as a LanguageModel. Throws std::invalid_argument, in the name of `caller`, if
/// `model` does not predict tokens.
LanguageModel& as_language_model(Layer& model, std::string_view caller);

/// Ways to continue a document that is longer than the context.
enum class PastContext {
  /// Reads the last `context` tokens again for each new token, as a document of their own. Works
  /// with all models. Each token costs a pass over `context` positions.
  kRecompute,
  /// Reads each token once, with a LanguageModel::sliding_decoder(). Each token costs a pass over
  /// one position.
  ///
  /// In a GptModel, each layer attends to the last `context` positions, whose keys and values are
  /// not recomputed. So logits depend, through the layers, on the last layers · (context − 1) + 1
  /// tokens, as with sliding-window attention (Jiang et al. 2023, "Mistral 7B"). A model that was
  /// not trained that way may write worse text (Xiao et al. 2024, "Efficient Streaming Language
  /// Models with Attention Sinks"). After 500 steps of `rowgrad train --model gpt`, losses past the
  /// context exceeded the losses with kRecompute by less than 0.001 with rotary, ALiBi and Shaw
  /// positions, but by 0.2 with T5 positions or no positions.
  kSlidingWindow
};

/// Options of generate().
struct GenerateOptions {
  /// The maximum number of new tokens. Past the context, each costs as much as reading the whole
  /// context, unless past_context is kSlidingWindow.
  std::size_t max_new_tokens = 100;
  /// Divides the logits; at 0, the most likely token is always chosen.
  double temperature = 1;
  /// The number of most likely tokens to draw from; 0 for all.
  std::size_t top_k = 0;
  /// Called with each new token; generation stops if it returns false.
  std::function<bool(std::int32_t)> on_token = {};
  /// Fetches table rows before they are looked up; null if this process has all rows.
  TablePlacement* tables = nullptr;
  /// The way to continue past the context. With kSlidingWindow, models that cannot slide throw
  /// std::invalid_argument before anything is drawn.
  PastContext past_context = PastContext::kRecompute;
};

/// Continues the last `context` ids of `prompt` in evaluation mode and returns the new ids. Each is
/// drawn from softmax(logits / temperature), as torch.multinomial does. Within the context, an id
/// depends on all ids before it; past the context, see PastContext.
Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random);

/// Draws an index from the top_k largest logits (0: from all), with probabilities softmax(logits /
/// temperature). Throws std::invalid_argument if a logit is NaN or the largest is infinite.
std::size_t sample_token(std::span<const real> logits, double temperature, std::size_t top_k,
                         Random& random);
[[deprecated("use sample_token()")]] inline std::size_t draw_token(std::span<const real> logits,
                                                                   double temperature,
                                                                   std::size_t top_k,
                                                                   Random& random) {
  return sample_token(logits, temperature, top_k, random);
}

}  // namespace rowgrad
