#pragma once

// The character classes that tokenizers split by. Letters and numbers are the general categories L
// and N of the Unicode version of the PCRE2 library.

#include <cstdint>

#include <rowgrad/core/tensor/utf8.hpp>

namespace rowgrad {

enum class CharacterClass : std::uint8_t { other, letter, number, white_space };

/// `white_space` is Unicode's White_Space property; kInvalidCodePoint is `other`.
CharacterClass character_class(char32_t code_point);

}  // namespace rowgrad
