#pragma once

// Text to ids and back. A tokenizer never changes after it is made: all its functions may be called
// from any number of threads at once.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/data/vocabulary.hpp>
#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

/// The special token between two documents.
inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// The special token whose id stands for everything that has none. A character or word tokenizer
/// has unknown tokens exactly if this is one of its special tokens.
inline constexpr std::string_view kUnknown = "<|unk|>";

struct EncodeOptions {
  /// The special tokens that count as such where they stand in the text. All others are letters
  /// like any, so that nobody ends a document by typing `<|endoftext|>` into it.
  std::vector<std::string> allowed_special = {};
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The ids of a text, rank 1. Throws std::invalid_argument for an allowed special token that this
  /// tokenizer has not, and for text that it has no id for.
  Ids encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// The text of ids of any rank, read in row-major order. Throws std::invalid_argument for an id
  /// out of range.
  std::string decode(const Ids& ids) const;
  std::string decode(std::span<const std::int32_t> ids) const { return join(ids); }

  /// The number of ids.
  std::size_t size() const { return vocabulary_.size(); }

  /// The text of one token, which need not be whole UTF-8 characters. Throws std::invalid_argument
  /// for an id out of range.
  const std::string& token(std::int32_t id) const { return vocabulary_.token(id); }

  const Vocabulary& vocabulary() const { return vocabulary_; }

  /// All that is needed to make the tokenizer again with tokenizer_from_json, in ASCII.
  virtual std::string to_json() const = 0;
  void save(const std::filesystem::path& path) const;

 protected:
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Tokenizer(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

 private:
  /// Appends the ids of a text without special tokens. It stands at byte `offset` of the text that
  /// the caller knows, for messages.
  virtual void append_ids(std::string_view text, std::size_t offset,
                          std::vector<std::int32_t>& ids) const = 0;

  /// The text of these tokens side by side.
  virtual std::string join(std::span<const std::int32_t> ids) const;

  Vocabulary vocabulary_;
};

/// Makes the tokenizer whose to_json() this is. Throws std::runtime_error for anything else: other
/// JSON, a text cut short, tokens or merges that contradict each other.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view json);

/// The same from a file that save() wrote; the message names the file.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace rowgrad
