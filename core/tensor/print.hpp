#pragma once

#include <iosfwd>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Prints a tensor as xtensor does, long ones cut short: {{1., 2.5}, {0., 3.}}.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

/// Prints ids as whole numbers: {{29, 20}, {16777217, 3}}.
std::ostream& operator<<(std::ostream& stream, const Ids& ids);

}  // namespace rowgrad
