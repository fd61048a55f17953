// Byte pairs: a tokenizer whose vocabulary and merges are made from the input must encode like a
// naive encoder and decode to the same text; so must one that is trained on the text.

#include <map>
#include <set>
#include <vector>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>

namespace rowgrad::fuzzing {
namespace {

constexpr std::size_t kMostMerges = 60;
constexpr std::size_t kLongestToken = 80;  // bytes
constexpr std::size_t kMostSpecial = 4;
constexpr std::size_t kLongestText = 600;

using Ranks = std::map<std::pair<std::int32_t, std::int32_t>, std::size_t>;

struct Recipe {
  std::vector<std::string> tokens;  // the bytes, then what each merge makes
  Ranks ranks;
  std::vector<std::string> special;

  explicit Recipe(Pieces& input) {
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    std::set<std::string> made(tokens.begin(), tokens.end());
    const auto merges = input.number<std::size_t>(0, kMostMerges);
    for (std::size_t i = 0; i < merges; ++i) {
      const auto left = token_id(input), right = token_id(input);
      const std::string together = tokens[left] + tokens[right];
      if (together.size() > kLongestToken || !made.insert(together).second) continue;
      ranks.emplace(std::pair(left, right), tokens.size() - 256);
      tokens.push_back(together);
    }
    const auto specials = input.number<std::size_t>(0, kMostSpecial);
    std::set<std::string> distinct;
    for (std::size_t i = 0; i < specials; ++i) {
      std::string token = input.text(4);
      for (char& byte : token) byte &= 0x7F;  // special tokens are UTF-8
      if (!token.empty() && distinct.insert(token).second) special.push_back(token);
    }
  }

  // Chooses letters and earlier merges more often than other bytes.
  std::size_t token_id(Pieces& input) const {
    const auto byte = input.any<std::uint8_t>();
    const std::size_t merge = 256 + byte / 2;
    return byte % 2 == 1 && merge < tokens.size() ? merge : byte;
  }

  BytePairTokenizer tokenizer() const {
    Vocabulary vocabulary = vocabulary_with_special(tokens, special);
    MergeTable merges(vocabulary);
    std::vector<std::pair<std::int32_t, std::int32_t>> by_rank(ranks.size());
    for (const auto& [pair, rank] : ranks) by_rank[rank] = pair;
    for (const auto& [left, right] : by_rank)
      merges.add(tokens[static_cast<std::size_t>(left)], tokens[static_cast<std::size_t>(right)],
                 vocabulary);
    return BytePairTokenizer(std::move(vocabulary), std::move(merges));
  }
};

// The definition: of all adjacent pairs that are a merge, the leftmost one of the lowest rank is
// merged, repeatedly.
void append_piece(const Recipe& recipe, std::string_view piece, std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> tokens;
  for (const char byte : piece) tokens.push_back(static_cast<std::uint8_t>(byte));
  for (;;) {
    std::size_t best = recipe.ranks.size(), place = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = recipe.ranks.find({tokens[i], tokens[i + 1]});
      if (found == recipe.ranks.end() || found->second >= best) continue;
      best = found->second;
      place = i;
    }
    if (best == recipe.ranks.size()) break;
    tokens[place] = static_cast<std::int32_t>(256 + best);
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.end());
}

std::vector<std::int32_t> encoded(const Recipe& recipe, std::string_view text) {
  std::vector<std::int32_t> ids;
  const auto append = [&](std::string_view ordinary) {
    for (std::size_t begin = 0, end = 0; begin < ordinary.size(); begin = end) {
      end = gpt2_piece_end(ordinary, begin);
      append_piece(recipe, ordinary.substr(begin, end - begin), ids);
    }
  };
  std::size_t ordinary = 0;  // where the text since the last special token begins
  for (std::size_t place = 0; place < text.size();) {
    std::size_t longest = 0, which = 0;
    for (std::size_t i = 0; i < recipe.special.size(); ++i) {
      const std::string& token = recipe.special[i];
      if (token.size() <= longest || !text.substr(place).starts_with(token)) continue;
      longest = token.size();
      which = i;
    }
    if (longest == 0) {
      ++place;
      continue;
    }
    append(text.substr(ordinary, place - ordinary));
    ids.push_back(static_cast<std::int32_t>(recipe.tokens.size() + which));
    ordinary = place += longest;
  }
  append(text.substr(ordinary));
  return ids;
}

}  // namespace

void fuzz_byte_pairs(std::string_view input) {
  Pieces pieces(input);
  const Recipe recipe(pieces);
  const auto size = pieces.number<std::size_t>(256, 320);
  const std::string text = pieces.bytes(kLongestText);

  const BytePairTokenizer tokenizer = recipe.tokenizer();
  const std::vector<std::int32_t> ids = tokenizer.encode(text, {.allowed_special = recipe.special});
  const std::vector<std::int32_t> expected = encoded(recipe, text);
  expect(ids == expected, "other ids");
  expect(tokenizer.decode(ids) == text, "another text");
  expect(tokenizer.decode(tokenizer.encode(text)) == text, "another text, without special tokens");

  const auto trained = BytePairTokenizer::train(
      text, {.size = size + recipe.special.size(), .special_tokens = recipe.special});
  expect(trained.decode(trained.encode(text)) == text, "another text, after training");
}

}  // namespace rowgrad::fuzzing
