#pragma once

#include <cstdint>
#include <span>

#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

struct WindowOptions {
  /// The ids in one window. Must be given.
  std::size_t context = 0;
  /// From the start of one window to the start of the next. Must be given; equal to `context`, each
  /// id is an input once, and 1 makes every window that there is.
  std::size_t stride = 0;
};

/// The windows of a text of N ids: they start at 0, stride, 2·stride … < N − context. The target of
/// an id is the one after it, so that a window needs context + 1 ids. Owns the ids; copies and
/// moves.
class TokenWindows {
 public:
  /// `ids` of rank 1. Throws std::invalid_argument for another rank, for a context or a stride
  /// below 1, and for a text too short for one window.
  TokenWindows(Ids ids, const WindowOptions& options);

  /// The number of windows, at least 1.
  std::size_t size() const { return size_; }

  std::size_t context() const { return options_.context; }
  std::size_t stride() const { return options_.stride; }
  const Ids& ids() const { return ids_; }

  /// The ids of window i and the same shifted by one, [context] each, which live as long as the
  /// windows do. Throws std::invalid_argument for a window that is out of range.
  std::span<const std::int32_t> inputs(std::size_t i) const { return from(i, 0); }
  std::span<const std::int32_t> targets(std::size_t i) const { return from(i, 1); }

 private:
  std::span<const std::int32_t> from(std::size_t i, std::size_t shift) const;

  Ids ids_;
  WindowOptions options_;
  std::size_t size_;
};

struct Split {
  Ids train;
  Ids validation;
};

/// The ids in two parts: of N, the first floor((1 − validation_fraction)·N) are for training, the
/// rest for validation. Throws std::invalid_argument for ids not of rank 1 and a fraction outside
/// [0, 1).
Split split(const Ids& ids, double validation_fraction);

}  // namespace rowgrad
