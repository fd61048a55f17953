#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/data/tokenizers/vocabulary.hpp>

namespace rowgrad {

/// Finds special tokens in a text from left to right; of those that start at the same place, the
/// longest. Refers to the text and the tokens that it was created with.
class SpecialTokenSearch {
 public:
  struct Found {
    std::size_t begin;
    std::size_t end;
    std::int32_t id;
  };

  /// Throws std::invalid_argument for a token that is not special in this vocabulary.
  SpecialTokenSearch(std::string_view text, const std::vector<std::string>& tokens,
                     const Vocabulary& vocabulary);

  /// The first special token that starts at `begin` or later.
  std::optional<Found> next(std::size_t begin) const;

  /// Whether a special token starts before `place` and ends after it, in this text or in a longer
  /// one that begins with it.
  bool may_span(std::size_t place) const;

 private:
  using Token = std::pair<std::string_view, std::int32_t>;

  const Token* longest_at(std::size_t begin) const;

  std::string_view text_;
  std::vector<Token> tokens_;  // in alphabetical order
  std::array<bool, 256> begins_token_{};
};

}  // namespace rowgrad
