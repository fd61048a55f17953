#pragma once

#include <array>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Options of CharacterTokenizer.
struct CharacterOptions {
  /// Special tokens, with the ids after the characters. If kUnknown is one of them, its id
  /// represents all characters without an id.
  std::vector<std::string> special_tokens = {};
};

/// A tokenizer with one token per character (Unicode code point). Copyable and movable.
class CharacterTokenizer final : public Tokenizer {
 public:
  /// Collects the characters of a corpus, with ids in code point order.
  static CharacterTokenizer from_text(std::string_view text, const CharacterOptions& options = {});

  /// Throws if an ordinary token is not exactly one character.
  explicit CharacterTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  std::array<std::int32_t, 128> ascii_ids_;  // −1 for characters without an id
};

/// Options of WordTokenizer.
struct WordOptions {
  /// Special tokens, with the ids after the words. If kUnknown is one of them, its id represents
  /// all words without an id.
  std::vector<std::string> special_tokens = {std::string(kEndOfText), std::string(kUnknown)};
  /// The minimum count in the corpus. Rarer words get no id.
  std::size_t min_count = 1;
  /// The maximum number of ids, including special tokens; 0 for no limit. The most frequent words
  /// get ids; ties go to the word that sorts first.
  std::size_t max_tokens = 0;
  /// If true, all words are converted to lower case, in the corpus and when encoding.
  bool lower = false;
  /// If true, only whitespace separates words, for text that is already tokenized.
  bool whitespace_only = false;
};

/// Splits text at whitespace, which is dropped, and at each of , . : ; ? _ ! " ( ) ' and --, which
/// are words themselves. Equivalent to re.split(r'([,.:;?_!"()\']|--|\s)', text) in Python without
/// the blank pieces, as in Raschka's *Build a Large Language Model (From Scratch)*, chapter 2. With
/// `whitespace_only`, equivalent to str.split() in Python.
std::vector<std::string_view> split_words(std::string_view text, bool whitespace_only = false);

/// A tokenizer with one token per word. Copyable and movable.
///
/// decode() joins words with single spaces. Unless only whitespace separates words, there is no
/// space before , . : ; ? ! " ( ) and '. The original whitespace is lost.
class WordTokenizer final : public Tokenizer {
 public:
  /// Collects the words of a corpus, with ids in code point order. Skips words spelled like special
  /// tokens. Throws if max_tokens leaves no id for words.
  static WordTokenizer from_text(std::string_view text, const WordOptions& options = {});

  /// Throws if an ordinary token is not exactly one word or, with `lower`, not in lower case. With
  /// `lower`, text is encoded in lower case.
  explicit WordTokenizer(Vocabulary vocabulary, bool lower = false, bool whitespace_only = false);

  bool lower() const { return lower_; }  // true if text is converted to lower case
  bool whitespace_only() const { return whitespace_only_; }  // WordOptions::whitespace_only

  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string to_json() const override;

 private:
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;

  bool lower_;
  bool whitespace_only_;
};

}  // namespace rowgrad
