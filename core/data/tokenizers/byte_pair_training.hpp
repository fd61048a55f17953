#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rowgrad/core/base/text_hash.hpp>

namespace rowgrad {

/// Finds the merges of a byte-pair vocabulary in texts, which must outlive it. Used once, by
/// BytePairTokenizer::train, whose comment defines the order of merges.
class BytePairTrainer {
 public:
  void add_text(std::string_view text);

  /// At most `count` pairs of ids in the order of merging; fewer if no neighbours are left. Ids
  /// below 256 are bytes, and pair i makes the id 256 + i.
  std::vector<std::pair<std::int32_t, std::int32_t>> train(std::int64_t count);

 private:
  // A piece of the texts. Merges never cross pieces, so equal pieces are stored once and counted.
  struct Word {
    std::string_view text;
    std::int64_t count = 0;
  };
  // A byte of a word. A token is represented by its first byte; its length leads to its neighbours.
  struct Symbol {
    std::int32_t id;    // of the token that starts here; kNone inside a token and between words
    std::size_t bytes;  // length of the token that starts or ends here
    std::int64_t frequency;  // of the word
  };
  static constexpr std::int32_t kNone = -1;
  using Pair = std::uint64_t;  // the left id in the upper half, the right id in the lower
  struct Occurrences {
    std::int64_t count = 0;           // in all texts
    std::vector<std::size_t> places;  // of left tokens that have or had this neighbour, increasing
  };
  // Ordered by count, then by the complement of the pair, so that the lower ids come first.
  using Candidate = std::pair<std::int64_t, std::uint64_t>;

  void lay_out_words();
  void merge(Pair pair, std::int32_t merged);
  void join(std::size_t left, std::size_t right);
  void part(std::size_t left, std::size_t right);
  void add_candidate(Pair pair);

  std::unordered_map<std::string_view, std::size_t, TextHash> word_numbers_;
  std::vector<Word> words_;
  std::vector<Symbol> symbols_;  // the bytes of the words, with a boundary around each word
  std::unordered_map<Pair, Occurrences> pairs_;
  std::vector<Pair> fresh_;  // pairs that are new and not candidates yet
  std::priority_queue<Candidate> candidates_;
};

}  // namespace rowgrad
