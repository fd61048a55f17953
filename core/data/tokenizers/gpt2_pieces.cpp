#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {
namespace {

struct Character {
  CharacterClass kind;
  std::size_t bytes;
};

constexpr auto kAsciiClasses = [] {
  std::array<CharacterClass, 0x80> classes{};
  for (int i = 0; i < 0x80; ++i) {
    const bool letter = (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z');
    const bool number = i >= '0' && i <= '9';
    const bool white_space = i == ' ' || (i >= '\t' && i <= '\r');
    classes[static_cast<std::size_t>(i)] = letter        ? CharacterClass::letter
                                           : number      ? CharacterClass::number
                                           : white_space ? CharacterClass::white_space
                                                         : CharacterClass::other;
  }
  return classes;
}();

Character character_at(std::string_view text, std::size_t offset) {
  const auto byte = static_cast<std::uint8_t>(text[offset]);
  if (byte < kAsciiClasses.size()) return {kAsciiClasses[byte], 1};
  const Utf8Character character = decode_utf8(text, offset);
  return {character_class(character.code_point), character.bytes};
}

// Skips ASCII letters eight at a time, to save a branch per letter. Stops at any other byte or near
// the end of the text.
std::size_t skip_ascii_letters(std::string_view text, std::size_t offset) {
  if constexpr (std::endian::native != std::endian::little) return offset;
  constexpr std::uint64_t kEach = 0x0101010101010101;
  constexpr std::uint64_t kTop = 0x80 * kEach;
  for (std::uint64_t bytes; text.size() - offset >= sizeof bytes; offset += sizeof bytes) {
    std::memcpy(&bytes, text.data() + offset, sizeof bytes);
    // The top bits of from_a mark bytes ≥ 'a', and the top bits of past_z mark bytes > 'z'. The
    // sums do not carry over.
    const std::uint64_t small = (bytes | 0x20 * kEach) & ~kTop;
    const std::uint64_t from_a = small + (0x80 - 'a') * kEach;
    const std::uint64_t past_z = small + (0x7F - 'z') * kEach;
    const std::uint64_t others = ~(from_a & ~past_z & ~bytes) & kTop;
    if (others != 0) return offset + static_cast<std::size_t>(std::countr_zero(others)) / 8;
  }
  return offset;
}

std::size_t run_end(std::string_view text, std::size_t offset, CharacterClass kind) {
  if (kind == CharacterClass::letter) offset = skip_ascii_letters(text, offset);
  while (offset < text.size()) {
    const Character character = character_at(text, offset);
    if (character.kind != kind) break;
    offset += character.bytes;
  }
  return offset;
}

// Returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of the text, or 0.
std::size_t contraction_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const char first = text[1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if (text.size() < 3) return 0;
  const char second = text[2];
  const bool pair =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return pair ? 3 : 0;
}

// Returns the end of a match of \s+(?!\S)|\s+ from `begin`. Before a word, two or more whitespace
// characters leave the last one to the word.
std::size_t white_space_end(std::string_view text, std::size_t begin) {
  std::size_t last = begin;
  std::size_t end = begin;
  while (end < text.size()) {
    const Character character = character_at(text, end);
    if (character.kind != CharacterClass::white_space) return last > begin ? last : end;
    last = end;
    end += character.bytes;
  }
  return end;
}

}  // namespace

std::size_t gpt2_piece_end(std::string_view text, std::size_t begin) {
  std::size_t word = begin;
  if (text[begin] == ' ' && begin + 1 < text.size()) {
    ++word;
  } else if (const std::size_t length = contraction_length(text.substr(begin))) {
    return begin + length;
  }
  const Character first = character_at(text, word);
  if (first.kind == CharacterClass::white_space) return white_space_end(text, begin);
  return run_end(text, word + first.bytes, first.kind);
}

}  // namespace rowgrad
