#include <cstdint>
#include <optional>
#include <string>
#include <utf8proc.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

CharacterClass character_class(char32_t code_point) {
  // These control characters have the property White_Space.
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

// Maps 0x00 … 0x20, 0x7F … 0xA0 and 0xAD to code points from 0x100 on, other bytes to themselves.
constexpr char32_t code_point_of(std::uint8_t byte) {
  if (byte <= 0x20) return 0x100U + byte;
  if (byte >= 0x7F && byte <= 0xA0) return 0x121U + byte - 0x7F;
  return byte == 0xAD ? 0x143U : byte;
}

std::optional<std::uint8_t> byte_of(char32_t code_point) {
  char32_t byte = code_point;
  if (code_point >= 0x100 && code_point <= 0x120) byte = code_point - 0x100;
  if (code_point >= 0x121 && code_point <= 0x142) byte = code_point - 0x121 + 0x7F;
  if (code_point == 0x143) byte = 0xAD;
  const auto found = static_cast<std::uint8_t>(byte);
  return code_point_of(found) == code_point ? std::optional(found) : std::nullopt;
}

}  // namespace

std::string printable_from_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) append_utf8(text, code_point_of(static_cast<std::uint8_t>(byte)));
  return text;
}

std::string bytes_from_printable(std::string_view text) {
  std::string bytes;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    const std::optional<std::uint8_t> byte = byte_of(character.code_point);
    check_argument(byte.has_value(), in_quotes(text),
                   " has a character that does not represent a byte");
    bytes += static_cast<char>(*byte);
    offset += character.bytes;
  }
  return bytes;
}

}  // namespace rowgrad
