#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace rowgrad {

/// Finds the merges of a byte-pair vocabulary in texts. Used once, by BytePairTokenizer::train,
/// which says what is merged when. Refers to the texts.
class BytePairTrainer {
 public:
  void add_text(std::string_view text);

  /// At most `count` pairs of ids in the order of merging, fewer when there are no more neighbours.
  /// Ids below 256 are bytes, and 256 + i is what pair i makes.
  std::vector<std::pair<std::int32_t, std::int32_t>> train(std::int64_t count);

 private:
  // A piece of the texts. Merges never cross pieces, so that equal ones are counted, not repeated.
  struct Word {
    std::vector<std::int32_t> ids;
    std::int64_t count;
  };
  using Pair = std::uint64_t;  // the left id in the upper half, the right id in the lower
  struct Occurrences {
    std::int64_t count = 0;
    std::vector<std::size_t> words;  // those that have the pair, or had it before another merge
  };
  // Ordered by count, then by the complement of the pair, so that the lower ids come first.
  using Candidate = std::pair<std::int64_t, std::uint64_t>;

  void count_pairs(const Word& word, std::int64_t sign);
  void merge(Pair pair, std::int32_t merged);
  void add_candidate(Pair pair) { candidates_.emplace(pairs_.at(pair).count, ~pair); }

  std::unordered_map<std::string_view, std::size_t> word_numbers_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Occurrences> pairs_;
  std::priority_queue<Candidate> candidates_;
};

}  // namespace rowgrad
