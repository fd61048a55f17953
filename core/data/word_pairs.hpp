#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/tensor/negative_sampler.hpp>

namespace rowgrad {

/// Options of WordPairs.
struct WordPairOptions {
  std::size_t vocabulary = 0;  // number of ids; required unless `counts` is given
  std::size_t block = 128;     // consecutive tokens of an example; windows end at its borders
  /// The largest distance, in words, of a context word. Each word draws its own window from 1 to
  /// `window`, so near words are drawn more often.
  std::size_t window = 5;
  /// A word that is the fraction f of all words is kept with probability sqrt(t / f) + t / f, where
  /// t is `subsample`; 0 keeps all words. This is the formula of the programs word2vec and fastText
  /// (Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their
  /// Compositionality", section 2.3, omit the second term).
  double subsample = 1e-4;
  std::size_t negatives = 5;         // for each target, drawn in proportion to counts^0.75
  std::size_t shared_negatives = 0;  // if above 0, drawn for a whole batch (or slice) instead
  bool cbow = false;                 // if true, examples are for CBOW, otherwise for skip-gram
  std::vector<std::int32_t> left_out = {};  // ids that are not words, such as the id of kUnknown
  std::vector<std::int32_t> borders = {};   // ids that end windows, such as the id of kEndOfText
  /// The number of times that each id occurs in the training text; by default, in this text. Ids
  /// with the count 0 are left out.
  std::vector<std::uint64_t> counts = {};
};

/// Words of a text with the words around them, for WordVectors. An example is a block of
/// consecutive tokens. It draws from a stream of its own, so that the number of threads does not
/// matter.
///
/// Batch::bags has one bag per block. The arrays are the inputs, the targets, the negatives, and
/// the number of context words of each word. For skip-gram, words are the inputs, and their context
/// words the targets; for CBOW, context words are the inputs, and words the targets.
///
/// The negatives of target i are the ids `negatives` · i … `negatives` · (i + 1) − 1. Shared
/// negatives are in Batch::shared instead of Batch::bags.
class WordPairs : public Dataset {
 public:
  /// Throws if the text has no two words in one window, if an id is outside the vocabulary, if
  /// `subsample` is negative or not finite, or if another option is 0 that must not be.
  WordPairs(TokenSequence text, WordPairOptions options);

  std::size_t size() const override { return (text_.size() + options_.block - 1) / options_.block; }

  /// Draws words, windows and negatives.
  Batch draw(std::span<const std::int64_t> blocks, Random& random) const override {
    return pairs(blocks, &random);
  }
  /// Returns all words with their full windows. The negatives depend only on `blocks`.
  Batch batch(std::span<const std::int64_t> blocks) const override {
    return pairs(blocks, nullptr);
  }

  StateDict description() const override;
  void check_unchanged() const override { text_.check_unchanged(); }
  DataUnit unit() const override { return {"tokens", options_.block}; }

 private:
  struct Words;

  Words draw_words(std::int64_t block, bool all, Random random) const;
  Batch pairs(std::span<const std::int64_t> blocks, Random* random) const;

  TokenSequence text_;
  WordPairOptions options_;
  std::vector<std::uint64_t> counts_;  // of words; 0 for other ids
  std::vector<std::uint64_t> keep_;    // probability of keeping an id, times 2^32
  NegativeSampler sampler_;
};

}  // namespace rowgrad
