#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>

namespace rowgrad {

/// A row of a table, and its cosine with a vector.
struct Neighbour {
  std::int32_t row;
  double cosine;  // from −1 to 1
};

/// Returns the `count` rows with the largest cosines with a vector, or with a row, which is left
/// out. Of equal cosines, the lower row comes first. Rows of zeros have cosine 0, as in PyTorch.
/// Rows with values that are not finite are left out. Returns fewer rows if the table has no more.
/// Throws std::invalid_argument unless the table is [rows, width], and the vector is in it or
/// [width], with a length that is above 0 and finite.
std::vector<Neighbour> nearest(const Tensor& table, std::int32_t row, std::size_t count);
std::vector<Neighbour> nearest(const Tensor& table, const Tensor& vector, std::size_t count);

/// Calls nearest() for the up-to-date values of a table in memory.
std::vector<Neighbour> nearest(const Parameter& table, const auto& to, std::size_t count) {
  return nearest(table.value(), to, count);
}

}  // namespace rowgrad
