#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <rowgrad/core/autograd/gradient.hpp>

namespace rowgrad {

/// Observer of the rows that a step with a row gradient changes: see Optimizer::watch_next_step().
class RowWatcher {
 public:
  virtual ~RowWatcher() = default;

  /// Called before the step. Returns false if the watcher does not expect this gradient;
  /// row_changed() is then not called.
  virtual bool begin_step(const RowGradient& gradient) = 0;

  /// Called after row `i` of the gradient (RowGradient::row) was applied. `before` and `after` are
  /// the row's values, up to date. Threads call this concurrently for different rows.
  virtual void row_changed(std::size_t i, const real* before, const real* after) = 0;
};

/// The watchers of one step.
using RowWatchers = std::span<const std::shared_ptr<RowWatcher>>;

}  // namespace rowgrad
