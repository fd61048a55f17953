#pragma once

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct PositionalEmbeddingOptions {
  bool dense_gradient = false;  // a gradient of the whole table instead of rows
};

/// Learned positions: x [..., length, width] → x + the first `length` rows of a trained table,
/// whose gradient is that of those rows (Gehring et al. 2017; GPT-2). Parameter: weight [context,
/// width].
class PositionalEmbedding : public Layer {
 public:
  /// Starts from normal(0, 1). Throws std::invalid_argument for a context or width of 0, and for
  /// more numbers than memory could hold.
  PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                      const PositionalEmbeddingOptions& options = {});

  /// Throws std::invalid_argument for x longer than the context or of another width.
  Variable forward(const Variable& x);

  /// forward(token.forward(tape, ids)) in one pass over memory: ids [..., length].
  Variable forward(Tape& tape, Embedding& token, const Ids& ids);

  Parameter& weight() { return weight_; }
  const Parameter& weight() const { return weight_; }

 private:
  Variable rows(Tape& tape, std::size_t length);

  PositionalEmbeddingOptions options_;
  Parameter weight_;
};

/// What both kinds of positions check: x has a shape [..., length, width] and is no longer than
/// `limit`. Returns the length. Throws std::invalid_argument that names `layer` and both numbers.
std::size_t checked_length(const char* layer, const Shape& shape, std::size_t limit,
                           const char* limit_name, std::size_t width);

/// The shape of what an embedding makes of ids.
Shape embedded_shape(const Embedding& token, const Ids& ids);

}  // namespace rowgrad
