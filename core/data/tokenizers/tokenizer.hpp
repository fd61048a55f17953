#pragma once

// Converts text to token ids and back. A tokenizer is immutable, so several threads may use it at
// once. In this folder, invalid arguments throw std::invalid_argument: ids out of range, special
// tokens that a tokenizer lacks, text that has no id and, for characters and words, text that is
// not UTF-8.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/data/tokenizers/vocabulary.hpp>

namespace rowgrad {

/// The special token between two documents.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The special token for everything that has no id. Character and word tokenizers without it throw
/// for unknown text.
inline constexpr std::string_view kUnknown = "<|unk|>";

/// Options of Tokenizer::encode().
struct EncodeOptions {
  /// The special tokens to recognise in the text. All others are encoded as ordinary text, so that
  /// nobody ends a document by typing `<|endoftext|>` into it.
  std::vector<std::string> allowed_special = {};
  /// Byte offset of `text` in a longer string; for messages only.
  std::size_t offset = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Returns the ids of a string.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Returns the text of ids. An array of any rank is read in row-major order.
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  /// Returns the number of ids.
  std::size_t size() const { return vocabulary_.size(); }

  /// Returns the text of one token, which may be only a part of a UTF-8 character.
  const std::string& token(std::int32_t id) const { return vocabulary_.token(id); }

  const Vocabulary& vocabulary() const { return vocabulary_; }  // tokens and their ids

  /// Returns ASCII JSON from which tokenizer_from_json() can recreate the tokenizer.
  virtual std::string to_json() const = 0;
  /// Writes to_json() to a file.
  void save(const std::filesystem::path& path) const;

 protected:
  /// Constructs the base of a tokenizer that encodes with this vocabulary.
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Tokenizer(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

 private:
  /// Appends the ids of `text`, which has no special tokens. `offset` is the byte offset of `text`
  /// in the string given to encode(), for messages.
  virtual void append_ids(std::string_view text, std::size_t offset,
                          std::vector<std::int32_t>& ids) const = 0;

  Vocabulary vocabulary_;
};

/// Recreates a tokenizer from its to_json(). Throws std::runtime_error for other JSON, and for
/// truncated, damaged or contradictory contents.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json);

/// Recreates a tokenizer from a file written by save(); messages name the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace rowgrad
