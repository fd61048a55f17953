#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <rowgrad/core/data/token_source.hpp>

namespace rowgrad {

struct WindowOptions {
  /// The number of ids in a window. Required.
  std::size_t context = 0;
  /// The distance between the starts of consecutive windows. Required. If it equals `context`, each
  /// id is an input at most once; if it is 1, every possible window is used.
  std::size_t stride = 0;
};

/// The windows of a text of N ids: they start at 0, stride, 2 · stride … < N − context. The target
/// of an id is the next id, so a window needs context + 1 ids. Copyable and movable; copies share
/// the ids.
class TokenWindows {
 public:
  /// Throws std::invalid_argument for ids that are not of rank 1, for a context or a stride below
  /// 1, and for a text too short for one window.
  TokenWindows(TokenSource text, const WindowOptions& options);

  /// The number of windows, at least 1.
  std::size_t size() const { return size_; }

  std::size_t context() const { return options_.context; }
  const TokenSource& text() const { return text_; }

  /// Copies the ids of window i and the one after them, the last target: [context + 1]. Throws
  /// std::invalid_argument for a window that is out of range, and as TokenSource::read does.
  void read(std::size_t i, std::span<std::int32_t> ids) const;

  /// The ids of window i and the same shifted by one, [context] each, of a text in memory; valid as
  /// long as this object. Throws std::invalid_argument for a window that is out of range, and
  /// std::logic_error for a text in files.
  std::span<const std::int32_t> inputs(std::size_t i) const { return from(i, 0); }
  std::span<const std::int32_t> targets(std::size_t i) const { return from(i, 1); }

 private:
  std::span<const std::int32_t> from(std::size_t i, std::size_t shift) const;
  std::uint64_t begin(std::size_t i) const;

  TokenSource text_;
  WindowOptions options_;
  std::size_t size_;
};

}  // namespace rowgrad
