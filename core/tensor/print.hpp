#pragma once

#include <iosfwd>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Prints a tensor as xtensor does, long ones cut short: {{1., 2.5}, {0., 3.}}.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace rowgrad
