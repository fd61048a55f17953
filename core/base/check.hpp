#pragma once

// Checks that stay on in release builds. A message names the op, the argument, what was passed and
// what was expected; it is formatted only if the check fails.

#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace rowgrad {

/// A string stream that lets exceptions such as std::bad_alloc through. The standard one swallows
/// them and leaves the text truncated.
struct TextStream : std::ostringstream {
  TextStream() {
    exceptions(std::ios::badbit);
    imbue(std::locale::classic());  // files are read again, so a program's locale has no say
  }
};

/// Concatenates the arguments, each as `operator<<` prints it.
template <class... Arguments>
std::string concat(const Arguments&... arguments) {
  TextStream text;
  (text << ... << arguments);
  return std::move(text).str();
}

/// Prints a range such as a shape, an index or a list of axes as `[2, 3]`, truncated if it is long.
/// Refers to the range, so use it within the statement that creates it.
template <class Range>
struct bracketed {
  explicit bracketed(const Range& range) : elements(range) {}

  friend std::ostream& operator<<(std::ostream& out, const bracketed& range) {
    out << '[';
    constexpr int kMost = 16;
    int printed = 0;
    for (const auto& element : range.elements) {
      if (printed > 0) out << ", ";
      if (printed == kMost) {
        out << "...";
        break;
      }
      out << element;
      ++printed;
    }
    return out << ']';
  }

  const Range& elements;
};

/// Throws std::invalid_argument unless the condition holds: the caller passed something wrong.
template <class... Arguments>
void check_argument(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw std::invalid_argument(concat(arguments...));
}

/// Throws std::logic_error unless the condition holds: calls came in the wrong order.
template <class... Arguments>
void check_state(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw std::logic_error(concat(arguments...));
}

/// Throws std::runtime_error unless the condition holds: a file or the system is not as needed.
template <class... Arguments>
void check_runtime(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw std::runtime_error(concat(arguments...));
}

}  // namespace rowgrad
