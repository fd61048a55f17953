#pragma once

// The character classes that tokenizers split by, lower case, and bytes as printable text. Letters
// and numbers are the general categories L and N of utf8proc, which is what all of rowgrad knows of
// Unicode.

#include <cstdint>
#include <string>
#include <string_view>

#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

/// As GPT-2's pieces tell characters apart: by general category.
enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

/// `white_space` is Unicode's White_Space property; kInvalidCodePoint is `other`.
CharacterClass character_class(char32_t code_point);

/// The text, which must be UTF-8, with each character in lower case, one for one: "ÄΣ" → "äσ".
std::string lower_case(std::string_view text);

/// Bytes as printable text, one character per byte, as GPT-2's vocabulary files and ours write
/// tokens, which need not be whole UTF-8 characters. Printable Latin-1 bytes other than the blank
/// represent themselves; the 68 others become U+0100, U+0101 … in order, so that a blank is Ġ.
/// Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::string printable_from_bytes(std::string_view bytes);

/// The inverse. Refuses a character that represents no byte.
std::string bytes_from_printable(std::string_view text);

}  // namespace rowgrad
