#pragma once

// Decoding UTF-8, and quoting arbitrary strings in messages.

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>

namespace rowgrad {

/// The code point of an invalid byte.
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;

/// A decoded character.
struct Utf8Character {
  char32_t code_point;  // kInvalidCodePoint for an invalid byte
  std::size_t bytes;    // 1 for an invalid byte
};

/// Decodes the character at `offset`, which must be inside the string. Overlong forms, surrogates
/// and values above U+10FFFF are not well-formed (Unicode 15, table 3-7).
Utf8Character decode_utf8(std::string_view text, std::size_t offset);

/// Throws std::invalid_argument if the string is not well-formed UTF-8. The message starts with
/// `caller` and gives the first invalid byte and its offset.
void check_utf8(std::string_view caller, std::string_view text);

/// Appends a code point in UTF-8. Requires: code_point <= U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

/// Returns the string with invalid bytes as <0xNN>.
std::string shown_bytes(std::string_view text);
/// Formats a byte as <0xNN>.
std::string shown_byte(unsigned char byte);

/// A string that prints in quotation marks, for messages. Control characters and invalid bytes
/// print as \xNN, and long strings are truncated. Nothing is formatted until it is printed.
struct InQuotes {
  explicit InQuotes(std::string_view quoted) : text(quoted) {}  // borrows the string
  std::string_view text;                                        // the string to quote
};
inline InQuotes in_quotes(std::string_view text) { return InQuotes(text); }
std::ostream& operator<<(std::ostream& stream, InQuotes quote);

}  // namespace rowgrad
