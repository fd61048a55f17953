#pragma once

// Counts the n-grams that map to each row of an n-gram memory's table during training. By default,
// at most 1,048,576 distinct n-grams are counted separately, and all others together.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <rowgrad/core/data/ngram_hash.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

namespace rowgrad {

/// Counts of the n-grams that a hash maps to rows.
class NgramCounts {
 public:
  /// An n-gram and its count. Near the first position, it has fewer ids than `order`. Each id is
  /// replaced by the lowest id with the same canonical id.
  struct Ngram {
    std::size_t order = 0;    // nominal length in tokens
    std::u32string_view ids;  // borrowed from the counts
    std::uint64_t count = 0;  // number of occurrences
  };

  static constexpr std::size_t kMaxNgrams = std::size_t{1} << 20;  // default of max_ngrams

  /// Borrows the hash. Counts up to `max_ngrams` distinct n-grams separately.
  explicit NgramCounts(const NgramHash& hash, std::size_t max_ngrams = kMaxNgrams);

  /// Counts the n-grams that end at each position of `tokens`, [batch, positions]. Throws
  /// std::invalid_argument for ids outside the hash's vocabulary.
  void add(const Ids& tokens);

  /// Returns the n-grams of each row, most frequent first. Their ids are valid until the counts
  /// change.
  std::map<std::int32_t, std::vector<Ngram>> by_row() const;

  /// Returns the number of occurrences of n-grams beyond the limit.
  std::uint64_t uncounted() const { return uncounted_; }

  /// Returns the counts as a state dict.
  StateDict state_dict() const;
  /// Loads counts. Throws std::invalid_argument, and changes nothing, if the state is damaged or
  /// from another hash.
  void load_state_dict(const StateDict& state);

  const NgramHash& hash() const { return *hash_; }  // hash passed to the constructor

 private:
  // The count of each n-gram, by its ids. Short strings need no allocation.
  using Counts = std::unordered_map<std::u32string, std::uint64_t>;

  const NgramHash* hash_;
  std::size_t max_ngrams_;
  std::vector<std::int32_t> spellings_;  // [id]: lowest id with the same canonical id; may be empty
  std::vector<Counts> counts_;           // [order]
  std::size_t size_ = 0;                 // number of n-grams in counts_
  std::uint64_t uncounted_ = 0;
};

/// Returns an n-gram's text, or its ids if the tokenizer is null or lacks an id. Incomplete
/// n-grams begin with "[start]".
std::string text_of(const NgramCounts::Ngram& ngram, const Tokenizer* tokenizer);

/// Returns a short label with the n-grams of a row: "the dog | of a | 3 more".
std::string label_of(std::span<const NgramCounts::Ngram> ngrams, const Tokenizer* tokenizer);

}  // namespace rowgrad
