// Fuzzes the byte-pair tokenizer. A tokenizer with vocabulary and merges from the input must encode
// like a naive encoder, and decode to the same text. A tokenizer trained on the text must learn the
// merges of a naive trainer.

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/fuzz/fuzzing.hpp"
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>

namespace rowgrad::fuzzing {
namespace {

constexpr std::size_t kMaxMerges = 60;
constexpr std::size_t kLongestToken = 80;  // bytes
constexpr std::size_t kMaxSpecial = 4;
constexpr std::size_t kLongestText = 600;

using Merges = std::vector<std::pair<std::int32_t, std::int32_t>>;
using Ranks = std::map<std::pair<std::int32_t, std::int32_t>, std::size_t>;

struct Recipe {
  std::vector<std::string> tokens;  // the 256 bytes, then the result of each merge
  Ranks ranks;
  std::vector<std::string> special;

  explicit Recipe(Pieces& input) {
    for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
    std::set<std::string> made(tokens.begin(), tokens.end());
    const auto merges = input.number<std::size_t>(0, kMaxMerges);
    for (std::size_t i = 0; i < merges; ++i) {
      const auto left = token_id(input), right = token_id(input);
      const std::string together = tokens[left] + tokens[right];
      if (together.size() > kLongestToken || !made.insert(together).second) continue;
      ranks.emplace(std::pair(left, right), tokens.size() - 256);
      tokens.push_back(together);
    }
    const auto specials = input.number<std::size_t>(0, kMaxSpecial);
    std::set<std::string> distinct;
    for (std::size_t i = 0; i < specials; ++i) {
      std::string token = input.text(4);
      for (char& byte : token) byte &= 0x7F;  // special tokens are UTF-8
      if (!token.empty() && distinct.insert(token).second) special.push_back(token);
    }
  }

  // Returns the index of a byte or of an earlier merge.
  std::size_t token_id(Pieces& input) const {
    const auto byte = input.any<std::uint8_t>();
    const std::size_t merge = 256 + byte / 2;
    return byte % 2 == 1 && merge < tokens.size() ? merge : byte;
  }

  // Returns the id of a token. Reverses the order, because ids need not be in the order of merges.
  std::int32_t id(std::size_t token) const {
    return static_cast<std::int32_t>(tokens.size() - 1 - token);
  }

  BytePairTokenizer tokenizer() const {
    Vocabulary vocabulary = vocabulary_with_special({tokens.rbegin(), tokens.rend()}, special);
    MergeTable merges(vocabulary);
    Merges by_rank(ranks.size());
    for (const auto& [pair, rank] : ranks) by_rank[rank] = pair;
    for (const auto& [left, right] : by_rank)
      merges.add(tokens[static_cast<std::size_t>(left)], tokens[static_cast<std::size_t>(right)],
                 vocabulary);
    return BytePairTokenizer(std::move(vocabulary), std::move(merges));
  }
};

// Encodes by definition: repeatedly merges the adjacent pair with the lowest rank, the leftmost one
// if there are several.
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
  for (const std::int32_t token : tokens) ids.push_back(recipe.id(static_cast<std::size_t>(token)));
}

std::vector<std::int32_t> encoded(const Recipe& recipe, std::string_view text) {
  std::vector<std::int32_t> ids;
  const auto append = [&](std::string_view ordinary) {
    for (std::size_t begin = 0, end = 0; begin < ordinary.size(); begin = end) {
      end = gpt2_piece_end(ordinary, begin);
      append_piece(recipe, ordinary.substr(begin, end - begin), ids);
    }
  };
  std::size_t ordinary = 0;  // offset after the last special token
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

// Trains by definition: counts all pairs and merges the most frequent pair everywhere, repeatedly.
// std::map is sorted, and max_element() returns the first maximum, so ties choose the lower pair.
Merges learned(std::string_view text, std::size_t most) {
  std::vector<std::vector<std::int32_t>> pieces;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    auto& piece = pieces.emplace_back();
    for (const char byte : text.substr(begin, end - begin))
      piece.push_back(static_cast<std::uint8_t>(byte));
  }
  Merges merges;
  while (merges.size() < most) {
    std::map<Merges::value_type, int> counts;
    for (const auto& piece : pieces)
      for (std::size_t i = 0; i + 1 < piece.size(); ++i) ++counts[{piece[i], piece[i + 1]}];
    if (counts.empty()) break;
    const auto best =
        std::ranges::max_element(counts, {}, [](const auto& pair) { return pair.second; });
    for (auto& piece : pieces)
      for (std::size_t i = 0; i + 1 < piece.size(); ++i) {
        if (std::pair(piece[i], piece[i + 1]) != best->first) continue;
        piece[i] = static_cast<std::int32_t>(256 + merges.size());
        piece.erase(piece.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
    merges.push_back(best->first);
  }
  return merges;
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
  expect(ids == expected, "wrong ids");
  expect(tokenizer.decode(ids) == text, "wrong text");
  expect(tokenizer.decode(tokenizer.encode(text)) == text, "wrong text, without special tokens");

  expect(learn_merges({text}, size - 256) == learned(text, size - 256), "wrong merges");
  const auto trained = BytePairTokenizer::train(
      text, {.size = size + recipe.special.size(), .special_tokens = recipe.special});
  expect(trained.decode(trained.encode(text)) == text, "wrong text, after training");
}

}  // namespace rowgrad::fuzzing
