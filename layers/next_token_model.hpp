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
  std::size_t context = 4;                    // the longest input
  std::size_t width = 256;                    // numbers in an embedding
  Positions positions = Positions::kLearned;  // how a model tells them apart
  std::size_t window = 1;                // tokens that a prediction sees, including the current one
  std::vector<std::size_t> hidden = {};  // widths of the hidden layers; empty for a linear model
  double dropout = 0;  // after each hidden layer, and after sinusoidal positions are added
  bool dense_gradients = false;  // for the embedding tables, instead of row gradients
  bool tie_weights = false;      // the token table is also the weight of the head
};

/// Predicts each next token of a text: token embedding + positions → look-back → hidden layers →
/// linear head. Parts are constructed in this order, so a seed gives the same weights as
/// nn.Embedding, nn.Embedding and nn.Linear in PyTorch. With tied weights, the head draws only its
/// bias, and the token table, which the embedding and the head both read, gets a dense gradient.
///
/// A model of one's own that derives from it overrides transform_embeddings(), through which
/// training and generation both go.
class NextTokenModel : public LanguageModel {
 public:
  /// Draws the initial weights from `random`. No size may be 0, and with tied weights, the head
  /// must read as many inputs as an embedding is wide: std::invalid_argument.
  NextTokenModel(const NextTokenOptions& options, Random& random);
  NextTokenModel(const NextTokenOptions& options, Random&& random)
      : NextTokenModel(options, random) {}

  /// Takes ids [..., length] of any rank.
  Variable hidden_states(Tape& tape, const Ids& ids) final;

  /// Final, as the loss would not see what overrides it.
  Variable forward(Tape& tape, const Ids& ids) final { return LanguageModel::forward(tape, ids); }
  Linear* output_layer() final { return &head; }

  std::size_t context() const final { return options_.context; }
  std::size_t vocabulary() const final { return options_.vocabulary; }  // the number of tokens
  const NextTokenOptions& options() const { return options_; }  // the options as they were given

 protected:
  /// What the look-back reads instead of x [..., length, width], the embedding of ids
  /// [..., length] with their positions: x itself, unless a derived class puts something there. A
  /// position must depend on no later one.
  virtual Variable transform_embeddings(const Variable& x, const Ids& ids);

 private:
  NextTokenOptions options_;

 public:
  Submodule<Embedding> token;                              // [vocabulary, width]
  std::optional<Submodule<PositionalEmbedding>> position;  // at most one of these two
  std::optional<Submodule<Sinusoidal>> sinusoidal;         // for Positions::kSinusoidal
  Submodule<Dropout> sinusoidal_dropout;                   // applied to what sinusoidal returns
  Submodule<ConcatPrevious> concat_previous;               // joins the last positions
  std::optional<Submodule<Mlp>> hidden;                    // the layers before the head, if any
  Submodule<Linear> head;                                  // logits of what was joined or hidden
};

}  // namespace rowgrad
