#pragma once

// UTF-8 and the character classes that tokenizers split by. Letters and numbers are the general
// categories L and N of the Unicode version that the PCRE2 library knows.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
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

enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

/// `white_space` is Unicode's White_Space property; kInvalidCodePoint is `other`.
CharacterClass character_class(char32_t code_point);

/// A text in quotation marks for a message: control characters and invalid bytes as \x0a, a long
/// text cut short. It is put together only when it is printed.
struct InQuotes {
  std::string_view text;
};
inline InQuotes in_quotes(std::string_view text) { return {text}; }
std::ostream& operator<<(std::ostream& stream, InQuotes quote);

}  // namespace rowgrad
