#pragma once

#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

enum class KeepAxes { kNo, kYes };  // whether a summed axis stays, with length 1

/// The sum or mean of all values; the result has rank 0.
Variable sum(const Variable& x);
Variable mean(const Variable& x);

/// The sum or mean along some axes (−1 is the last). Throws std::invalid_argument for an axis that
/// x does not have or that is named twice, and for the mean of no values.
Variable sum(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);
Variable mean(const Variable& x, const std::vector<int>& axes, KeepAxes keep = KeepAxes::kNo);

}  // namespace rowgrad
