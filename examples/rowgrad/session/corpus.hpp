#pragma once

// What train trains a model on: a text, or the token ids of one in a file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// The text before and from int((1 − validation) · n) of its n characters on.
std::pair<std::string, std::string> split_text(const std::string& text, double validation);

/// A text in memory, or files of token ids (token_file.hpp) that stay on the disk.
class Corpus {
 public:
  /// The ids in the files `chosen`, one after another, if their names end in .bin; otherwise the
  /// text of one file or of none, as find_corpus(). Throws std::invalid_argument for several files
  /// with a text among them, and std::runtime_error as TokenFile.
  static Corpus find(const std::vector<std::string>& chosen);

  Corpus(std::string text) : bytes_(text.size()), text_(std::move(text)) {}

  /// The files in which it was found, by absolute paths; none for The Verdict and a text in memory.
  const std::vector<std::string>& files() const { return files_; }

  /// Where it comes from, for the user.
  const std::string& source() const { return source_; }

  std::uint64_t bytes() const { return bytes_; }

  bool has_ids() const { return !ids_.empty(); }

  /// As rowgrad::make_tokenizer, from the text. Throws std::invalid_argument for ids, which have
  /// none, if a text is needed.
  std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::size_t vocabulary) const;

  /// The same for the same text, or the same ids in the same files: see TokenFile::fingerprint for
  /// how ids are compared.
  std::string hash() const;

  /// Whether all files have a checksum of their ids.
  bool has_checksums() const { return has_checksums_; }

  /// Whether split() verifies the ids: only if that takes less than about a second.
  bool is_verified() const { return bytes_ <= std::uint64_t{1} << 30; }

  /// The ids to train on, and after them those for validation. A text is split by characters before
  /// it is encoded, ids by their number. Throws as TokenFile does for ids of another tokenizer or,
  /// where they are verified, that were changed; a file without a header is taken to have as many
  /// bytes an id as the vocabulary needs.
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
