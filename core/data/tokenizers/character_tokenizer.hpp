#pragma once

#include <array>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

struct CharacterOptions {
  /// These get the ids after the characters. If kUnknown is one of them, its id represents all
  /// characters that the vocabulary lacks.
  std::vector<std::string> special_tokens = {};
};

/// One token per character, that is, per Unicode code point. Copyable and movable.
class CharacterTokenizer final : public Tokenizer {
 public:
  /// A tokenizer for the characters of a text, with ids in the order of their code points. Throws
  /// std::invalid_argument if the text is not valid UTF-8.
  static CharacterTokenizer from_text(std::string_view text, const CharacterOptions& options = {});

  /// Throws std::invalid_argument for an ordinary token that is not one character.
  explicit CharacterTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  // Throws for invalid UTF-8, and for a character without an id if there is no unknown token.
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;
  bool can_cut(std::string_view text, std::size_t place) const override;

  std::array<std::int32_t, 128> ascii_ids_;  // −1 for characters without an id
};

}  // namespace rowgrad
