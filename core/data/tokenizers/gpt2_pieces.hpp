#pragma once

#include <cstddef>
#include <string_view>

namespace rowgrad {

/// Returns the end of the piece that starts at `begin` < text.size(), by GPT-2's pattern
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Byte pairs merge only within a piece. The concatenated pieces are the text. A byte that is not
/// part of valid UTF-8 counts as a character that is not a letter, number or whitespace. Source:
/// openai/gpt-2, src/encoder.py.
std::size_t gpt2_piece_end(std::string_view text, std::size_t begin);

}  // namespace rowgrad
