#pragma once

// Checks that stay on in release builds. A message names the function, the argument, the value that
// was passed and the expected value. It is formatted only if the check fails.

#include <initializer_list>
#include <sstream>
#include <stdexcept>
#include <string>

namespace rowgrad {

/// A string stream that propagates exceptions such as std::bad_alloc. The standard stream swallows
/// them and leaves the string truncated.
struct StringStream : std::ostringstream {
  StringStream();  // creates an empty stream that throws if writing fails
};

/// A reference to a value of any type that has an `operator<<`. Type-erased, so that join() is
/// compiled only once.
class StringPiece {
 public:
  /// Borrows a C string.
  StringPiece(const char* text)
      : value_(text), print_([](std::ostream& out, const void* value) {
          out << static_cast<const char*>(value);
        }) {}

  /// Borrows a value of any other type.
  template <class Value>
  StringPiece(const Value& value)
      : value_(&value), print_([](std::ostream& out, const void* object) {
          out << *static_cast<const Value*>(object);
        }) {}

  /// Prints the value.
  friend std::ostream& operator<<(std::ostream& out, const StringPiece& piece) {
    piece.print_(out, piece.value_);
    return out;
  }

 private:
  const void* value_;
  void (*print_)(std::ostream&, const void*);
};

/// Concatenates the pieces, each as `operator<<` prints it.
std::string join(std::initializer_list<StringPiece> pieces);

/// Concatenates the arguments, each as `operator<<` prints it.
template <class... Arguments>
std::string concat(const Arguments&... arguments) {
  return join({arguments...});
}

/// A range such as a shape, an index or a list of axes, which prints as `[2, 3]`, truncated if it
/// is long. Holds a reference to the range, so use this object only in the statement that creates
/// it.
template <class Range>
struct bracketed {
  /// Refers to the range.
  explicit bracketed(const Range& range) : elements(range) {}

  /// Prints the range.
  friend std::ostream& operator<<(std::ostream& out, const bracketed& range) {
    out << '[';
    constexpr int kMax = 16;
    int printed = 0;
    for (const auto& element : range.elements) {
      if (printed > 0) out << ", ";
      if (printed == kMax) {
        out << "...";
        break;
      }
      out << element;
      ++printed;
    }
    return out << ']';
  }

  const Range& elements;  // borrowed
};

/// Throw the named exception, with the joined pieces as its message.
[[noreturn, gnu::cold]] void throw_invalid_argument(std::initializer_list<StringPiece> pieces);
[[noreturn, gnu::cold]] void throw_logic_error(std::initializer_list<StringPiece> pieces);
[[noreturn, gnu::cold]] void throw_runtime_error(std::initializer_list<StringPiece> pieces);

/// Checks an argument: throws std::invalid_argument unless the condition holds.
template <class... Arguments>
void check_argument(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw_invalid_argument({arguments...});
}

/// Checks the order of calls: throws std::logic_error unless the condition holds.
template <class... Arguments>
void check_state(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw_logic_error({arguments...});
}

/// Checks a file or the system: throws std::runtime_error unless the condition holds.
template <class... Arguments>
void check_runtime(bool condition, const Arguments&... arguments) {
  if (!condition) [[unlikely]]
    throw_runtime_error({arguments...});
}

}  // namespace rowgrad
