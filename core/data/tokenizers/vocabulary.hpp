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

/// Tokens and their ids, 0 … size() − 1. Ordinary tokens come from text; special tokens, such as
/// `<|endoftext|>`, represent something that no text contains. The two kinds are looked up
/// separately, so an ordinary token may be spelled like a special one. Copyable and movable.
class Vocabulary {
 public:
  /// Takes tokens in the order of their ids. Throws for an empty token, two equal tokens of one
  /// kind, and special ids that are repeated or out of range.
  explicit Vocabulary(std::vector<std::string> tokens,
                      const std::vector<std::int32_t>& special_ids = {});

  std::size_t size() const { return tokens_.size(); }                            // number of ids
  const std::vector<std::string>& tokens() const { return tokens_; }             // in id order
  const std::vector<std::int32_t>& special_ids() const { return special_ids_; }  // sorted

  /// Returns a token's text.
  const std::string& token(std::int32_t id) const;

  bool is_special(std::int32_t id) const;  // true if the token is special

  /// Returns the id of an ordinary token, if there is one.
  std::optional<std::int32_t> find(std::string_view token) const;
  /// Returns the id of a special token, if there is one.
  std::optional<std::int32_t> find_special(std::string_view token) const;

  /// Returns a checksum of all tokens, their ids and kinds, the same on every machine.
  std::uint64_t hash() const;
  std::uint64_t legacy_hash() const;  // hash() of rowgrad 0.2.0

 private:
  std::size_t slot_of(std::string_view token) const;

  std::vector<std::string> tokens_;
  std::vector<std::int32_t> special_ids_;
  std::map<std::string, std::int32_t, std::less<>> special_;  // token → id
  // Open-addressing table of the ordinary tokens' ids. The number of slots is a power of two, and
  // at most half are taken. It is compact, because loading a vocabulary looks up every merge.
  std::vector<std::int32_t> slots_;
};

/// Returns a vocabulary of `tokens` followed by `special_tokens`.
Vocabulary vocabulary_with_special(std::vector<std::string> tokens,
                                   const std::vector<std::string>& special_tokens);

/// A search for special tokens in text, from left to right, longest first at each position. Borrows
/// the text and the tokens.
class SpecialTokenSearch {
 public:
  /// A special token in the text.
  struct Found {
    std::size_t begin;  // offset of its first byte
    std::size_t end;    // offset after its last byte
    std::int32_t id;    // id of the token
  };

  /// Throws for a token that is not special in this vocabulary.
  SpecialTokenSearch(std::string_view text, const std::vector<std::string>& tokens,
                     const Vocabulary& vocabulary);

  /// Returns the first special token from `begin` on, if any.
  std::optional<Found> next(std::size_t begin) const;

 private:
  using Token = std::pair<std::string_view, std::int32_t>;

  const Token* longest_at(std::size_t begin) const;

  std::string_view text_;
  std::vector<Token> tokens_;  // sorted
  std::array<bool, 256> begins_token_{};
};

}  // namespace rowgrad
