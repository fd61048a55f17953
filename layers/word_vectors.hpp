#pragma once

#include <cstddef>

#include <rowgrad/core/data/word_pairs.hpp>
#include <rowgrad/layers/embedding.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

/// Options of WordVectors.
struct WordVectorOptions {
  std::size_t vocabulary = 0;  // number of ids
  std::size_t width = 100;     // elements of a vector
  /// If true, the mean vector of the context words predicts a word (CBOW). Otherwise, a word
  /// predicts each of its context words (skip-gram).
  bool cbow = false;
  /// The weight of all negatives of a target together. Shared negatives are weighted to give the
  /// loss of `negatives` negatives for each target. Negatives of its own have weight 1.
  std::size_t negatives = 5;
};

/// Word vectors learned from pairs of WordPairs with negative sampling (Mikolov et al. 2013,
/// "Distributed Representations of Words and Phrases and their Compositionality"). `input` has the
/// word vectors. They start uniform in ±0.5 / width, the vectors of `output` at 0, and both get
/// gradients of the rows that a batch looks up.
///
/// The loss is the mean over the targets of a batch. The programs word2vec and fastText step after
/// each target instead. So with SGD, a rate of r · targets per batch has the effect of their rate
/// r.
class WordVectors : public Model {
 public:
  /// Draws the initial vectors from `random`. Throws if an option is 0.
  WordVectors(const WordVectorOptions& options, Random& random);

  /// Returns the mean of negative_sampling_loss() over all targets of a batch of WordPairs. Throws
  /// if the batch has other arrays.
  Variable loss(Tape& tape, const Batch& batch) override;

  /// Returns the number of targets.
  double loss_weight(const Batch& batch) const override;
  std::vector<TableLookup> lookups(const Batch& batch) const override;

  /// Returns the constructor's options.
  const WordVectorOptions& options() const { return options_; }

 private:
  WordVectorOptions options_;

 public:
  Submodule<Embedding> input;   // [vocabulary, width]
  Submodule<Embedding> output;  // [vocabulary, width]
};

}  // namespace rowgrad
