#pragma once

// The same numbers in another arrangement. Axes may be counted from the end: −1 is the last. Throws
// std::invalid_argument, naming op and shapes, for what does not fit.

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// The numbers in row-major order under another shape of the same size.
Variable reshape(const Variable& x, const Shape& shape);

/// Axis i of the result is axis axes[i] of x.
Variable permute(const Variable& x, const std::vector<int>& axes);

/// Two axes exchanged; by default the last two.
Variable transpose(const Variable& x, int first = -2, int second = -1);

/// Variables that differ in length along one axis only, one after another along it.
Variable concatenate(std::span<const Variable> parts, int axis);
Variable concatenate(std::initializer_list<Variable> parts, int axis);

/// Entries begin, begin + step, … before end along one axis. Negative begin and end count from the
/// axis's end, as in Python; a range that leaves the axis is an error, not cut.
constexpr std::ptrdiff_t kAxisEnd = std::numeric_limits<std::ptrdiff_t>::max();
Variable slice(const Variable& x, int axis, std::ptrdiff_t begin, std::ptrdiff_t end = kAxisEnd,
               std::size_t step = 1);

/// Pieces of `length` entries along one axis, the last one of what is left.
std::vector<Variable> split(const Variable& x, std::size_t length, int axis);

/// Variables of one shape along a new axis, which `axis` counts in the result.
Variable stack(std::span<const Variable> parts, int axis = 0);
Variable stack(std::initializer_list<Variable> parts, int axis = 0);

/// A new axis of length 1, which `axis` counts in the result; and one taken away.
Variable unsqueeze(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);

}  // namespace rowgrad
