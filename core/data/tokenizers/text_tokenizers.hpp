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

struct WordOptions {
  enum class Order { sorted, first_appearance };

  /// The order in which words get their ids; `sorted` compares code points.
  Order order = Order::sorted;
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
/// Throws std::invalid_argument if the text is not valid UTF-8.
std::vector<std::string_view> split_words(std::string_view text);

/// One token per word. Copyable and movable.
///
/// decode puts one blank between two words, and none before , . : ; ? ! " ( ) and '. The original
/// white space is lost.
class WordTokenizer final : public Tokenizer {
 public:
  /// A tokenizer for the words of a text, except those spelled like a special token. Throws
  /// std::invalid_argument for text that is not valid UTF-8, and if max_tokens leaves no id for a
  /// word.
  static WordTokenizer from_text(std::string_view text, const WordOptions& options = {});

  /// With `lower`, texts are encoded in lower case. Throws std::invalid_argument for an ordinary
  /// token that is not one word, or then not in lower case.
  explicit WordTokenizer(Vocabulary vocabulary, bool lower = false);

  bool lower() const { return lower_; }

  std::string to_json() const override;

 private:
  // Throws for a word without an id if there is no unknown token.
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;
  bool can_cut(std::string_view text, std::size_t place) const override;
  std::string join(std::span<const std::int32_t> ids) const override;

  bool lower_;
};

}  // namespace rowgrad
