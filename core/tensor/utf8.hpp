#pragma once

// UTF-8, and texts of unknown length and contents as messages quote them.

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>

namespace rowgrad {

/// What stands for a byte that is not part of well-formed UTF-8.
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;

struct Utf8Character {
  char32_t code_point;
  std::size_t bytes;  // 1 for an invalid byte
};

/// The character that begins at `offset`, which is inside the text. Overlong forms, surrogates and
/// numbers above U+10FFFF are not well-formed (Unicode 15, table 3-7).
Utf8Character decode_utf8(std::string_view text, std::size_t offset);

/// Throws std::invalid_argument, which begins with `caller` and names the first byte that is not
/// part of well-formed UTF-8 and its offset.
void check_utf8(std::string_view caller, std::string_view text);

/// Appends the UTF-8 form of a code point, at most U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

/// Whether it is one of the halves that UTF-16 makes characters above U+FFFF of.
constexpr bool is_surrogate(char32_t code_point) {
  return code_point >= 0xD800 && code_point < 0xE000;
}

/// A text in quotation marks for a message: control characters and invalid bytes as \x0a, a long
/// text cut short. It is put together only when it is printed.
struct InQuotes {
  explicit InQuotes(std::string_view quoted) : text(quoted) {}
  std::string_view text;
};
inline InQuotes in_quotes(std::string_view text) { return InQuotes(text); }
std::ostream& operator<<(std::ostream& stream, InQuotes quote);

}  // namespace rowgrad
