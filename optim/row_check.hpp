#pragma once

// The counterpart of gradient_check for optimizers: whether steps with row gradients equal steps
// with the same gradients in dense form.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// What row_check() found.
struct RowCheckResult {
  bool passed = true;      // whether both agree
  double difference = 0;   // the largest, relative to max(1, |value|); infinite for NaN
  std::size_t steps = 0;   // the step after which it was found
  std::int32_t row = 0;    // its row
  std::size_t column = 0;  // its column

  /// For people: whether it passed, and the largest difference with its place.
  std::string message() const {
    return concat(passed ? "passed" : "failed", "; the largest relative difference is ", difference,
                  " at [", row, ", ", column, "] after step ", steps);
  }
};

/// Trains a small table twice with an optimizer that `make` returns for it, with row gradients and
/// with dense ones, over random lookups and reads that the seed determines, and compares all values
/// that are read. Throws what the optimizer throws, and std::invalid_argument if there is none.
inline RowCheckResult row_check(const std::function<std::unique_ptr<Optimizer>(Parameter&)>& make,
                                std::uint64_t seed = 0) {
  constexpr std::size_t kRows = 12, kWidth = 4, kSteps = 300;
  constexpr double kTolerance = sizeof(real) == 8 ? 1e-9 : 1e-3;
  Random random(seed);
  const Tensor start = random.normal({kRows, kWidth});
  Parameter table("table", start);
  Parameter dense_table("dense_table", start);
  const auto by_rows = make(table);
  const auto dense = make(dense_table);
  check_argument(by_rows != nullptr && dense != nullptr, "row_check: make returned no optimizer");

  RowCheckResult result;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    std::vector<std::int32_t> rows;  // row 0 gets a gradient in the first steps only
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(kRows); ++row)
      if (step < 4 || (row > 0 && random.bits() % 8 == 0)) rows.push_back(row);
    const std::size_t count = rows.size();
    const RowGradient gradient({kRows, kWidth}, rows, random.normal({count, kWidth}));
    by_rows->zero_grad();
    dense->zero_grad();
    table.add_gradient(gradient);
    dense_table.add_gradient(gradient.to_dense());
    by_rows->step();
    dense->step();

    std::vector<std::int32_t> read;
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(kRows); ++row)
      if (step == kSteps || random.bits() % 16 == 0) read.push_back(row);
    const Tensor values = table.rows(read);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int32_t row = read[i / kWidth];
      const double expected = dense_table.value()(static_cast<std::size_t>(row), i % kWidth);
      double difference = std::abs(values.data()[i] - expected) / std::max(1.0, std::abs(expected));
      if (std::isnan(difference)) difference = std::numeric_limits<double>::infinity();
      if (difference <= result.difference) continue;
      result = {difference <= kTolerance, difference, step, row, i % kWidth};
    }
  }
  return result;
}

/// The same for SGD or another RuleOptimizer<…> with these options. Throws std::invalid_argument
/// for RowUpdates::kTouchedOnly, which differs from the dense step by design.
template <class Made>
RowCheckResult row_check(const typename Made::Options& options, std::uint64_t seed = 0) {
  check_argument(options.rows == RowUpdates::kExact,
                 "row_check: rows is RowUpdates::kTouchedOnly, which leaves out steps that the "
                 "dense optimizer makes; expected RowUpdates::kExact");
  return row_check(
      [&](Parameter& parameter) {
        return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
      },
      seed);
}

}  // namespace rowgrad
