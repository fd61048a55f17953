#pragma once

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/layer.hpp>

namespace rowgrad {

struct PositionalEmbeddingOptions {
  double deviation = 1;         // of the normal distribution that the table is drawn from
  bool dense_gradient = false;  // whether the gradient is that of the whole table
};

/// Learned positions (Gehring et al. 2017; GPT-2): x [..., length, width] → x + the first `length`
/// rows of a trained table. Only these rows get a gradient. Parameter: weight [context, width].
class PositionalEmbedding : public Layer {
 public:
  /// Initialised from normal(0, deviation). Throws std::invalid_argument for a context or width of
  /// 0, for more values than memory could hold, and for a deviation that is negative or not finite.
  PositionalEmbedding(std::size_t context, std::size_t width, Random& random,
                      const PositionalEmbeddingOptions& options = {});

  /// Throws std::invalid_argument for x longer than the context or of another width.
  Variable forward(const Variable& x);

  /// `length` rows [length, width] from a position on, which Embedding::forward can add during the
  /// lookup. Throws std::invalid_argument for a position that is not below the context.
  Variable rows(Tape& tape, std::size_t length, std::size_t first_position = 0);

  Parameter weight;

 private:
  PositionalEmbeddingOptions options_;
};

/// The length of x, for both positional layers. Throws std::invalid_argument naming `layer` and
/// both shapes unless `shape` is [..., length, width].
std::size_t length_of(const char* layer, const Shape& shape, std::size_t width);

/// Throws std::invalid_argument naming `layer`, the length and the limit if the length is above it.
void check_length(const char* layer, std::size_t first_position, std::size_t length,
                  const char* limit_name, std::size_t limit);

}  // namespace rowgrad
