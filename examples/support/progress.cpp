#include <array>
#include <cstdio>
#include <iostream>
#include <unistd.h>

#include <rowgrad/examples/support/progress.hpp>

namespace rowgrad {
namespace {

template <class... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  std::array<char, 64> text;
  std::snprintf(text.data(), text.size(), format, numbers...);
  return text.data();
}

}  // namespace

std::string readable_seconds(double seconds) {
  if (seconds < 10) return formatted("%.1f s", seconds);
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole < 60) return formatted("%ld s", whole);
  if (whole < 3600) return formatted("%ld min %ld s", whole / 60, whole % 60);
  return formatted("%ld h %ld min", whole / 3600, whole / 60 % 60);
}

std::string readable_count(double count) {
  if (count < 1e3) return formatted("%.0f", count);
  if (count < 1e6) return formatted("%.1f k", count / 1e3);
  return formatted("%.2f M", count / 1e6);
}

Progress::Progress()
    : terminal_(isatty(STDOUT_FILENO) == 1), last_(std::chrono::steady_clock::now()) {}

void Progress::show(const std::string& line) {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < (terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(5))) return;
  last_ = now;
  if (terminal_) {
    std::cout << "\r\033[K" << line << std::flush;
    shown_ = true;
  } else {
    std::cout << line << std::endl;
  }
}

void Progress::clear() {
  if (shown_) std::cout << "\r\033[K" << std::flush;
  shown_ = false;
}

}  // namespace rowgrad
