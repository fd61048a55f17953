#pragma once

// Rotary positions (Su et al. 2021, "RoFormer"): queries and keys are rotated by angles that grow
// with the position, so that their products depend on the distance between them.

#include <cstddef>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// Which columns of a head are rotated together, as a pair.
enum class RotaryLayout {
  kHalves,      // i and i + columns / 2 (GPT-NeoX, Hugging Face's Llama)
  kInterleaved  // 2i and 2i + 1 (GPT-J, Meta's Llama)
};

struct RotaryOptions {
  RotaryLayout layout = RotaryLayout::kHalves;
  /// Pair i turns by base^(−2i / columns) per position.
  double base = 10000;
  /// How many columns of each head are rotated, from the first on; 0 for all.
  std::size_t columns = 0;
};

/// The angles of all positions, made once for a model: cosines and sines [positions, columns / 2],
/// computed in double.
class RotaryTable {
 public:
  /// Throws std::invalid_argument for 0 positions or more than memory could hold, for columns that
  /// are odd or more than head_width, and for a base that is not finite and above 0.
  RotaryTable(std::size_t positions, std::size_t head_width, const RotaryOptions& options = {});

  std::size_t positions() const { return cosines_.shape()[0]; }
  std::size_t head_width() const { return head_width_; }

 private:
  friend Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                         std::size_t first_position);

  std::size_t head_width_;
  RotaryLayout layout_;
  Tensor cosines_;
  Tensor sines_;
};

/// x [..., length, heads · head_width] → the same shape: each pair (a, b) of columns becomes
/// (a cos − b sin, a sin + b cos), by the angles of the positions from first_position on. The table
/// must outlive the tape. Throws std::invalid_argument for another shape, for 0 heads and for
/// positions that are not in the table.
Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position = 0);
Variable rotary(const Variable& x, const RotaryTable&& table, std::size_t heads,
                std::size_t first_position = 0) = delete;

}  // namespace rowgrad
