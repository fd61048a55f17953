#include <memory>
#include <unordered_map>
#include <utf8proc.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/canonical_ids.hpp>

namespace rowgrad {
namespace {

// Empty if the text is no UTF-8.
std::string without_accents(std::string_view text) {
  constexpr int kOptions = UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_STRIPMARK;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped,
                   static_cast<utf8proc_option_t>(kOptions));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, std::free);
  if (bytes < 0) return {};
  return {reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(bytes)};
}

bool is_space(char32_t code_point) {
  if (code_point >= U'\t' && code_point <= U'\r') return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace

std::string folded(std::string_view text) {
  const std::string plain = without_accents(text);
  std::string result;
  bool space = false;  // between what is there and what comes
  for (std::size_t at = 0; at < plain.size();) {
    const Utf8Character character = decode_utf8(plain, at);
    at += character.bytes;
    if (is_space(character.code_point)) {
      space = true;
      continue;
    }
    if (space && !result.empty()) result += ' ';
    space = false;
    append_utf8(result, static_cast<char32_t>(
                            utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code_point))));
  }
  if (!result.empty()) return result;
  return space ? " " : std::string(text);
}

std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, std::int32_t, TextHash, std::equal_to<>> known;
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < tokenizer.size(); ++id) {
    const std::string text = folded(tokenizer.token(static_cast<std::int32_t>(id)));
    ids.push_back(known.emplace(text, static_cast<std::int32_t>(known.size())).first->second);
  }
  return ids;
}

}  // namespace rowgrad
