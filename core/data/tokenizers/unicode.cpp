#include <array>
#include <cstdint>
#include <string>
#include <utf8proc.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

CharacterClass character_class(char32_t code_point) {
  // Of control characters, these have the property White_Space.
  if ((code_point >= U'\t' && code_point <= U'\r') || code_point == U'\u0085')
    return CharacterClass::white_space;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code_point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::white_space;
    default:
      return CharacterClass::other;
  }
}

std::string lower_case(std::string_view text) {
  std::string lower;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    append_utf8(lower, static_cast<char32_t>(
                           utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code_point))));
    offset += character.bytes;
  }
  return lower;
}

// --- Bytes as text -------------------------------------------------------------------------------

namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int kOthers = 68;
constexpr std::int16_t kNoByte = -1;
constexpr int kCodePoints = 0x100 + kOthers;

struct ByteMap {
  std::array<std::uint16_t, 256> code_point{};
  std::array<std::int16_t, kCodePoints> byte{};

  constexpr ByteMap() {
    byte.fill(kNoByte);
    int next = 0x100;
    for (int i = 0; i < 256; ++i) {
      const int point = stands_for_itself(i) ? i : next++;
      code_point[static_cast<std::size_t>(i)] = static_cast<std::uint16_t>(point);
      byte[static_cast<std::size_t>(point)] = static_cast<std::int16_t>(i);
    }
  }
};

constexpr ByteMap kByteMap;

}  // namespace

std::string printable_from_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes)
    append_utf8(text, kByteMap.code_point[static_cast<std::uint8_t>(byte)]);
  return text;
}

std::string bytes_from_printable(std::string_view text) {
  std::string bytes;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    const bool known = character.code_point < kCodePoints;
    const std::int16_t byte = known ? kByteMap.byte[character.code_point] : kNoByte;
    check_argument(byte != kNoByte, in_quotes(text), " has a character that stands for no byte");
    bytes += static_cast<char>(byte);
    offset += character.bytes;
  }
  return bytes;
}

}  // namespace rowgrad
