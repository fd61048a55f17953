#pragma once

// Text to ids and back. A tokenizer never changes after construction, so all its functions may be
// called from any number of threads at once. In this folder, std::invalid_argument is thrown for
// wrong arguments: ids out of range, text that is not UTF-8 where characters or words are tokens,
// special tokens that a tokenizer lacks, text without an id.

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

/// The special token whose id represents everything that has no id. Character and word tokenizers
/// throw for such text unless this is one of their special tokens.
inline constexpr std::string_view kUnknown = "<|unk|>";

/// Options of Tokenizer::encode().
struct EncodeOptions {
  /// The special tokens to recognise in the text. All others are encoded as ordinary text, so that
  /// nobody ends a document by typing `<|endoftext|>` into it.
  std::vector<std::string> allowed_special = {};
  /// Where the text starts in a longer one, in bytes; for messages only.
  std::size_t offset = 0;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of a text.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of ids, also of an array of any rank, which is read in row-major order.
  virtual std::string decode(std::span<const std::int32_t> ids) const;

  /// The number of ids.
  std::size_t size() const { return vocabulary_.size(); }

  /// The text of one token, which need not be whole UTF-8 characters.
  const std::string& token(std::int32_t id) const { return vocabulary_.token(id); }

  const Vocabulary& vocabulary() const { return vocabulary_; }  // its tokens and their ids

  /// All that tokenizer_from_json needs to recreate the tokenizer, in ASCII.
  virtual std::string to_json() const = 0;
  void save(const std::filesystem::path& path) const;

 protected:
  /// For derived classes, which encode with this vocabulary.
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Tokenizer(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

 private:
  /// Appends the ids of a text without special tokens. `offset` is where it starts, in bytes, in
  /// the text that encode() was given; it is used in messages.
  virtual void append_ids(std::string_view text, std::size_t offset,
                          std::vector<std::int32_t>& ids) const = 0;

  Vocabulary vocabulary_;
};

/// Recreates a tokenizer from its to_json(). Throws std::runtime_error for anything else: other
/// JSON, truncated text, or tokens and merges that contradict each other.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json);

/// The same from a file that save() wrote; messages name the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace rowgrad
