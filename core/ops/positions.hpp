#pragma once

// Positions in attention, which tell its keys apart without anything being added to the tokens. Two
// kinds go by the distance from a query back to its key: a bias is added to the score, from a table
// [heads, distances] for AttentionOptions::distance_bias, or rows to keys and values, for
// AttentionOptions::relative. The third kind rotates queries and keys by angles that grow with the
// position (Su et al. 2021, "RoFormer"), so that their products depend on the distance between
// them.
//
// Arguments that do not fit throw std::invalid_argument.

#include <cstddef>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// ALiBi's slopes (Press, Smith & Lewis 2022): 2^(−8 h / heads), h = 1 … heads, if `heads` is a
/// power of two. Otherwise those of the next smaller power of two, then every other one of the next
/// larger power.
std::vector<double> alibi_slopes(std::size_t heads);

/// ALiBi's bias by distance, −slope · distance: [heads, length].
Tensor alibi_bias(std::size_t heads, std::size_t length);

/// The bucket of a distance (Raffel et al. 2020, "T5", one-directional): half of the buckets are
/// for one distance each, the others grow with its logarithm, and the last one is for all distances
/// from about `max_distance` on. There are two or more buckets, and max_distance > buckets / 2.
std::size_t t5_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance);

/// A table [buckets, heads] → [heads, length]: the row of each distance's bucket. Its gradient has
/// only the rows of buckets that were reached.
Variable t5_bias(const Variable& table, std::size_t length, std::size_t max_distance = 128);

/// A table [2k + 1, width] of rows for the places of a key from its query, −k to k, and farther
/// ones like those (Shaw, Uszkoreit & Vaswani 2018) → the rows for keys that are not later, in a
/// sequence of `length`: [min(length, k + 1), width], the farthest first. Its gradient has only
/// those rows.
Variable relative_rows(const Variable& table, std::size_t length);

/// Which columns of a head are rotated together, as a pair.
enum class RotaryLayout {
  kHalves,      // i and i + columns / 2 (GPT-NeoX, Hugging Face's Llama)
  kInterleaved  // 2i and 2i + 1 (GPT-J, Meta's Llama)
};

/// Options of RotaryTable.
struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::kHalves;  // which columns are pairs
  /// Pair i turns by base^(−2i / columns) per position.
  double base = 10000;
  /// How many columns of each head are rotated, from the first on; 0 for all.
  std::size_t columns = 0;
  /// The position of the table's first row.
  std::size_t first_position = 0;
};

/// The angles of consecutive positions: cosines and sines [positions, columns / 2], computed in
/// double.
class RotaryTable {
 public:
  /// `columns` must be even, and at most head_width; the base finite and above 0.
  RotaryTable(std::size_t positions, std::size_t head_width, const RotaryOptions& options = {});

  std::size_t first_position() const { return first_position_; }  // of the first row
  std::size_t positions() const { return cosines_.shape()[0]; }   // number of rows
  std::size_t head_width() const { return head_width_; }          // columns of a head

 private:
  friend Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                         std::size_t first_position);

  std::size_t head_width_;
  RotaryLayout layout_;
  std::size_t first_position_;
  Tensor cosines_;
  Tensor sines_;
};

/// x [..., length, heads · head_width] → the same shape: each pair (a, b) of columns becomes
/// (a cos − b sin, a sin + b cos), by the angles of the positions from first_position on. The table
/// must outlive the tape.
Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position = 0);
Variable rotary(const Variable& x, const RotaryTable&& table, std::size_t heads,
                std::size_t first_position = 0) = delete;

}  // namespace rowgrad
