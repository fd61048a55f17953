#pragma once

// Character classes, lower case, and bytes as printable text. Letters and numbers are Unicode's
// general categories L and N, from utf8proc.

#include <cstdint>
#include <string>
#include <string_view>

#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

/// The character classes that GPT-2's pattern distinguishes.
enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

/// Returns the class of a character. `white_space` is Unicode's White_Space property;
/// kInvalidCodePoint is `other`.
CharacterClass character_class(char32_t code_point);

/// Converts UTF-8 text to lower case, character by character: "ÄΣ" → "äσ".
std::string lower_case(std::string_view text);

/// Returns bytes as printable text, one character per byte, as in GPT-2's and rowgrad's vocabulary
/// files, whose tokens may be parts of UTF-8 characters. Printable Latin-1 bytes except the space
/// represent themselves; the 68 others become U+0100, U+0101 … in order, so a space is Ġ. Source:
/// openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::string printable_from_bytes(std::string_view bytes);

/// Inverts printable_from_bytes(). Throws for a character that does not represent a byte.
std::string bytes_from_printable(std::string_view text);

}  // namespace rowgrad
