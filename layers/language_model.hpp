#pragma once

// Language models: their loss, their evaluation, and the generation of text. Texts that are empty
// or longer than the context, ids outside the vocabulary, and options that do not fit throw
// std::invalid_argument.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/layers/layer.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {

/// The text around x that a layer reads: x is [batch, length, width].
struct TextSoFar {
  /// [batch, positions]: the tokens from the beginning of the text to the last position of x. The
  /// last `length` are those of x; there are more only if a text is read piece by piece.
  const Ids& ids;
  /// Where the layer keeps what it needs of earlier positions besides their ids, if a text is read
  /// piece by piece: a tensor for this layer and this text, empty at first. Null if x has all
  /// positions.
  Tensor* kept;
  /// To which memories of n-grams add their gates; null if nobody asks for them.
  std::vector<Tensor>* gates = nullptr;
};

/// Reads one text piece by piece, in evaluation mode, and remembers what later pieces need of it.
class TextReader {
 public:
  virtual ~TextReader() = default;

  /// The logits [vocabulary] for the token after these ids, which follow those read before.
  virtual Tensor read(std::span<const std::int32_t> ids) = 0;
};

/// A model that gives each position of a text logits of some classes: of the next token, or of what
/// the text is about. This is what is trained and evaluated. A model names its head and says what
/// that reads; the rest follows.
class TextModel : public Layer {
 public:
  /// The head, a linear layer with an output for each class; null for a model that has none, and
  /// overrides forward() instead of before_head().
  virtual Linear* output() { return nullptr; }

  /// What the head reads: ids [batch, length], length ≤ context → [batch, length, inputs of the
  /// head]. (A model may take ids of other ranks, too; evaluation, generation and TrainingRun give
  /// it two axes.) Throws std::logic_error unless a model overrides it.
  virtual Variable before_head(Tape& tape, const Ids& ids);

  /// The logits [batch, length, classes]: what the head makes of before_head().
  virtual Variable forward(Tape& tape, const Ids& ids);

  /// cross_entropy(forward(tape, ids), targets, options): targets have the shape of ids. With a
  /// head, it is faster than that, and never has all logits in memory.
  virtual Variable loss(Tape& tape, const Ids& ids, const Ids& targets,
                        const CrossEntropyOptions& options = {});

  /// Begins to read what these ids [batch, length] will need of tables in files, and returns at
  /// once: a run calls it for the next batch while it trains on this one. Does nothing, unless a
  /// model overrides it.
  virtual void read_ahead(const Ids& ids);

  virtual std::size_t context() const = 0;  // the longest input
  virtual std::size_t classes() const = 0;  // number of logits of a position
};

/// A model that predicts each next token of a text: its classes are the vocabulary.
class LanguageModel : public TextModel {
 public:
  /// A reader of a new text. That of a model which remembers nothing reads all of it again.
  virtual std::unique_ptr<TextReader> reader();

  /// Tables with a row for each token are of tokens.
  std::optional<RowNames> row_names(const Parameter& table) const override;

  virtual std::size_t vocabulary() const = 0;  // number of tokens
  std::size_t classes() const final { return vocabulary(); }
};

/// The same model, if it predicts tokens; throws std::invalid_argument, in the name of `caller`, if
/// its classes are others.
LanguageModel& as_language_model(TextModel& model, std::string_view caller);

/// Options of evaluate().
struct EvaluateOptions {
  /// How many batches are used, the first ones of an epoch; 0 for all.
  std::size_t batches = 0;
  /// Whether the accuracy is wanted, too. It needs all logits of a batch at once.
  bool accuracy = false;
  /// Which targets count and how much, without weights of single targets; `reduction` is not used.
  CrossEntropyOptions loss = {};
  /// Called after each batch; if it returns false, there is no result.
  std::function<bool()> after_batch = {};
  /// The processes that share the batches, all of which call evaluate(); null if one is alone. The
  /// result is the same.
  ProcessGroup* ranks = nullptr;
};

/// What evaluate() found.
struct Score {
  double loss = 0;  // the mean cross-entropy of the targets that count, in nats
  /// The share of targets that have the largest logit, among those that are not ignored; weights
  /// make no difference.
  std::optional<double> accuracy = std::nullopt;
};

/// The loss over an epoch of the loader, in evaluation mode. Throws std::invalid_argument if no
/// target counts.
std::optional<Score> evaluate(TextModel& model, DataLoader& loader,
                              const EvaluateOptions& options = {});

/// Options of generate().
struct GenerateOptions {
  /// The number of tokens to generate.
  std::size_t count = 100;
  /// The logits are divided by it; at 0, the most likely token is always taken.
  double temperature = 1;
  /// Tokens are drawn only from this many of the most likely ones; 0 for all.
  std::size_t top_k = 0;
  /// Called for each new token; if it returns false, generation stops.
  std::function<bool(std::int32_t)> on_token = {};
};

/// The ids that continue `prompt`, each drawn from softmax(logits / temperature) as by
/// torch.multinomial, given the last `context` ids, in evaluation mode.
Ids generate(LanguageModel& model, const Ids& prompt, const GenerateOptions& options,
             Random& random);

/// Draws an index with probabilities softmax(logits / temperature) of the top_k largest. Logits
/// that are NaN or all −∞ throw std::invalid_argument.
std::size_t draw_token(std::span<const real> logits, double temperature, std::size_t top_k,
                       Random& random);

}  // namespace rowgrad
