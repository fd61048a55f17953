#pragma once

#include <string>
#include <string_view>

namespace rowgrad {

/// Bytes as printable text, one character per byte, as GPT-2's vocabulary files and ours write
/// tokens, which need not be whole UTF-8 characters. Printable Latin-1 bytes other than the blank
/// represent themselves; the 68 others become U+0100, U+0101 … in order, so that a blank is Ġ.
/// Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::string printable_from_bytes(std::string_view bytes);

/// The inverse. Throws std::invalid_argument for a character that represents no byte.
std::string bytes_from_printable(std::string_view text);

}  // namespace rowgrad
