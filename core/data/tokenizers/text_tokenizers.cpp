#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

// --- Characters ----------------------------------------------------------------------------------

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
                   "CharacterTokenizer: token ", id, " is ", in_quotes(text),
                   ", expected exactly one character");
    if (character.code_point < ascii_ids_.size()) ascii_ids_[character.code_point] = id;
  }
}

void CharacterTokenizer::append_ids(std::string_view text, std::size_t offset,
                                    std::vector<std::int32_t>& ids) const {
  // At least doubles the capacity, because exact reservations would copy all ids for each part of
  // the text.
  if (const std::size_t most = ids.size() + text.size(); most > ids.capacity())
    ids.reserve(std::max(most, 2 * ids.capacity()));
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

// --- Words ---------------------------------------------------------------------------------------

namespace {

// Returns true if \s of Python's re matches the character, which is then White_Space or one of the
// four information separators.
bool is_blank(char32_t code_point) {
  return (code_point >= 0x1C && code_point <= 0x1F) ||
         character_class(code_point) == CharacterClass::white_space;
}

bool is_one_of(std::string_view characters, std::string_view word) {
  return word.size() == 1 && characters.find(word.front()) != std::string_view::npos;
}

// ASCII characters that are always part of a word. Most text consists of these characters, which
// are skipped without decoding.
constexpr auto kPlain = [] {
  std::array<bool, 256> plain{};
  for (char byte = '!'; byte <= '~'; ++byte)
    plain[static_cast<std::size_t>(byte)] =
        std::string_view(",.:;?_!\"()'-").find(byte) == std::string_view::npos;
  return plain;
}();

// Returns the words of `text`. Messages name `caller`, and add `begin` to byte offsets.
std::vector<std::string_view> words_of(std::string_view text, bool whitespace_only,
                                       const char* caller, std::size_t begin = 0) {
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
    check_argument(character.code_point != kInvalidCodePoint, caller, ": the byte ",
                   in_quotes(letters), " at byte ", begin + offset,
                   " of the text is not part of valid UTF-8");
    const bool dashes = !whitespace_only && text.substr(offset, 2) == "--";
    const bool blank = is_blank(character.code_point);
    const std::size_t bytes = dashes ? 2 : character.bytes;
    const bool separates = !whitespace_only && is_one_of(",.:;?_!\"()'", letters);
    if (blank || dashes || separates) {
      end_word(offset);
      if (!blank) words.push_back(text.substr(offset, bytes));
      word_begin = offset + bytes;
    }
    offset += bytes;
  }
  end_word(text.size());
  return words;
}

}  // namespace

std::vector<std::string_view> split_words(std::string_view text, bool whitespace_only) {
  return words_of(text, whitespace_only, "split_words");
}

WordTokenizer WordTokenizer::from_text(std::string_view text, const WordOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  check_argument(options.max_tokens == 0 || options.max_tokens > special.size(),
                 "WordTokenizer: max_tokens is ", options.max_tokens,
                 ", expected more than the number of special tokens, ", special.size());
  std::unordered_map<std::string, std::size_t, StringHash> counts;
  for (const std::string_view word : split_words(text, options.whitespace_only))
    ++counts[options.lower ? lower_case(word) : std::string(word)];
  for (const std::string& token : special) counts.erase(token);
  std::vector<std::string> tokens;
  for (const auto& [word, count] : counts)
    if (count >= options.min_count) tokens.push_back(word);
  const std::size_t most = options.max_tokens - special.size();
  if (options.max_tokens > 0 && tokens.size() > most) {
    const auto last = tokens.begin() + static_cast<std::ptrdiff_t>(most);
    std::ranges::nth_element(tokens, last, [&](const std::string& a, const std::string& b) {
      const std::size_t count_a = counts.at(a), count_b = counts.at(b);
      return count_a != count_b ? count_a > count_b : a < b;
    });
    tokens.erase(last, tokens.end());
  }
  std::ranges::sort(tokens);
  return WordTokenizer(vocabulary_with_special(std::move(tokens), special), options.lower,
                       options.whitespace_only);
}

WordTokenizer::WordTokenizer(Vocabulary tokens, bool lower, bool whitespace_only)
    : Tokenizer(std::move(tokens)), lower_(lower), whitespace_only_(whitespace_only) {
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    if (vocabulary().is_special(id)) continue;
    const std::vector<std::string_view> words = split_words(token(id), whitespace_only);
    check_argument(words.size() == 1 && words.front() == token(id), "WordTokenizer: token ", id,
                   " is ", in_quotes(token(id)), ", expected exactly one word");
    check_argument(!lower || lower_case(token(id)) == token(id), "WordTokenizer: token ", id,
                   " is ", in_quotes(token(id)), ", expected lower case");
  }
}

void WordTokenizer::append_ids(std::string_view text, std::size_t offset,
                               std::vector<std::int32_t>& ids) const {
  const std::optional<std::int32_t> unknown = vocabulary().find_special(kUnknown);
  for (const std::string_view word : words_of(text, whitespace_only_, "encode", offset)) {
    const std::optional<std::int32_t> id =
        lower_ ? vocabulary().find(lower_case(word)) : vocabulary().find(word);
    check_argument(id || unknown, "encode: the word ", in_quotes(word), " at byte ",
                   offset + static_cast<std::size_t>(word.data() - text.data()),
                   " of the text has no id in the vocabulary of ", size(), " tokens");
    ids.push_back(id ? *id : *unknown);
  }
}

std::string WordTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::string text;
  for (const std::int32_t id : ids) {
    const std::string& word = token(id);
    if (!text.empty() && (whitespace_only_ || !is_one_of(",.:;?!\"()'", word))) text += ' ';
    text += word;
  }
  return text;
}

}  // namespace rowgrad
