#pragma once

// Printing: std::cout << x for tensors and variables. Tensors are printed by xtensor, which cuts
// long ones short and has settings for that (xt::print_options).

#include <iosfwd>

#if __has_include(<xtensor/io/xio.hpp>)  // from xtensor 0.26 on
#include <xtensor/io/xio.hpp>
#else
#include <xtensor/xio.hpp>
#endif

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// A variable as what it is, its shape and its value: `matmul [1, 2] {{ 3.,  4.}}`.
std::ostream& operator<<(std::ostream& stream, const Variable& x);

}  // namespace rowgrad
