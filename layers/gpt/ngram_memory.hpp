#pragma once

// A memory of n-grams (Cheng et al. 2026, "Conditional Memory via Scalable Lookup",
// arXiv:2601.07372): a large table of which each position looks up a few rows, those of its last
// tokens. What the model knows at that position decides how much of them is added to it.

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
  std::size_t head_width = 16;  // numbers in a row
  std::size_t kernel = 4;       // taps of the convolution
  /// Whether the value projection starts from 0, so that a new memory adds nothing.
  bool zero_init = false;
  double norm_epsilon = 1e-5;        // added to mean squares in the norms
  TablePlacement* tables = nullptr;  // see EmbeddingOptions::tables
};

/// x [batch, length, width] → the same shape, from the rows e of each position, side by side:
///
///   k = rms_norm(key(e)),  q = rms_norm(x),  s = k · q / √width
///   g = sigmoid(sign(s) √max(|s|, 1e-6)),    u = g · value(e)
///   y = x + u + silu(conv(rms_norm(u)))
///
/// conv is causal and depthwise, dilated by the longest n-gram, without bias. Parameters:
/// table.weight [rows, head_width], whose gradient has the rows that were looked up; weight [width,
/// lookups · head_width] and bias of key and value; the weights [width] of key_norm, query_norm and
/// conv_norm; conv [width, kernel]. They start as PyTorch's: normal(0, 1), uniform(−b, b) with b =
/// 1/√inputs, ones. Throws std::invalid_argument for sizes of 0, a table of another shape, and ids
/// and x that do not fit.
class NgramMemory : public Layer {
 public:
  /// Draws the rows, and then the weights of its parts, in the order of the members. With a file,
  /// which it borrows, it uses the table in that as it is: for tables larger than memory.
  NgramMemory(NgramHash hash, std::size_t width, Random& random,
              const NgramMemoryOptions& options = {}, TableFile* file = nullptr);

  /// Adds g, [batch, length], to text.gates unless it is null.
  Variable forward(const Variable& x, const DecodeContext& text);

  /// The lookup of all positions of texts [batch, positions].
  TableLookup lookup_of(const Ids& texts) const { return table.lookup_of(hash_.rows(texts)); }

  const NgramHash& hash() const { return hash_; }  // finds the rows of n-grams
  std::optional<RowNames> row_names(const Parameter& of_table) const override;

 private:
  Variable look_up(const Variable& x, const DecodeContext& text);
  Variable convolved(const Variable& u, Tensor* kept);

  NgramHash hash_;

 public:
  Submodule<Embedding> table;     // the rows
  Submodule<Linear> key;          // makes the key for the gate from the joined rows
  Submodule<Linear> value;        // makes what is added from the joined rows
  Submodule<RmsNorm> key_norm;    // normalises the key
  Submodule<RmsNorm> query_norm;  // normalises x
  Submodule<RmsNorm> conv_norm;   // normalises the gated value
  Parameter conv;                 // weight of the convolution, [width, kernel]
};

/// How far a memory is open: sigmoid(sign(s) √max(|s|, 1e-6)), whose gradient is 0 where |s| <
/// 1e-6, with s = key · x / √width, for normalised key and x [..., width] → [..., 1]. Throws
/// std::invalid_argument for other shapes, and a width of 0.
Variable memory_gate(const Variable& key, const Variable& x);

}  // namespace rowgrad
