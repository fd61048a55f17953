#pragma once

// Tensors for tests: values in closed form, access by index, and comparison of elements.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::testing {

/// The spacing of `real` values at 1. Relative rounding errors are at most kEpsilon / 2.
constexpr double kEpsilon = std::numeric_limits<real>::epsilon();

constexpr real kInfinity = std::numeric_limits<real>::infinity();
constexpr real kNaN = std::numeric_limits<real>::quiet_NaN();

using Ids32 = std::vector<std::int32_t>;

/// Returns true if a and b are equal or both NaN.
inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Returns a tensor of this shape with these elements.
inline Tensor tensor(const Shape& shape, const std::vector<real>& numbers) {
  check_argument(element_count(shape) == numbers.size(), "tensor: shape ", bracketed(shape),
                 " has ", element_count(shape), " elements, got ", numbers.size());
  Tensor result = empty(shape);
  std::copy(numbers.begin(), numbers.end(), result.data());
  return result;
}

/// Returns distinct, irregular, reproducible values in (low, high): multiples of the golden ratio,
/// modulo one, which never cluster.
inline Tensor irregular(const Shape& shape, int seed = 0, double low = -1, double high = 1) {
  constexpr double kGoldenRatio = 0.6180339887498949;
  Tensor result = empty(shape);
  for (std::size_t k = 0; k < result.size(); ++k) {
    const double turns = kGoldenRatio * static_cast<double>(k + 1) + 0.377 * seed;
    result.data()[k] = static_cast<real>(low + (high - low) * (turns - std::floor(turns)));
  }
  return result;
}

/// Returns the elements 1, 2, 3 …. Small sums are exact. Misplaced elements are easy to see.
inline Tensor counting(const Shape& shape) {
  Tensor result = empty(shape);
  for (std::size_t k = 0; k < result.size(); ++k) result.data()[k] = static_cast<real>(k + 1);
  return result;
}

/// Returns ids of this shape.
inline Ids ids(const std::vector<std::size_t>& shape, const Ids32& numbers) {
  Ids result = to_ids(numbers);
  result.reshape(shape);
  return result;
}

/// Returns the row indices 0 … rows − 1.
inline Ids32 all_rows(std::size_t rows) {
  Ids32 all(rows);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Returns ids in a form that EXPECT_EQ prints.
inline Ids32 values(const Ids& ids) { return {ids.begin(), ids.end()}; }

using Index = Shape;

/// Returns x at an index, broadcast to a larger shape: axes are aligned at the last axis, and an
/// axis of length 1 repeats.
inline double at(const Tensor& x, const Index& index) {
  const std::size_t missing = index.size() - x.dimension();
  std::size_t offset = 0;
  for (std::size_t axis = 0; axis < x.dimension(); ++axis)
    offset = offset * x.shape()[axis] + (x.shape()[axis] == 1 ? 0 : index[missing + axis]);
  return x.data()[offset];
}

/// Expects `got` to have this shape and, at each index, the element entry(index), with an absolute
/// error of at most tolerance(index, expected).
template <class Entry, class Tolerance>
void expect_entries(const Tensor& got, const Shape& shape, const Entry& entry,
                    const Tolerance& tolerance, const std::string& what = "") {
  ASSERT_EQ(got.shape(), shape) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const Index index = index_at(shape, k);
    const double expected = entry(index);
    ASSERT_NEAR(got.data()[k], expected, tolerance(index, expected))
        << what << " at " << bracketed(index);
  }
}

/// Expects `got` to have this shape and, at each index, exactly entry(index) rounded to `real`.
template <class Entry>
void expect_exact(const Tensor& got, const Shape& shape, const Entry& entry,
                  const std::string& what = "") {
  ASSERT_EQ(got.shape(), shape) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const Index index = index_at(shape, k);
    ASSERT_EQ(got.data()[k], static_cast<real>(entry(index))) << what << " at " << bracketed(index);
  }
}

/// Expects equal shapes, and elements within an absolute tolerance.
inline void expect_near(const Tensor& got, const Tensor& expected, double tolerance,
                        const std::string& what = "") {
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double found = got.data()[k], wanted = expected.data()[k];
    if (std::abs(found - wanted) <= tolerance) continue;  // much faster than ASSERT_NEAR
    ASSERT_NEAR(found, wanted, tolerance) << what << " at " << bracketed(index_at(got.shape(), k));
  }
}

}  // namespace rowgrad::testing
