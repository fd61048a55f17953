#pragma once

// Position encodings inside attention. Two kinds depend on the distance from a query back to its
// key: a bias [heads, distances] is added to the score (AttentionOptions::distance_bias), or rows
// are added to keys and values (AttentionOptions::relative). The third kind rotates queries and
// keys by angles that grow with the position (Su et al. 2021, "RoFormer"), so that their products
// depend on the distance.
//
// Invalid arguments throw std::invalid_argument.

#include <cstddef>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Returns ALiBi's slopes (Press, Smith & Lewis 2022): 2^(−8 h / heads), h = 1 … heads, if `heads`
/// is a power of two. Otherwise, the slopes for the next smaller power of two, followed by every
/// other slope for the next larger one.
std::vector<double> alibi_slopes(std::size_t heads);

/// Returns ALiBi's bias, −slope · distance: [heads, length].
Tensor alibi_bias(std::size_t heads, std::size_t length);

/// Returns the bucket of a distance (Raffel et al. 2020, "T5", one-directional). Half of the
/// buckets hold one distance each, the others are spaced logarithmically, and the last bucket is
/// for all distances from about `max_distance` on. Requires: buckets ≥ 2, max_distance > buckets /
/// 2.
std::size_t t5_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance);

/// Looks up the bucket of each distance in a table [buckets, heads] → [heads, length]. The table
/// gets a row gradient.
Variable t5_bias(const Variable& table, std::size_t length, std::size_t max_distance = 128);

/// Looks up the rows of a table [2k + 1, width] for causal attention. Table rows are for keys at −k
/// … k from the query; keys farther away use the first or last row (Shaw, Uszkoreit & Vaswani
/// 2018). Returns the rows for keys up to the query, farthest first: [min(length, k + 1), width].
/// The table gets a row gradient.
Variable relative_rows(const Variable& table, std::size_t length);

/// The pairs of columns of a head that are rotated together.
enum class RotaryLayout {
  kHalves,      // i and i + columns / 2 (GPT-NeoX, Hugging Face's Llama)
  kInterleaved  // 2i and 2i + 1 (GPT-J, Meta's Llama)
};

/// Options of RotaryTable.
struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::kHalves;  // pairs of columns
  /// The base of the angles: pair i turns by base^(−2i / columns) radians per position.
  double base = 10000;
  /// The number of rotated columns per head, from the first on; 0 for all.
  std::size_t columns = 0;
  /// The position of the first row.
  std::size_t first_position = 0;
};

/// The cosines and sines [positions, columns / 2] for consecutive positions, computed in double
/// precision.
class RotaryTable {
 public:
  /// Requires: positions > 0; an even number of rotated columns, at most head_width; a finite
  /// options.base above 0.
  RotaryTable(std::size_t positions, std::size_t head_width, const RotaryOptions& options = {});

  /// Returns the position of the first row.
  std::size_t first_position() const { return first_position_; }
  /// Returns the number of rows.
  std::size_t positions() const { return cosines_.shape()[0]; }
  /// Returns the width of a head.
  std::size_t head_width() const { return head_width_; }

 private:
  friend Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                         std::size_t first_position);

  std::size_t head_width_;
  RotaryLayout layout_;
  std::size_t first_position_;
  Tensor cosines_;
  Tensor sines_;
};

/// Rotates x [..., length, heads · head_width] → the same shape. Each pair (a, b) becomes (a cos −
/// b sin, a sin + b cos). Each sequence starts at first_position. The table must outlive the tape.
Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position = 0);
Variable rotary(const Variable& x, const RotaryTable&& table, std::size_t heads,
                std::size_t first_position = 0) = delete;

}  // namespace rowgrad
