#include <array>
#include <cstdint>
#include <cstdio>
#include <ostream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t offset) {
  return static_cast<std::uint8_t>(text[offset]);
}

}  // namespace

Utf8Character decode_utf8(std::string_view text, std::size_t offset) {
  const std::uint8_t first = byte_at(text, offset);
  if (first < 0x80) return {first, 1};
  const Utf8Character invalid{kInvalidCodePoint, 1};
  const std::size_t bytes = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes == 0 || first > 0xF4 || text.size() - offset < bytes) return invalid;
  char32_t code_point = first & (0x7F >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const std::uint8_t next = byte_at(text, offset + i);
    if ((next & 0xC0) != 0x80) return invalid;
    code_point = code_point << 6 | (next & 0x3F);
  }
  constexpr std::array<char32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  if (code_point < kSmallest[bytes] || code_point >= 0x110000 || is_surrogate(code_point)) {
    return invalid;
  }
  return {code_point, bytes};
}

void check_utf8(std::string_view caller, std::string_view text) {
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    check_argument(character.code_point != kInvalidCodePoint, caller, ": the byte ",
                   in_quotes(text.substr(offset, 1)), " at byte ", offset,
                   " of the text is not part of valid UTF-8");
    offset += character.bytes;
  }
}

void append_utf8(std::string& text, char32_t code_point) {
  const int more = code_point < 0x80 ? 0 : code_point < 0x800 ? 1 : code_point < 0x10000 ? 2 : 3;
  const char32_t length = more == 0 ? 0 : 0xFF00 >> (more + 1) & 0xFF;  // as many bits as bytes
  text += static_cast<char>(length | code_point >> 6 * more);
  for (int shift = 6 * (more - 1); shift >= 0; shift -= 6)
    text += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
}

std::string shown_byte(unsigned char byte) {
  std::array<char, 8> text;
  std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
  return text.data();
}

std::string shown_bytes(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = decode_utf8(text, at);
    if (character.code_point == kInvalidCodePoint)
      shown += shown_byte(static_cast<unsigned char>(text[at]));
    else
      shown += text.substr(at, character.bytes);
    at += character.bytes;
  }
  return shown;
}

std::ostream& operator<<(std::ostream& stream, InQuotes quote) {
  constexpr std::size_t kLongest = 60;
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  const std::string_view text = quote.text;
  stream << '"';
  std::size_t offset = 0;
  std::size_t printed = 0;
  while (offset < text.size() && printed < kLongest) {
    const auto [code_point, bytes] = decode_utf8(text, offset);
    const bool is_control = code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0);
    const bool escaped = is_control || code_point == kInvalidCodePoint;
    for (const std::size_t end = offset + bytes; offset < end; ++offset) {
      const std::uint8_t byte = byte_at(text, offset);
      if (escaped)
        stream << "\\x" << kHexadecimal[byte >> 4] << kHexadecimal[byte & 15];
      else
        stream << text[offset];
      printed += escaped ? 4 : 1;
    }
  }
  return stream << (offset < text.size() ? "...\"" : "\"");
}

}  // namespace rowgrad
