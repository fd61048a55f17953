#pragma once

// +, −, ×, ÷ and negation. Two variables are broadcast against each other as in NumPy. Throws
// std::invalid_argument naming the op and both shapes if they do not fit.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

Variable operator+(const Variable& a, const Variable& b);
Variable operator-(const Variable& a, const Variable& b);
Variable operator*(const Variable& a, const Variable& b);
Variable operator/(const Variable& a, const Variable& b);
Variable operator-(const Variable& x);

Variable operator+(const Variable& x, real number);
Variable operator-(real number, const Variable& x);
Variable operator*(const Variable& x, real number);
Variable operator/(const Variable& x, real number);
Variable operator/(real number, const Variable& x);

inline Variable operator+(real number, const Variable& x) { return x + number; }
inline Variable operator-(const Variable& x, real number) { return x + -number; }
inline Variable operator*(real number, const Variable& x) { return x * number; }

}  // namespace rowgrad
