#define PCRE2_CODE_UNIT_WIDTH 8

#include <array>
#include <clocale>
#include <cstdint>
#include <cwctype>
#include <locale.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pcre2.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

// --- Character classes and case ------------------------------------------------------------------

namespace {

constexpr char32_t kClassified = 0x40000;  // planes 4 to 16 have no letters or numbers

// The property White_Space, which has not changed since Unicode 6.3; PCRE2's \s differs slightly.
constexpr std::pair<char32_t, char32_t> kWhiteSpace[] = {
    {0x0009, 0x000D}, {0x0020, 0x0020}, {0x0085, 0x0085}, {0x00A0, 0x00A0}, {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

// Matches runs of one class in a text that has every code point once, in order. The categories come
// from PCRE2's tables, so that no copy of them is needed here.
std::vector<CharacterClass> class_table() {
  std::vector<CharacterClass> classes(kClassified, CharacterClass::other);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  const auto pattern = reinterpret_cast<PCRE2_SPTR>(R"((\p{L}+)|(\p{N}+)|[^\p{L}\p{N}]+)");
  const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
      pcre2_compile(pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &error_offset, nullptr),
      &pcre2_code_free);
  check_runtime(code != nullptr, "unicode: PCRE2 was built without Unicode, error ", error);
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
      pcre2_match_data_create_from_pattern(code.get(), nullptr), &pcre2_match_data_free);
  std::string text;
  for (char32_t point = 0; point < kClassified; ++point)
    if (!is_surrogate(point)) append_utf8(text, point);
  for (std::size_t begin = 0; begin < text.size();) {
    const int groups =
        pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), begin,
                    PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    check_runtime(groups > 0, "unicode: PCRE2 failed with error ", groups);
    const CharacterClass found = groups == 2   ? CharacterClass::letter
                                 : groups == 3 ? CharacterClass::number
                                               : CharacterClass::other;
    for (const std::size_t end = pcre2_get_ovector_pointer(match.get())[1]; begin < end;) {
      const Utf8Character character = decode_utf8(text, begin);
      classes[character.code_point] = found;
      begin += character.bytes;
    }
  }
  for (const auto& [first, last] : kWhiteSpace)
    for (char32_t point = first; point <= last; ++point)
      classes[point] = CharacterClass::white_space;
  return classes;
}

}  // namespace

CharacterClass character_class(char32_t code_point) {
  if (code_point >= kClassified) return CharacterClass::other;
  static const std::vector<CharacterClass> table = class_table();
  return table[code_point];
}

std::string lower_case(std::string_view text) {
  // Of the system's locales, the one that has Unicode and no language.
  static const locale_t unicode = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  check_runtime(unicode != nullptr, "lower_case: the system has no locale C.UTF-8");
  std::string lower;
  for (std::size_t offset = 0; offset < text.size();) {
    const Utf8Character character = decode_utf8(text, offset);
    append_utf8(lower, ::towlower_l(character.code_point, unicode));
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
