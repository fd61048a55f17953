#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rowgrad {

/// Tokens and their ids, 0 … size() − 1. Ordinary tokens come from a text; special ones, such as
/// `<|endoftext|>`, represent something that no text contains. The two kinds are looked up
/// separately, so an ordinary token may be spelled like a special one. Copyable and movable.
class Vocabulary {
 public:
  /// `tokens` are in the order of their ids. Refuses an empty token, one that occurs twice within
  /// its kind, and a special id that is out of range or repeated.
  explicit Vocabulary(std::vector<std::string> tokens,
                      const std::vector<std::int32_t>& special_ids = {});

  std::size_t size() const { return tokens_.size(); }                            // number of ids
  const std::vector<std::string>& tokens() const { return tokens_; }             // by their ids
  const std::vector<std::int32_t>& special_ids() const { return special_ids_; }  // increasing

  /// The text of one token.
  const std::string& token(std::int32_t id) const;

  bool is_special(std::int32_t id) const;  // whether its token is special

  /// The id of an ordinary or a special token, if there is one.
  std::optional<std::int32_t> find(std::string_view token) const;
  std::optional<std::int32_t> find_special(std::string_view token) const;

  /// A checksum of all tokens, their ids and kinds, the same on every machine.
  std::uint64_t hash() const;
  std::uint64_t legacy_hash() const;  // in token files of version 0.2.0

 private:
  std::size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<std::int32_t> special_ids_;
  std::map<std::string, std::int32_t, std::less<>> special_;  // ids by their tokens
  // The ids of ordinary tokens by their hash, in open addressing: the number of slots is a power of
  // two, and at most half are taken. Compact, because loading a vocabulary looks up every merge.
  std::vector<std::int32_t> slots_;
};

/// A vocabulary of `tokens` followed by `special_tokens`.
Vocabulary vocabulary_with_special(std::vector<std::string> tokens,
                                   const std::vector<std::string>& special_tokens);

/// Finds special tokens in a text from left to right; of those that start at the same offset, the
/// longest. Refers to the text and the tokens that it was created with.
class SpecialTokenSearch {
 public:
  /// A special token in a text.
  struct Found {
    std::size_t begin;  // its first byte
    std::size_t end;    // behind its last byte
    std::int32_t id;    // the id of the token
  };

  /// Refuses a token that is not special in this vocabulary.
  SpecialTokenSearch(std::string_view text, const std::vector<std::string>& tokens,
                     const Vocabulary& vocabulary);

  /// The first special token that starts at `begin` or later.
  std::optional<Found> next(std::size_t begin) const;

 private:
  using Token = std::pair<std::string_view, std::int32_t>;

  const Token* longest_at(std::size_t begin) const;

  std::string_view text_;
  std::vector<Token> tokens_;  // in alphabetical order
  std::array<bool, 256> begins_token_{};
};

}  // namespace rowgrad
