#pragma once

// Axes as users write them: −1 is the last one.

#include <cstddef>
#include <string_view>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// The axis counted from 0. Throws std::invalid_argument naming `op` if there is no such axis.
inline std::size_t resolve_axis(std::string_view op, int axis, std::size_t rank) {
  const int count = static_cast<int>(rank);
  check_argument(axis >= -count && axis < count, op, ": axis ", axis, " is outside a rank of ",
                 rank);
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

/// One flag per axis. Throws std::invalid_argument for an axis out of range or named twice.
inline std::vector<bool> resolve_axes(std::string_view op, const std::vector<int>& axes,
                                      std::size_t rank) {
  std::vector<bool> marked(rank);
  for (const int axis : axes) {
    const std::size_t index = resolve_axis(op, axis, rank);
    check_argument(!marked[index], op, ": axis ", axis, " is named twice");
    marked[index] = true;
  }
  return marked;
}

/// A shape split at one axis: the number of elements before, along and after it.
struct AxisView {
  std::size_t outer = 1;
  std::size_t extent = 1;
  std::size_t inner = 1;

  AxisView(const Shape& shape, std::size_t axis) : extent(shape[axis]) {
    for (std::size_t i = 0; i < axis; ++i) outer *= shape[i];
    for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  }
};

}  // namespace rowgrad
