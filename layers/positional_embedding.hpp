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

  /// The first `length` rows [length, width], which Embedding::forward adds while it looks tokens
  /// up. Throws std::invalid_argument for a length above the context.
  Variable rows(Tape& tape, std::size_t length);

  Parameter weight;

 private:
  PositionalEmbeddingOptions options_;
};

/// What both kinds of positions check: x has a shape [..., length, width]. Returns the length.
/// Throws std::invalid_argument that names `layer` and both shapes.
std::size_t length_of(const char* layer, const Shape& shape, std::size_t width);

/// Throws std::invalid_argument that names `layer` and both numbers for a length above `limit`.
void check_length(const char* layer, std::size_t length, const char* limit_name, std::size_t limit);

}  // namespace rowgrad
