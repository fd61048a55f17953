#pragma once

// The corpus to train on: text, or files of token ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>

namespace rowgrad {

/// Splits a text of n characters before character int((1 − validation) · n).
std::pair<std::string, std::string> split_text(const std::string& text, double validation);

/// A text in memory, or files of token ids (token_file.hpp) that stay on disk.
class Corpus {
 public:
  /// If all names in `chosen` end in .bin, concatenates the ids in these files. Otherwise, `chosen`
  /// may have at most one file, which find_corpus() reads. Throws std::invalid_argument for several
  /// files if any is text, and std::runtime_error like TokenFile.
  static Corpus find(const std::vector<std::string>& chosen);

  Corpus(std::string text) : bytes_(text.size()), text_(std::move(text)) {}

  /// Returns the absolute paths of the files; none for The Verdict and a text in memory.
  const std::vector<std::string>& files() const { return files_; }

  /// Describes the source to the user.
  const std::string& source() const { return source_; }

  std::uint64_t bytes() const { return bytes_; }

  bool has_ids() const { return !ids_.empty(); }

  /// Makes a tokenizer like rowgrad::make_tokenizer. Throws std::invalid_argument if the tokenizer
  /// is trained on text but the corpus is token ids.
  std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::size_t vocabulary,
                                            const WordOptions& words = {}) const;

  /// Returns a hash, equal for equal texts, and for files with equal ids (TokenFile::fingerprint).
  std::string hash() const;

  /// Returns true if all files have checksums of their ids.
  bool has_checksums() const { return has_checksums_; }

  /// Returns true if split() verifies the ids, as it does for at most 1 GiB.
  bool is_verified() const { return bytes_ <= std::uint64_t{1} << 30; }

  /// Splits the ids: the first part is for training, the rest for validation. A text is split by
  /// characters before it is encoded. In a file without a header, the vocabulary size determines
  /// the bytes per id. Throws like TokenFile for ids from another tokenizer, and, if is_verified(),
  /// for damaged ids. With `lines`, puts kEndOfText after each line of a text.
  Split split(const Tokenizer& tokenizer, double validation, bool lines = false) const;

 private:
  std::vector<std::string> files_;
  std::string source_ = "this one";
  std::uint64_t bytes_ = 0;
  std::string text_;
  std::vector<std::string> ids_;  // paths
  std::string ids_hash_;
  bool has_checksums_ = false;
};

}  // namespace rowgrad
