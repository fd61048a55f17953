#include <array>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <utf8proc.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>

namespace rowgrad {

Utf8Character decode_utf8(std::string_view text, std::size_t offset) {
  const auto first = static_cast<std::uint8_t>(text[offset]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code_point = 0;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset,
                       static_cast<utf8proc_ssize_t>(text.size() - offset), &code_point);
  if (bytes < 0) return {kInvalidCodePoint, 1};
  return {static_cast<char32_t>(code_point), static_cast<std::size_t>(bytes)};
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
  std::array<utf8proc_uint8_t, 4> bytes{};
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(bytes.begin(), bytes.begin() + count);
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
      const auto byte = static_cast<std::uint8_t>(text[offset]);
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
