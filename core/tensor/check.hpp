#pragma once

// Checks that stay on in release builds. A message names the op, the argument, what it got and
// what it expected; its parts are only put together when the check fails.

#include <sstream>
#include <stdexcept>
#include <string>

namespace rowgrad {

/// A stream to write text to. The standard's own keeps an exception to itself, std::bad_alloc say,
/// and the text ends where it was.
struct TextStream : std::ostringstream {
  TextStream() { exceptions(std::ios::badbit); }
};

/// The parts one after another, each as `operator<<` prints it.
template <class... Parts>
std::string concat(const Parts&... parts) {
  TextStream text;
  (text << ... << parts);
  return std::move(text).str();
}

/// Prints a range of numbers as `[2, 3]`: shapes, indices, axes; a long one cut short. Refers to
/// the range: to be used within the statement that makes it.
template <class Range>
struct bracketed {
  explicit bracketed(const Range& range) : numbers(range) {}

  friend std::ostream& operator<<(std::ostream& out, const bracketed& range) {
    out << '[';
    constexpr int kMost = 16;
    int printed = 0;
    for (const auto& number : range.numbers) {
      if (printed > 0) out << ", ";
      if (printed == kMost) {
        out << "...";
        break;
      }
      out << number;
      ++printed;
    }
    return out << ']';
  }

  const Range& numbers;
};

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
