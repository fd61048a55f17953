#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/data/token_file.hpp>
#include <rowgrad/core/tensor/ids.hpp>

// Sequences of token ids, and the windows that models see. Invalid arguments, including ranges and
// windows outside the sequence, throw std::invalid_argument.

namespace rowgrad {

/// An immutable sequence of token ids, in memory or in files. Copies and slices share the ids.
class TokenSequence {
 public:
  /// Takes ids in memory. Requires rank 1.
  TokenSequence(Ids ids);
  TokenSequence(const std::vector<std::int32_t>& ids) : TokenSequence(Ids(ids)) {}

  /// Concatenates files in this order. Throws std::runtime_error if their headers have different
  /// vocabularies.
  explicit TokenSequence(std::vector<TokenFile> files);

  /// Returns the number of ids.
  std::uint64_t size() const { return size_; }

  /// Fills `ids` with the ids from index `begin` on. Throws as TokenFile::read() does.
  void read(std::uint64_t begin, std::span<std::int32_t> ids) const;

  /// Returns the `count` ids from `begin` on.
  TokenSequence slice(std::uint64_t begin, std::uint64_t count) const;

  /// Returns a copy of all ids.
  Ids ids() const;

  /// Returns a checksum of the ids. For more than 2^20 ids, it covers their number and a sample
  /// of 2^14 ids, so that large files need not be read whole.
  std::uint64_t checksum() const;

  /// Throws std::runtime_error if a file has changed since it was opened.
  void check_unchanged() const;

 private:
  void check_range(const char* caller, std::uint64_t begin, std::uint64_t count) const;

  // Shared by copies and slices.
  std::shared_ptr<const Ids> ids_;  // null if the ids are in files
  std::shared_ptr<const std::vector<TokenFile>> files_;
  std::vector<std::uint64_t> ends_;  // end of each file in the sequence
  std::uint64_t begin_ = 0;          // start of this slice
  std::uint64_t size_ = 0;
};

/// The ids of a corpus, split into training and validation ids.
struct Split {
  TokenSequence train;       // the first part
  TokenSequence validation;  // the rest
};

/// Splits N ids: the first floor((1 − validation_fraction) · N) are for training, the rest for
/// validation. The fraction must be in [0, 1).
Split split(const TokenSequence& source, double validation_fraction);

/// Returns how often each id occurs among the first `most` ids. Throws std::invalid_argument for an
/// id outside the vocabulary.
std::vector<std::uint64_t> id_counts(const TokenSequence& text, std::size_t vocabulary,
                                     std::uint64_t most = ~std::uint64_t{0});

/// Returns the mean −log p over `text` under a model that knows only token frequencies. They are
/// the frequencies in `counted`, with 1 added to each count. Reads at most the first 2^24 ids of
/// each sequence. Throws std::invalid_argument for an id outside the vocabulary, and if `text` is
/// empty.
double unigram_loss(const TokenSequence& counted, const TokenSequence& text,
                    std::size_t vocabulary);

/// Options of TokenWindows.
struct WindowOptions {
  /// The number of ids in a window. Required.
  std::size_t context = 0;
  /// The distance between the starts of consecutive windows. Required. If it equals `context`,
  /// windows do not overlap; if it is 1, every possible window is used.
  std::size_t stride = 0;
};

/// The windows of N ids: they start at 0, stride, 2 · stride … < N − context. The target of an id
/// is the next id, so a window needs context + 1 ids. Targets can also be given explicitly
/// (core/data/training_examples.hpp); then the last window may reach the end of the ids. Copyable
/// and movable; copies share the ids.
class TokenWindows : public Dataset {
 public:
  /// Takes ids. Throws if there are too few for one window.
  TokenWindows(TokenSequence text, const WindowOptions& options);

  /// Takes one explicit target for each id.
  TokenWindows(TokenSequence text, TokenSequence targets, const WindowOptions& options);

  std::size_t size() const override { return size_; }       // number of windows
  std::size_t context() const { return options_.context; }  // ids per window
  std::size_t stride() const { return options_.stride; }    // distance between window starts
  const TokenSequence& text() const { return text_; }       // the ids that are cut into windows
  /// Returns true if the targets were given explicitly.
  bool has_explicit_targets() const { return has_own_targets_; }

  /// Returns the inputs and targets of `windows`, both [rows, context].
  Batch batch(std::span<const std::int64_t> windows) const override;

  /// Returns the number of windows, context, stride, and a checksum of the ids and of explicit
  /// targets: see TokenSequence::checksum().
  StateDict description() const override;
  void check_unchanged() const override;                                   // checks all files
  DataUnit unit() const override { return {"tokens", options_.context}; }  // padding included

 private:
  TokenSequence text_;
  TokenSequence targets_;
  bool has_own_targets_;
  WindowOptions options_;
  std::size_t size_;
};

}  // namespace rowgrad
