#pragma once

#include <array>

#include <rowgrad/core/data/tokenizer.hpp>

namespace rowgrad {

struct CharacterOptions {
  /// Get the ids after those of the characters. With kUnknown among them, characters that the
  /// vocabulary lacks get its id.
  std::vector<std::string> special_tokens = {};
};

/// One token for each character, that is for each Unicode code point. Copies and moves.
class CharacterTokenizer final : public Tokenizer {
 public:
  /// The characters of a text, in the order of their code points. Throws std::invalid_argument
  /// where the text is not valid UTF-8.
  static CharacterTokenizer from_text(std::string_view text, const CharacterOptions& options = {});

  /// Throws std::invalid_argument for an ordinary token that is not one character.
  explicit CharacterTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  // Throws for a character that has no id when there is no unknown token, and for invalid UTF-8.
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  std::array<std::int32_t, 128> ascii_ids_;  // -1 where there is none
};

}  // namespace rowgrad
