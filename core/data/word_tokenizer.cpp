#include <algorithm>
#include <array>
#include <optional>
#include <unordered_set>
#include <utility>

#include <rowgrad/core/data/text_hash.hpp>
#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/data/word_tokenizer.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

// What \s matches in Python's re: White_Space and the four information separators.
bool is_blank(char32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) ||
         character_class(code_point) == CharacterClass::white_space;
}

bool is_one_of(std::string_view characters, std::string_view word) {
  return word.size() == 1 && characters.find(word.front()) != std::string_view::npos;
}

// ASCII characters that are always part of a word: most of a text, so the others may be slower.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (char byte = '!'; byte <= '~'; ++byte)
    plain[static_cast<std::size_t>(byte)] =
        std::string_view(",.:;?_!\"()'-").find(byte) == std::string_view::npos;
  return plain;
}();

}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  check_utf8("split_words", text);
  std::vector<std::string_view> words;
  std::size_t word_begin = 0;
  const auto end_word = [&](std::size_t end) {
    if (end > word_begin) words.push_back(text.substr(word_begin, end - word_begin));
  };
  for (std::size_t offset = 0; offset < text.size();) {
    if (kPlain[static_cast<std::uint8_t>(text[offset])]) {
      ++offset;
      continue;
    }
    const Utf8Character character = decode_utf8(text, offset);
    const std::string_view letters = text.substr(offset, character.bytes);
    const bool dashes = text.substr(offset, 2) == "--";
    const bool blank = is_blank(character.code_point);
    const std::size_t bytes = dashes ? 2 : character.bytes;
    if (blank || dashes || is_one_of(",.:;?_!\"()'", letters)) {
      end_word(offset);
      if (!blank) words.push_back(text.substr(offset, bytes));
      word_begin = offset + bytes;
    }
    offset += bytes;
  }
  end_word(text.size());
  return words;
}

WordTokenizer WordTokenizer::from_text(std::string_view text, const WordOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  std::unordered_set<std::string_view, TextHash> seen(special.begin(), special.end());
  std::vector<std::string> words;
  for (const std::string_view word : split_words(text)) {
    if (seen.insert(word).second) words.emplace_back(word);
  }
  if (options.order == WordOptions::Order::sorted) std::sort(words.begin(), words.end());
  return WordTokenizer(vocabulary_with_special(std::move(words), special));
}

WordTokenizer::WordTokenizer(Vocabulary tokens) : Tokenizer(std::move(tokens)) {
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    if (vocabulary().is_special(id)) continue;
    const std::vector<std::string_view> words = split_words(token(id));
    check_argument(words.size() == 1 && words.front() == token(id), "WordTokenizer: token ", id,
                   ", ", in_quotes(token(id)), ", is not one word");
  }
}

void WordTokenizer::append_ids(std::string_view text, std::size_t offset,
                               std::vector<std::int32_t>& ids) const {
  const std::optional<std::int32_t> unknown = vocabulary().find_special(kUnknown);
  for (const std::string_view word : split_words(text)) {
    const std::optional<std::int32_t> id = vocabulary().find(word);
    check_argument(id || unknown, "encode: the word ", in_quotes(word), " at byte ",
                   offset + static_cast<std::size_t>(word.data() - text.data()),
                   " of the text has no id in the vocabulary of ", size(), " tokens");
    ids.push_back(id ? *id : *unknown);
  }
}

// A blank belongs to no word.
bool WordTokenizer::can_cut(std::string_view text, std::size_t place) const {
  const auto byte = static_cast<unsigned char>(text[place]);
  return byte < 0x80 && is_blank(byte);
}

std::string WordTokenizer::join(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string& word = token(id);
    if (!text.empty() && !is_one_of(",.:;?!\"()'", word)) text += ' ';
    text += word;
  }
  return text;
}

}  // namespace rowgrad
