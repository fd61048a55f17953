#include <memory>
#include <unordered_map>
#include <utf8proc.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/canonical_ids.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {
namespace {

// Returns `text` in compatibility form and without accents, or an empty string if it is not UTF-8.
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

}  // namespace

std::string fold(std::string_view text) {
  const std::string plain = lower_case(without_accents(text));
  std::string result;
  bool space = false;  // true if whitespace precedes the next character
  for (std::size_t at = 0, bytes = 0; at < plain.size(); at += bytes) {
    const Utf8Character character = decode_utf8(plain, at);
    bytes = character.bytes;
    // U+0085 (next line) is not treated as whitespace, for compatibility with saved runs.
    const bool next_line = character.code_point == U'\u0085';
    if (!next_line && character_class(character.code_point) == CharacterClass::white_space) {
      space = true;
      continue;
    }
    if (space && !result.empty()) result += ' ';
    space = false;
    result.append(plain, at, bytes);
  }
  if (!result.empty()) return result;
  return space ? " " : std::string(text);
}

std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer) {
  std::unordered_map<std::string, std::int32_t, StringHash, std::equal_to<>> known;
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < tokenizer.size(); ++id) {
    const std::string text = fold(tokenizer.token(static_cast<std::int32_t>(id)));
    ids.push_back(known.emplace(text, static_cast<std::int32_t>(known.size())).first->second);
  }
  return ids;
}

}  // namespace rowgrad
