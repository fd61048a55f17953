#define PCRE2_CODE_UNIT_WIDTH 8

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pcre2.h>

#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

constexpr char32_t kPlane = 0x10000;
constexpr char32_t kClassified = 4 * kPlane;  // planes 4 to 16 have no letters or numbers

// The property White_Space, which has not changed since Unicode 6.3; PCRE2's \s differs slightly.
constexpr std::pair<char32_t, char32_t> kWhiteSpace[] = {
    {0x0009, 0x000D}, {0x0020, 0x0020}, {0x0085, 0x0085}, {0x00A0, 0x00A0}, {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

// Matches runs of one class in a text that has every code point once, in order. The categories come
// from PCRE2's tables, so that no copy of them is needed here.
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
    for (char32_t plane = 0; plane < kClassified; plane += kPlane) {
      fill_plane(plane, code.get(), match.get());
    }
    for (const auto& [first, last] : kWhiteSpace)
      for (char32_t point = first; point <= last; ++point)
        classes_[point] = CharacterClass::white_space;
  }

  CharacterClass operator[](char32_t code_point) const { return classes_[code_point]; }

 private:
  void fill_plane(char32_t plane, const pcre2_code* code, pcre2_match_data* match) {
    std::string text;
    for (char32_t point = plane; point < plane + kPlane; ++point) {
      if (!is_surrogate(point)) append_utf8(text, point);
    }
    char32_t point = plane;
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

CharacterClass character_class(char32_t code_point) {
  if (code_point >= kClassified) return CharacterClass::other;
  static const ClassTable table;
  return table[code_point];
}

}  // namespace rowgrad
