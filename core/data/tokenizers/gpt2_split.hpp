#pragma once

#include <cstddef>
#include <string_view>

namespace rowgrad {

/// The end of the piece of `text` that starts at `begin` (inside the text), by GPT-2's pattern
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Byte pairs merge only within a piece; the concatenated pieces are the text. A byte that is not
/// part of valid UTF-8 counts as a character that is not a letter, number or white space.
/// Source: openai/gpt-2, src/encoder.py.
std::size_t gpt2_piece_end(std::string_view text, std::size_t begin);

/// Whether a piece ends before the byte at `place` (inside the text and not its first) in every
/// text that contains this one, so that what is before and what is after can be split separately.
/// Tells it from the two characters around the place, and gives false where they do not suffice:
///
///   - Letters, numbers and other characters of two kinds never share a piece, except that a
///     letter may follow an apostrophe.
///   - White space begins a piece if something else is before it; where the piece ends that it
///     begins depends on what follows. So nothing is cut within or after white space.
bool gpt2_can_cut(std::string_view text, std::size_t place);

}  // namespace rowgrad
