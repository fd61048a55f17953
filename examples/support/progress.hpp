#pragma once

// What a program that works for a while shows: one line that is rewritten on a terminal, plain
// lines every few seconds elsewhere.

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

  /// Shows the line if the last one has been there long enough.
  void show(const std::string& line);

  /// Removes a rewritten line, so that other output can follow.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace rowgrad
