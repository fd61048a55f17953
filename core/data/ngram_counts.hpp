#pragma once

// Counts the n-grams that fall into the rows of a memory's table during training. Memory grows with
// the distinct n-grams, up to 1,048,576. Later ones are not told apart.

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

/// The number of lookups of each n-gram of a hash.
class NgramCounts {
 public:
  /// An n-gram. At the beginning of a text, it has fewer ids than `order`. Of spellings that the
  /// hash maps to the same id, it has the first.
  struct Ngram {
    std::size_t order = 0;    // number of its tokens
    std::u32string_view ids;  // borrowed from the counts
    std::uint64_t count = 0;  // number of lookups
  };

  static constexpr std::size_t kMaxNgrams = std::size_t{1} << 20;  // the most that are told apart

  /// Borrows the hash.
  explicit NgramCounts(const NgramHash& hash, std::size_t most = kMaxNgrams);

  /// Counts the n-grams of texts [batch, positions], which each position looks up. Throws
  /// std::invalid_argument for ids that are not in the hash's vocabulary.
  void add(const Ids& texts);

  /// Returns the n-grams of each row, the most frequent first. They are valid until the next add().
  std::map<std::int32_t, std::vector<Ngram>> by_row() const;

  /// Returns the number of lookups of n-grams that are not told apart.
  std::uint64_t collisions() const { return collisions_; }

  /// Returns and loads the counts. Loading throws std::invalid_argument for a damaged state or the
  /// state of another hash, and then changes nothing.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

  const NgramHash& hash() const { return *hash_; }  // the hash of the n-grams

 private:
  // By the ids of n-grams. Short strings need no allocation.
  using Counts = std::unordered_map<std::u32string, std::uint64_t>;

  const NgramHash* hash_;
  std::size_t most_;
  std::vector<std::int32_t> spellings_;  // the first spelling of each id; empty if all differ
  std::vector<Counts> counts_;           // for each order
  std::size_t size_ = 0;                 // number of n-grams in all of them
  std::uint64_t collisions_ = 0;
};

/// Returns the string of an n-gram's tokens, or their ids if the tokenizer is null or lacks one.
/// The beginning of the text is "[start]".
std::string text_of(const NgramCounts::Ngram& ngram, const Tokenizer* tokenizer);

/// Returns the n-grams of a row in a line that is not too long: "the dog | of a | 3 more".
std::string label_of(std::span<const NgramCounts::Ngram> ngrams, const Tokenizer* tokenizer);

}  // namespace rowgrad
