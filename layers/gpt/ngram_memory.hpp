#pragma once

// A memory of n-grams (Cheng et al. 2026, "Conditional Memory via Scalable Lookup",
// arXiv:2601.07372): a large table in which each position looks up a few rows for its last tokens.
// A gate, computed from the model's state at the position, scales what these rows add.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rowgrad/core/data/ngram_hash.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/gpt/transformer.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/layers/linear.hpp>

namespace rowgrad {

struct NgramMemoryOptions {
  std::size_t head_width = 16;  // elements of a row
  std::size_t kernel = 4;       // taps of the convolution
  /// If true, the value projection starts from 0, so that a new memory adds nothing.
  bool zero_init = false;
  double norm_epsilon = 1e-5;        // added to the mean square in each norm
  TablePlacement* tables = nullptr;  // see EmbeddingOptions::tables
};

/// A memory of n-grams: x [batch, length, width] → the same shape. If e is the concatenated rows of
/// a position:
///
///   k = rms_norm(key(e)),  q = rms_norm(x),  s = k · q / √width
///   g = sigmoid(sign(s) √max(|s|, 1e-6)),    u = g · value(e)
///   y = x + u + silu(conv(rms_norm(u)))
///
/// conv is causal and depthwise, without bias; its dilation is the length of the longest n-gram.
/// Parameters: table.weight [rows, head_width], with row gradients; weight [width, lookups ·
/// head_width] and bias of key and value; the weights [width] of key_norm, query_norm and
/// conv_norm; conv [width, kernel]. They start from normal(0, 1) (table), 1 (norms) and
/// uniform(−1/√inputs, 1/√inputs) (others), as in PyTorch. Throws std::invalid_argument for sizes
/// of 0, a table file of another shape, and ids that do not match x.
class NgramMemory : public Layer {
 public:
  /// Draws parameters in the order of the members. If `file` is not null, borrows this table file
  /// and uses its rows unchanged, for tables larger than memory.
  NgramMemory(NgramHash hash, std::size_t width, Random& random,
              const NgramMemoryOptions& options = {}, TableFile* file = nullptr);

  /// Returns y. Appends g [batch, length] to context.gates if set.
  Variable forward(const Variable& x, const DecodeContext& context);

  /// Returns the lookup of all positions of `tokens` [batch, positions].
  TableLookup lookup_of(const Ids& tokens) const { return table.lookup_of(hash_.rows(tokens)); }

  const NgramHash& hash() const { return hash_; }  // finds the rows of n-grams
  std::optional<RowNames> row_names(const Parameter& of_table) const override;

 private:
  Variable look_up(const Variable& x, const DecodeContext& context);
  Variable convolved(const Variable& u, Tensor* kept);

  NgramHash hash_;

 public:
  Submodule<Embedding> table;     // rows of n-grams
  Submodule<Linear> key;          // computes the key of the gate from e
  Submodule<Linear> value;        // computes the value to add from e
  Submodule<RmsNorm> key_norm;    // normalizes the key
  Submodule<RmsNorm> query_norm;  // normalizes x
  Submodule<RmsNorm> conv_norm;   // normalizes the gated value
  Parameter conv;                 // weight of the convolution, [width, kernel]
};

/// Returns the gate of a memory: sigmoid(sign(s) √max(|s|, 1e-6)) with s = key · x / √width, for
/// normalized key and x [..., width] → [..., 1]. Its gradient is 0 where |s| < 1e-6. Throws
/// std::invalid_argument for other shapes and a width of 0.
Variable memory_gate(const Variable& key, const Variable& x);

}  // namespace rowgrad
