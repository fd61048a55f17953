#pragma once

// Which n-grams fell into which rows of a memory's table: those of the batches that a model was
// trained on. Memory grows with the n-grams, up to 1,048,576 of them; later ones are only counted.

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
#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

class NgramCounts {
 public:
  /// Its ids, of all spellings that count as one the first; fewer than `order` where the rest is
  /// before the text.
  struct Ngram {
    std::size_t order = 0;    // number of its tokens
    std::u32string_view ids;  // borrowed from the counts
    std::uint64_t count = 0;  // how often it was looked up
  };

  static constexpr std::size_t kMostNgrams = std::size_t{1} << 20;  // the most that are told apart

  /// Borrows the hash.
  explicit NgramCounts(const NgramHash& hash, std::size_t most = kMostNgrams);

  /// Texts [batch, positions], each position of which looks up its n-grams. Throws
  /// std::invalid_argument for ids that are not in the hash's vocabulary.
  void add(const Ids& texts);

  /// Returns the n-grams of each row, the most frequent first. They are valid until the next add().
  std::map<std::int32_t, std::vector<Ngram>> by_row() const;

  /// The number of n-grams that were only counted, as there were already `most`.
  std::uint64_t not_told_apart() const { return not_told_apart_; }

  /// The counts so far. Loading throws std::invalid_argument for a state that no counts of this
  /// hash have, and then changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  const NgramHash& hash() const { return *hash_; }  // whose n-grams these are

 private:
  // Of n-grams, whose ids are strings, as these hold a few without memory of their own.
  using Counts = std::unordered_map<std::u32string, std::uint64_t>;

  const NgramHash* hash_;
  std::size_t most_;
  std::vector<std::int32_t> spellings_;  // of each id that which stands for it; empty if itself
  std::vector<Counts> counts_;           // of each order
  std::size_t size_ = 0;                 // of all of them
  std::uint64_t not_told_apart_ = 0;
};

/// Its tokens' text, or their ids without a tokenizer that has them all; what is before the text is
/// "[start]".
std::string text_of(const NgramCounts::Ngram& ngram, const Tokenizer* tokenizer);

/// Returns the n-grams of a row in a line that is not too long: "the dog | of a | 3 more".
std::string label_of(std::span<const NgramCounts::Ngram> ngrams, const Tokenizer* tokenizer);

}  // namespace rowgrad
