#pragma once

#include <functional>

namespace rowgrad::testing {

/// A scope in which fsync() is replaced for all threads. Only one may exist at a time.
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
