#include <array>
#include <cstdint>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_text.hpp>

namespace rowgrad {
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
