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
  /// The number of ids of the text. Required unless `counts` is given.
  std::size_t vocabulary = 0;
  /// The number of consecutive tokens in an example. Windows end at its first and last token.
  std::size_t block = 128;
  /// The largest distance, in words, of a context word. Each word draws its own window from 1 to
  /// `window`, so near words are drawn more often.
  std::size_t window = 5;
  /// A word that is the fraction f of all words is kept with probability sqrt(t / f) + t / f, where
  /// t is `subsample`; 0 keeps all words. This is the formula of the programs word2vec and fastText
  /// (Mikolov et al. 2013, "Distributed Representations of Words and Phrases and their
  /// Compositionality", section 2.3, omit the second term).
  double subsample = 1e-4;
  /// The number of negatives of each target, drawn in proportion to counts^0.75.
  std::size_t negatives = 5;
  /// If above 0, draws this number of negatives for all targets of a batch (of each slice) instead.
  std::size_t shared_negatives = 0;
  /// If true, examples are for CBOW, otherwise for skip-gram.
  bool cbow = false;
  /// Ids that are not words, such as the id of kUnknown. They are removed before windows are drawn.
  std::vector<std::int32_t> left_out = {};
  /// Ids that are not words and end windows, such as the id of kEndOfText.
  std::vector<std::int32_t> borders = {};
  /// The number of times that each id occurs in the training text; by default, in this text. Ids
  /// with the count 0 are left out.
  std::vector<std::uint64_t> counts = {};
};

/// Words of a text with the words around them, for WordVectors. An example is a block of
/// consecutive tokens. Its pairs and negatives are drawn from a stream of its own, so they do not
/// depend on the number of threads.
///
/// Batch::bags has one bag per block:
/// - For skip-gram: words, context words, negatives. Each pair is a word and one of its context
///   words, the target.
/// - For CBOW: context words, words, negatives, and the number of context words of each word. The
///   words are the targets.
///
/// The negatives of target i are the ids `negatives` · i … `negatives` · (i + 1) − 1. Shared
/// negatives are in Batch::shared instead of Batch::bags.
class WordPairs : public Dataset {
 public:
  /// Throws if the text has no two words in one block, if an id is outside the vocabulary, if
  /// `subsample` is negative or not finite, or if the vocabulary, block, window or number of
  /// negatives is 0.
  WordPairs(TokenSequence text, WordPairOptions options);

  std::size_t size() const override;  // returns the number of blocks
  const WordPairOptions& options() const { return options_; }

  /// Draws words, windows and negatives.
  Batch draw(std::span<const std::int64_t> blocks, Random& random) const override;

  /// Returns all words with their full windows. The negatives depend only on `blocks`.
  Batch batch(std::span<const std::int64_t> blocks) const override;

  /// Returns the number of blocks, options, and checksums of the ids and of other options.
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
