#pragma once

// The character classes that tokenizers split by, and lower case. Letters and numbers are the
// general categories L and N of the Unicode version of the PCRE2 library.

#include <cstdint>
#include <string>
#include <string_view>

#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

/// `white_space` is Unicode's White_Space property; kInvalidCodePoint is `other`.
CharacterClass character_class(char32_t code_point);

/// The text, which must be UTF-8, with each character in lower case, one for one, as the C library
/// knows them: "ÄΣ" → "äσ".
std::string lower_case(std::string_view text);

}  // namespace rowgrad
