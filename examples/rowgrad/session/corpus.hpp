#pragma once

// The text to train on, or files of token ids.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Splits a text of n characters in front of character int((1 − validation) · n).
std::pair<std::string, std::string> split_text(const std::string& text, double validation);

/// A text in memory, or files of token ids (token_file.hpp) that stay on the disk.
class Corpus {
 public:
  /// Returns the ids in the files `chosen`, one file after another, if their names end in .bin.
  /// Otherwise returns the text of find_corpus(), for at most one file. Throws
  /// std::invalid_argument for several files if one is a text, and std::runtime_error like
  /// TokenFile.
  static Corpus find(const std::vector<std::string>& chosen);

  Corpus(std::string text) : bytes_(text.size()), text_(std::move(text)) {}

  /// Returns the absolute paths of its files; none for The Verdict and a text in memory.
  const std::vector<std::string>& files() const { return files_; }

  /// Describes the source, for the user.
  const std::string& source() const { return source_; }

  std::uint64_t bytes() const { return bytes_; }

  bool has_ids() const { return !ids_.empty(); }

  /// Calls rowgrad::make_tokenizer with the text. Throws std::invalid_argument for ids, which have
  /// no text, if the tokenizer needs one.
  std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::size_t vocabulary) const;

  /// Returns a hash, which is equal for equal texts, and for files with equal ids
  /// (TokenFile::fingerprint).
  std::string hash() const;

  /// Returns true if all files have a checksum of their ids.
  bool has_checksums() const { return has_checksums_; }

  /// Returns true if split() verifies the ids, because that takes less than about a second.
  bool is_verified() const { return bytes_ <= std::uint64_t{1} << 30; }

  /// Returns the ids to train on, and the ids for validation, which follow them. A text is split by
  /// characters before it is encoded. In a file without a header, ids have the bytes that the
  /// vocabulary needs. Throws like TokenFile for ids of another tokenizer, and for changed ids if
  /// it verifies them.
  Split split(const Tokenizer& tokenizer, double validation) const;

 private:
  std::vector<std::string> files_;
  std::string source_ = "this one";
  std::uint64_t bytes_ = 0;
  std::string text_;
  std::vector<std::string> ids_;  // files
  std::string ids_hash_;
  bool has_checksums_ = false;
};

}  // namespace rowgrad
