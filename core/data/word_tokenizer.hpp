#pragma once

#include <rowgrad/core/data/tokenizer.hpp>

namespace rowgrad {

struct WordOptions {
  enum class Order { sorted, first_appearance };

  /// The order in which words get their ids; `sorted` compares code points.
  Order order = Order::sorted;
  /// These get the ids after the words. If kUnknown is one of them, its id represents all words
  /// that the vocabulary lacks.
  std::vector<std::string> special_tokens = {std::string(kEndOfText), std::string(kUnknown)};
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
  /// A tokenizer for the words of a text, except those spelled like a special token.
  static WordTokenizer from_text(std::string_view text, const WordOptions& options = {});

  /// Throws std::invalid_argument for an ordinary token that is not one word.
  explicit WordTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  // Throws for a word without an id if there is no unknown token.
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;
  bool can_cut(std::string_view text, std::size_t place) const override;
  std::string join(std::span<const std::int32_t> ids) const override;
};

}  // namespace rowgrad
