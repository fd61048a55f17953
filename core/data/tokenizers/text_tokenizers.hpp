#pragma once

#include <array>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Options of CharacterTokenizer.
struct CharacterOptions {
  /// These get the ids after the characters. If kUnknown is one of them, its id represents all
  /// characters that the vocabulary lacks.
  std::vector<std::string> special_tokens = {};
};

/// One token per character, that is, per Unicode code point. Copyable and movable.
class CharacterTokenizer final : public Tokenizer {
 public:
  /// A tokenizer for the characters of a text, with ids in the order of their code points.
  static CharacterTokenizer from_text(std::string_view text, const CharacterOptions& options = {});

  /// Each ordinary token must be one character.
  explicit CharacterTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  std::array<std::int32_t, 128> ascii_ids_;  // −1 for characters without an id
};

/// Options of WordTokenizer.
struct WordOptions {
  /// These get the ids after the words. If kUnknown is one of them, its id represents all words
  /// that the vocabulary lacks.
  std::vector<std::string> special_tokens = {std::string(kEndOfText), std::string(kUnknown)};
  /// A word that occurs less often in the text gets no id.
  std::size_t min_count = 1;
  /// The number of ids, special tokens among them, at most; 0 for no limit. The most frequent words
  /// get one and, of those that are equally frequent, the ones that come first when sorted.
  std::size_t max_tokens = 0;
  /// Words are taken in lower case, in this text and in all that are encoded.
  bool lower = false;
};

/// Splits a text at white space, which is dropped, and at each of , . : ; ? _ ! " ( ) ' and --,
/// which are words themselves. This is re.split(r'([,.:;?_!"()\']|--|\s)', text) in Python without
/// the blank pieces, as in Raschka's *Build a Large Language Model (From Scratch)*, chapter 2.
std::vector<std::string_view> split_words(std::string_view text);

/// One token per word. Copyable and movable.
///
/// decode puts one blank between two words, and none before , . : ; ? ! " ( ) and '. The original
/// white space is lost.
class WordTokenizer final : public Tokenizer {
 public:
  /// A tokenizer for the words of a text, except those spelled like a special token, with ids in
  /// the order of their code points. Refuses max_tokens that leave no id for a word.
  static WordTokenizer from_text(std::string_view text, const WordOptions& options = {});

  /// With `lower`, texts are encoded in lower case. Each ordinary token must be one word, and then
  /// in lower case.
  explicit WordTokenizer(Vocabulary vocabulary, bool lower = false);

  bool lower() const { return lower_; }  // whether texts are lowered first

  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  bool lower_;
};

}  // namespace rowgrad
