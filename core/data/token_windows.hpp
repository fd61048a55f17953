#pragma once

#include <cstdint>
#include <span>

#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

struct WindowOptions {
  /// The number of ids in a window. Required.
  std::size_t context = 0;
  /// The distance between the starts of consecutive windows. Required. If it equals `context`, each
  /// id is an input at most once; if it is 1, every possible window is used.
  std::size_t stride = 0;
};

/// The windows of a text of N ids: they start at 0, stride, 2 · stride … < N − context. The target
/// of an id is the next id, so a window needs context + 1 ids. Owns the ids. Copyable and movable.
class TokenWindows {
 public:
  /// `ids` must have rank 1. Throws std::invalid_argument for another rank, for a context or a
  /// stride below 1, and for a text too short for one window.
  TokenWindows(Ids ids, const WindowOptions& options);

  /// The number of windows, at least 1.
  std::size_t size() const { return size_; }

  std::size_t context() const { return options_.context; }
  const Ids& ids() const { return ids_; }

  /// The ids of window i and the same shifted by one, [context] each; valid as long as this object.
  /// Throws std::invalid_argument for a window that is out of range.
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

/// Splits N ids: the first floor((1 − validation_fraction) · N) are for training, the rest for
/// validation. Throws std::invalid_argument for ids that are not of rank 1 and a fraction outside
/// [0, 1).
Split split(const Ids& ids, double validation_fraction);

}  // namespace rowgrad
