#pragma once

#include <iosfwd>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Prints a tensor row by row, in columns: [[1, 2.5],
///                                          [0,   3]]. If it has more than 1,000 values, prints
/// only the first and last three along each axis.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace rowgrad
