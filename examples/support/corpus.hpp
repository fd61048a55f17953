#pragma once

// What a training program is trained on: a text, or the token ids of one in a file.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <rowgrad/core/data/token_source.hpp>
#include <rowgrad/core/data/tokenizer.hpp>

namespace rowgrad {

/// The text before and from int((1 − validation) · n) of its n characters on.
std::pair<std::string, std::string> split_text(const std::string& text, double validation);

/// A text in memory, or a file of token ids (token_file.hpp) that stays on the disk.
class Corpus {
 public:
  /// The ids in the file `chosen` if its name ends in .bin; otherwise a text, as find_corpus().
  static Corpus find(const std::filesystem::path& chosen);

  Corpus(std::string text) : bytes_(text.size()), text_(std::move(text)) {}

  /// Where it comes from, for the user.
  const std::string& source() const { return source_; }

  std::uint64_t bytes() const { return bytes_; }

  bool has_ids() const { return !ids_.empty(); }

  /// As rowgrad::make_tokenizer, from the text. Throws std::invalid_argument for ids, which have
  /// none, if a text is needed.
  std::unique_ptr<Tokenizer> make_tokenizer(const std::string& name, std::size_t vocabulary) const;

  /// The same for the same text or ids. Ids are not all read for this: see TokenFile::fingerprint.
  std::string hash() const;

  /// The ids to train on, and after them those for validation. A text is split by characters before
  /// it is encoded, ids by their number. Throws as TokenFile does for ids of another tokenizer; a
  /// file without a header is taken to have 2 bytes an id.
  Split split(const Tokenizer& tokenizer, double validation) const;

 private:
  std::string source_;
  std::uint64_t bytes_ = 0;
  std::string text_;
  std::filesystem::path ids_;
};

}  // namespace rowgrad
