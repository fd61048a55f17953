#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/vocabulary.hpp>

namespace rowgrad {

/// Finds the special tokens in a text from left to right; of two that begin at one place, the
/// longer. Refers to the text and the tokens it was made with.
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

  /// The first special token that begins at `begin` or later, where `begin` never goes back.
  std::optional<Found> next(std::size_t begin);

 private:
  struct Candidate {
    std::string_view token;
    std::int32_t id;
    std::size_t place;  // of its next occurrence, npos if there is none
  };

  std::string_view text_;
  std::vector<Candidate> candidates_;
};

}  // namespace rowgrad
