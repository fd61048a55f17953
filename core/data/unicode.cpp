#define PCRE2_CODE_UNIT_WIDTH 8

#include <array>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <pcre2.h>

#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kCodePoints = 0x110000;
constexpr std::size_t kPlane = 0x10000;
constexpr std::size_t kClassified = 4 * kPlane;  // planes 4 to 16 have no letters and no numbers

std::uint8_t byte_at(std::string_view text, std::size_t offset) {
  return static_cast<std::uint8_t>(text[offset]);
}

// The property White_Space. It has not changed since Unicode 6.3, and PCRE2's \s is not quite it.
constexpr std::pair<std::size_t, std::size_t> kWhiteSpace[] = {
    {0x0009, 0x000D}, {0x0020, 0x0020}, {0x0085, 0x0085}, {0x00A0, 0x00A0}, {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

bool is_surrogate(std::size_t code_point) { return code_point >= 0xD800 && code_point < 0xE000; }

void append_utf8(std::string& text, std::size_t code_point) {
  const auto append = [&](std::size_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto continuation = [&](int shift) { append(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    append(code_point);
  } else if (code_point < 0x800) {
    append(0xC0 | code_point >> 6);
    continuation(0);
  } else if (code_point < kPlane) {
    append(0xE0 | code_point >> 12);
    continuation(6);
    continuation(0);
  } else {
    append(0xF0 | code_point >> 18);
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

// Asks PCRE2 for runs of one class in a text that holds every code point once, in order. Only the
// library's tables know the categories, and so no copy of them needs to be kept here.
class ClassTable {
 public:
  ClassTable() : classes_(kClassified, CharacterClass::other) {
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    const auto pattern = reinterpret_cast<PCRE2_SPTR>(R"((\p{L}+)|(\p{N}+)|[^\p{L}\p{N}]+)");
    const std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code(
        pcre2_compile(pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF, &error, &error_offset, nullptr),
        &pcre2_code_free);
    check_runtime(code != nullptr, "unicode: PCRE2 was built without Unicode, error ", error);
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> match(
        pcre2_match_data_create_from_pattern(code.get(), nullptr), &pcre2_match_data_free);
    for (std::size_t plane = 0; plane < kClassified; plane += kPlane) {
      fill_plane(plane, code.get(), match.get());
    }
    for (const auto& [first, last] : kWhiteSpace)
      for (std::size_t point = first; point <= last; ++point)
        classes_[point] = CharacterClass::white_space;
  }

  CharacterClass operator[](std::size_t code_point) const { return classes_[code_point]; }

 private:
  void fill_plane(std::size_t plane, const pcre2_code* code, pcre2_match_data* match) {
    std::string text;
    for (std::size_t point = plane; point < plane + kPlane; ++point) {
      if (!is_surrogate(point)) append_utf8(text, point);
    }
    std::size_t point = plane;
    for (std::size_t begin = 0; begin < text.size();) {
      const int groups = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                     begin, PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, match, nullptr);
      check_runtime(groups > 0, "unicode: PCRE2 failed with error ", groups);
      const CharacterClass found = groups == 2   ? CharacterClass::letter
                                   : groups == 3 ? CharacterClass::number
                                                 : CharacterClass::other;
      const std::size_t end = pcre2_get_ovector_pointer(match)[1];
      for (; begin < end; ++point) {
        if (is_surrogate(point)) continue;
        classes_[point] = found;
        begin += point < 0x80 ? 1 : point < 0x800 ? 2 : point < kPlane ? 3 : 4;
      }
    }
  }

  std::vector<CharacterClass> classes_;
};

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
  if (code_point < kSmallest[bytes] || code_point >= kCodePoints || is_surrogate(code_point)) {
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

CharacterClass character_class(char32_t code_point) {
  if (code_point >= kClassified) return CharacterClass::other;
  static const ClassTable table;
  return table[code_point];
}

std::ostream& operator<<(std::ostream& stream, InQuotes quote) {
  constexpr std::size_t kLongest = 60;
  constexpr std::string_view kHexadecimal = "0123456789abcdef";
  const std::string_view text = quote.text;
  stream << '"';
  std::size_t offset = 0;
  while (offset < text.size() && offset < kLongest) {
    const Utf8Character character = decode_utf8(text, offset);
    const std::uint8_t byte = byte_at(text, offset);
    if (character.code_point == kInvalidCodePoint || byte < 0x20 || byte == 0x7F) {
      stream << "\\x" << kHexadecimal[byte >> 4] << kHexadecimal[byte & 15];
    } else {
      stream << text.substr(offset, character.bytes);
    }
    offset += character.bytes;
  }
  return stream << (offset < text.size() ? "...\"" : "\"");
}

}  // namespace rowgrad
