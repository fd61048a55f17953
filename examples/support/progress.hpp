#pragma once

// The progress of a long-running program: one line that is rewritten on a terminal, or plain lines
// every few seconds elsewhere.

#include <chrono>
#include <string>

namespace rowgrad {

/// 75 → "1 min 15 s", 7.25 → "7.2 s".
std::string readable_seconds(double seconds);

/// 1234567 → "1.23 M", 53210 → "53.2 k".
std::string readable_count(double count);

class Progress {
 public:
  Progress();

  /// Shows the line if the last one was shown long enough ago.
  void show(const std::string& line);

  /// Removes the line from a terminal, so that other output can follow.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace rowgrad
