#pragma once

// Checks that stay on in release builds. A message names the op, the argument, what it got and
// what it expected; its parts are only put together when the check fails.

#include <sstream>
#include <stdexcept>
#include <string>

namespace rowgrad {

/// The parts one after another, each as `operator<<` prints it.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return std::move(text).str();
}

/// `[2, 3]` for any range of numbers: shapes, indices, axes.
template <class Range>
std::string bracketed(const Range& range) {
  std::ostringstream text;
  text << '[';
  const char* separator = "";
  for (const auto& entry : range) {
    text << separator << entry;
    separator = ", ";
  }
  text << ']';
  return std::move(text).str();
}

/// Throws std::invalid_argument: the caller passed something wrong.
template <class... Parts>
void check_argument(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw std::invalid_argument(concat(parts...));
}

/// Throws std::logic_error: the calls came in the wrong order.
template <class... Parts>
void check_state(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw std::logic_error(concat(parts...));
}

/// Throws std::runtime_error: a file or the world is not as needed.
template <class... Parts>
void check_runtime(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw std::runtime_error(concat(parts...));
}

}  // namespace rowgrad
