#pragma once

#include <string>
#include <string_view>

namespace rowgrad {

/// Any bytes as printable text, one character for each byte, and back: how GPT-2's vocabulary
/// files, and ours, write tokens that are not whole UTF-8 characters. A printable byte of Latin-1
/// other than the blank stands for itself; the 68 others get U+0100, U+0101 … in order, so that a
/// blank is Ġ. Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::string printable_from_bytes(std::string_view bytes);

/// Throws std::invalid_argument for a text with a character that stands for no byte.
std::string bytes_from_printable(std::string_view text);

}  // namespace rowgrad
