#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/layers/positions.hpp>
#include <rowgrad/layers/sequential.hpp>

namespace rowgrad {

/// Options of NextTokenModel.
struct NextTokenOptions {
  std::size_t vocabulary = 0;                 // number of tokens
  std::size_t context = 4;                    // longest input, in tokens
  std::size_t width = 256;                    // elements of an embedding
  Positions positions = Positions::kLearned;  // position encoding
  std::size_t window = 1;                // tokens that a prediction sees, including the current one
  std::vector<std::size_t> hidden = {};  // widths of the hidden layers; empty for a linear model
  double dropout = 0;  // probability after each hidden layer and after sinusoidal positions
  bool dense_gradients = false;  // use dense instead of row gradients for embedding tables
  bool tie_weights = false;      // use the token table as the weight of the head
  bool head_bias = true;         // add a bias to the logits
};

/// A language model: token embedding + positions → ConcatPrevious → hidden layers → linear head.
/// Parts are constructed in this order, so a seed gives the same weights as in PyTorch
/// (nn.Embedding, then nn.Linear modules). With tied weights, the head draws only its bias, and the
/// shared token table gets a dense gradient.
///
/// A derived class can override transform_embeddings(), which training and generation both call.
class NextTokenModel : public LanguageModel {
 public:
  /// Draws the initial weights from `random`. Throws std::invalid_argument if a size is 0,
  /// positions need attention, or a tied head does not have `width` inputs.
  NextTokenModel(const NextTokenOptions& options, Random& random);
  NextTokenModel(const NextTokenOptions& options, Random&& random)
      : NextTokenModel(options, random) {}

  /// Accepts ids [..., length] with any number of axes.
  Variable hidden_states(Tape& tape, const Ids& ids) final;

  /// Returns the logits. Final because loss() bypasses it.
  Variable forward(Tape& tape, const Ids& ids) final { return LanguageModel::forward(tape, ids); }
  Linear* output_layer() final { return &head; }

  std::size_t context() const final { return options_.context; }
  /// Returns the number of tokens.
  std::size_t vocabulary() const final { return options_.vocabulary; }
  /// Returns the constructor's options.
  const NextTokenOptions& options() const { return options_; }

 protected:
  /// Returns the input of concat_previous. The default returns x [..., length, width], the
  /// embeddings of `ids` [..., length] with their positions. A position must not depend on later
  /// positions.
  virtual Variable transform_embeddings(const Variable& x, const Ids& ids);

 private:
  NextTokenOptions options_;

 public:
  Submodule<Embedding> token;                              // [vocabulary, width]
  std::optional<Submodule<PositionalEmbedding>> position;  // for Positions::kLearned
  std::optional<Submodule<Sinusoidal>> sinusoidal;         // for Positions::kSinusoidal
  Submodule<Dropout> sinusoidal_dropout;                   // applied after sinusoidal positions
  Submodule<ConcatPrevious> concat_previous;               // joins each position with earlier ones
  std::optional<Submodule<Mlp>> hidden;                    // hidden layers, if any
  Submodule<Linear> head;                                  // computes the logits
};

}  // namespace rowgrad
