#pragma once

#include <functional>

namespace rowgrad::testing {

/// Replaces fsync() for all threads, until the end of a scope. Only one may exist at a time.
class ReplacedSyncs {
 public:
  explicit ReplacedSyncs(std::function<int(int)> replacement);
  ~ReplacedSyncs();
  ReplacedSyncs(const ReplacedSyncs&) = delete;
  ReplacedSyncs& operator=(const ReplacedSyncs&) = delete;

  static bool any();

  /// Calls the kernel's fsync.
  static int sync(int file);
};

}  // namespace rowgrad::testing
