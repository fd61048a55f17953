#pragma once

// The counterpart of gradient_check for optimizers: compares steps with row gradients to steps
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

/// The result of row_check().
struct RowCheckResult {
  bool passed = true;      // true if all values agree
  double difference = 0;   // largest difference / max(1, |value|); infinite for NaN
  std::size_t steps = 0;   // the step after which it occurred
  std::int32_t row = 0;    // the row in which it occurred
  std::size_t column = 0;  // the column in which it occurred

  /// Returns a readable summary.
  std::string message() const {
    return concat(passed ? "passed" : "failed", "; the largest relative difference is ", difference,
                  " at [", row, ", ", column, "] after step ", steps);
  }
};

/// Trains a small table with row gradients and another with the same gradients in dense form, each
/// with an optimizer from `make`, and compares all values that are read. The seed determines
/// all random choices. Throws what the optimizer throws, or std::invalid_argument if `make` returns
/// null.
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
  check_argument(by_rows != nullptr && dense != nullptr,
                 "row_check: make returned null, expected an optimizer");

  RowCheckResult result;
  for (std::size_t step = 1; step <= kSteps; ++step) {
    std::vector<std::int32_t> rows;  // row 0 has a gradient in the first three steps only
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

/// Checks SGD or another RuleOptimizer<…> with these options. Throws std::invalid_argument for
/// RowUpdates::kTouchedOnly, which differs from the dense step by design.
template <class Made>
RowCheckResult row_check(const typename Made::Options& options, std::uint64_t seed = 0) {
  check_argument(options.rows == RowUpdates::kExact,
                 "row_check: rows is RowUpdates::kTouchedOnly, which skips steps of the dense "
                 "optimizer; expected RowUpdates::kExact");
  return row_check(
      [&](Parameter& parameter) {
        return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
      },
      seed);
}

}  // namespace rowgrad
