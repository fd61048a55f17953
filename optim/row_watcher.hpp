#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Sees the rows that a step with a row gradient changes: see Optimizer::watch_next_step().
class RowWatcher {
 public:
  virtual ~RowWatcher() = default;

  /// Called after row `i` of the gradient (RowGradient::row) was applied. `before` and `after` are
  /// the values of that row, up to date. Threads call it at the same time for different rows.
  virtual void row_changed(std::size_t i, const real* before, const real* after) = 0;
};

using RowWatchers = std::span<const std::shared_ptr<RowWatcher>>;

}  // namespace rowgrad
