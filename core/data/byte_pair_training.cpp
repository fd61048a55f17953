#include <algorithm>

#include <rowgrad/core/data/byte_pair_training.hpp>
#include <rowgrad/core/data/gpt2_split.hpp>

namespace rowgrad {
namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}
std::int32_t left_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair >> 32); }
std::int32_t right_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair & 0xFFFFFFFF); }

// Replaces the pair wherever it stands, from left to right.
bool replace(std::vector<std::int32_t>& ids, std::uint64_t pair, std::int32_t merged) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i + 1 < ids.size() && pair_of(ids[i], ids[i + 1]) == pair) {
      ids[kept++] = merged;
      ++i;
    } else {
      ids[kept++] = ids[i];
    }
  }
  const bool found = kept < ids.size();
  ids.resize(kept);
  return found;
}

}  // namespace

void BytePairTrainer::add_text(std::string_view text) {
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    const std::string_view piece = text.substr(begin, end - begin);
    const auto [number, fresh] = word_numbers_.emplace(piece, words_.size());
    if (fresh) {
      Word& word = words_.emplace_back();
      for (const char byte : piece) word.ids.push_back(static_cast<std::uint8_t>(byte));
    }
    ++words_[number->second].count;
  }
}

std::vector<std::pair<std::int32_t, std::int32_t>> BytePairTrainer::train(std::int64_t count) {
  for (std::size_t number = 0; number < words_.size(); ++number) {
    const Word& word = words_[number];
    count_pairs(word, +1);
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      pairs_[pair_of(word.ids[i], word.ids[i + 1])].words.push_back(number);
    }
  }
  for (const auto& entry : pairs_) add_candidate(entry.first);  // the queue sets the order

  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
  while (static_cast<std::int64_t>(merges.size()) < count && !candidates_.empty()) {
    const auto [expected, complement] = candidates_.top();
    candidates_.pop();
    const Pair pair = ~complement;
    const std::int64_t now = pairs_.at(pair).count;
    if (now != expected) {  // other merges took some of its occurrences
      if (now > 0) add_candidate(pair);
      continue;
    }
    merge(pair, static_cast<std::int32_t>(256 + merges.size()));
    merges.emplace_back(left_of(pair), right_of(pair));
  }
  return merges;
}

void BytePairTrainer::count_pairs(const Word& word, std::int64_t sign) {
  for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
    pairs_[pair_of(word.ids[i], word.ids[i + 1])].count += sign * word.count;
  }
}

void BytePairTrainer::merge(Pair pair, std::int32_t merged) {
  const std::vector<std::size_t> numbers = std::move(pairs_.at(pair).words);
  std::vector<Pair> fresh;
  for (const std::size_t number : numbers) {
    Word& word = words_[number];
    count_pairs(word, -1);
    const bool found = replace(word.ids, pair, merged);
    count_pairs(word, +1);
    if (!found) continue;
    for (std::size_t i = 0; i + 1 < word.ids.size(); ++i) {
      if (word.ids[i] != merged && word.ids[i + 1] != merged) continue;
      fresh.push_back(pair_of(word.ids[i], word.ids[i + 1]));
      pairs_.at(fresh.back()).words.push_back(number);
    }
  }
  std::sort(fresh.begin(), fresh.end());
  fresh.erase(std::unique(fresh.begin(), fresh.end()), fresh.end());
  for (const Pair created : fresh) add_candidate(created);
}

}  // namespace rowgrad
