#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/data/token_file.hpp>
#include <rowgrad/core/tensor/ids.hpp>

// The ids of a text and the windows that models see of it. Wrong arguments, also ranges that leave
// the text and windows that do not exist, throw std::invalid_argument.

namespace rowgrad {

/// The token ids of a text: in memory, or in files that stay on the disk. Never changes. Copies and
/// slices are cheap, as they share the ids.
class TokenSequence {
 public:
  /// Ids in memory, of rank 1.
  TokenSequence(Ids ids);
  TokenSequence(const std::vector<std::int32_t>& ids) : TokenSequence(Ids(ids)) {}

  /// Files whose ids make one text, in this order. Throws std::runtime_error for headers with
  /// different vocabularies.
  explicit TokenSequence(std::vector<TokenFile> files);

  /// The number of ids.
  std::uint64_t size() const { return size_; }

  /// Fills `ids` from the id at `begin` on. Throws what TokenFile::read does.
  void read(std::uint64_t begin, std::span<std::int32_t> ids) const;

  /// The `count` ids from `begin` on.
  TokenSequence slice(std::uint64_t begin, std::uint64_t count) const;

  /// All ids, in an array of their own.
  Ids ids() const;

  /// A checksum that tells other ids apart: of all of them or, if they are more than 2^20, of their
  /// number and of a sample of 2^14, so that no large file is read.
  std::uint64_t checksum() const;

  /// Throws std::runtime_error if a file was changed after it was opened.
  void check_unchanged() const;

 private:
  void check_range(const char* caller, std::uint64_t begin, std::uint64_t count) const;

  // Shared, because loaders of the same text, and their copies, need the ids only once.
  std::shared_ptr<const Ids> ids_;  // or else:
  std::shared_ptr<const std::vector<TokenFile>> files_;
  std::vector<std::uint64_t> ends_;  // of each file, in the text
  std::uint64_t begin_ = 0;          // of this slice
  std::uint64_t size_ = 0;
};

/// A text cut into a training and a validation part.
struct Split {
  TokenSequence train;       // its first part
  TokenSequence validation;  // the rest
};

/// Splits N ids: the first floor((1 − validation_fraction) · N) are for training, the rest for
/// validation. The fraction is in [0, 1).
Split split(const TokenSequence& source, double validation_fraction);

/// The loss of a model that knows only how often each token occurs: mean −log p over `text`, with
/// the frequencies in `counted`, where each token counts once more than it occurs. Of a very
/// long text, the first 2^24 tokens stand for all. Throws std::invalid_argument for an id outside
/// the vocabulary and a text without tokens.
double unigram_loss(const TokenSequence& counted, const TokenSequence& text,
                    std::size_t vocabulary);

/// Options of TokenWindows.
struct WindowOptions {
  /// The number of ids in a window. Required.
  std::size_t context = 0;
  /// The distance between the starts of consecutive windows. Required. If it equals `context`, each
  /// id is an input at most once; if it is 1, every possible window is used.
  std::size_t stride = 0;
};

/// The windows of a text of N ids: they start at 0, stride, 2 · stride … < N − context. The target
/// of an id is the next id, so a window needs context + 1 ids. Or the targets are given, as for
/// texts of which only some positions are to be learned (core/data/training_examples.hpp): then the
/// last window may end with the text. Copyable and movable; copies share the ids.
class TokenWindows : public Dataset {
 public:
  /// Refuses a text too short for one window.
  TokenWindows(TokenSequence text, const WindowOptions& options);

  /// One target for each id of the text.
  TokenWindows(TokenSequence text, TokenSequence targets, const WindowOptions& options);

  std::size_t size() const override { return size_; }       // the number of windows
  std::size_t context() const { return options_.context; }  // length of a window
  std::size_t stride() const { return options_.stride; }    // from one window to the next
  const TokenSequence& text() const { return text_; }       // what windows are cut from
  /// Whether the targets are given, and not the next ids.
  bool has_explicit_targets() const { return has_own_targets_; }

  /// Inputs and targets of these windows, both [rows, context].
  Batch batch(std::span<const std::int64_t> windows) const override;

  /// The number of windows, context and stride, and a checksum of the ids, and of the targets if
  /// these are given: see TokenSequence.
  StateDict description() const override;
  void check_unchanged() const override;                                   // of any of the files
  DataUnit unit() const override { return {"tokens", options_.context}; }  // all of a window

 private:
  TokenSequence text_;
  TokenSequence targets_;
  bool has_own_targets_;
  WindowOptions options_;
  std::size_t size_;
};

}  // namespace rowgrad
