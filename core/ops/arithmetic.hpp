#pragma once

// +, −, ×, ÷ and negation. Two variables are broadcast against each other as in NumPy. Throws
// std::invalid_argument naming the op and both shapes if they do not fit.

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

Variable add(const Variable& a, const Variable& b);
Variable subtract(const Variable& a, const Variable& b);
Variable multiply(const Variable& a, const Variable& b);
Variable divide(const Variable& a, const Variable& b);
Variable negate(const Variable& x);

Variable add(const Variable& x, real number);
Variable subtract(real number, const Variable& x);
Variable multiply(const Variable& x, real number);
Variable divide(const Variable& x, real number);
Variable divide(real number, const Variable& x);

inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return subtract(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return multiply(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return divide(a, b); }
inline Variable operator-(const Variable& x) { return negate(x); }

inline Variable operator+(const Variable& x, real number) { return add(x, number); }
inline Variable operator+(real number, const Variable& x) { return add(x, number); }
inline Variable operator-(const Variable& x, real number) { return add(x, -number); }
inline Variable operator-(real number, const Variable& x) { return subtract(number, x); }
inline Variable operator*(const Variable& x, real number) { return multiply(x, number); }
inline Variable operator*(real number, const Variable& x) { return multiply(x, number); }
inline Variable operator/(const Variable& x, real number) { return divide(x, number); }
inline Variable operator/(real number, const Variable& x) { return divide(number, x); }

}  // namespace rowgrad
