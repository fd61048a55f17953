#include <optional>
#include <set>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/character_tokenizer.hpp>

namespace rowgrad {

CharacterTokenizer CharacterTokenizer::from_text(std::string_view text,
                                                 const CharacterOptions& options) {
  check_utf8("CharacterTokenizer", text);
  std::set<std::string_view> characters;  // UTF-8 bytes sort in the order of code points
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t bytes = decode_utf8(text, offset).bytes;
    characters.insert(text.substr(offset, bytes));
    offset += bytes;
  }
  return CharacterTokenizer(vocabulary_with_special(
      std::vector<std::string>(characters.begin(), characters.end()), options.special_tokens));
}

CharacterTokenizer::CharacterTokenizer(Vocabulary tokens) : Tokenizer(std::move(tokens)) {
  ascii_ids_.fill(-1);
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    const std::string& text = token(id);
    if (vocabulary().is_special(id)) continue;
    const Utf8Character character = decode_utf8(text, 0);
    check_argument(character.code_point != kInvalidCodePoint && character.bytes == text.size(),
                   "CharacterTokenizer: token ", id, ", ", in_quotes(text),
                   ", is not one character");
    if (character.code_point < ascii_ids_.size()) ascii_ids_[character.code_point] = id;
  }
}

void CharacterTokenizer::append_ids(std::string_view text, std::size_t offset,
                                    std::vector<std::int32_t>& ids) const {
  ids.reserve(ids.size() + text.size());
  const std::optional<std::int32_t> unknown = vocabulary().find_special(kUnknown);
  for (std::size_t begin = 0; begin < text.size();) {
    const Utf8Character character = decode_utf8(text, begin);
    const std::string_view letters = text.substr(begin, character.bytes);
    check_argument(character.code_point != kInvalidCodePoint, "encode: the byte ",
                   in_quotes(letters), " at byte ", offset + begin,
                   " of the text is not part of valid UTF-8");
    std::int32_t id = -1;
    if (character.code_point < ascii_ids_.size()) {
      id = ascii_ids_[character.code_point];
    } else if (const auto found = vocabulary().find(letters)) {
      id = *found;
    }
    check_argument(id >= 0 || unknown, "encode: the character ", in_quotes(letters), " at byte ",
                   offset + begin, " of the text has no id in the vocabulary of ", size(),
                   " tokens");
    ids.push_back(id >= 0 ? id : *unknown);
    begin += character.bytes;
  }
}

bool CharacterTokenizer::can_cut(std::string_view text, std::size_t place) const {
  const bool continues_character = (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;
  return !continues_character;
}

}  // namespace rowgrad
