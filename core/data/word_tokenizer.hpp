#pragma once

#include <rowgrad/core/data/tokenizer.hpp>

namespace rowgrad {

struct WordOptions {
  enum class Order { sorted, first_appearance };

  /// The order in which words get their ids; `sorted` compares code points.
  Order order = Order::sorted;
  /// Get the ids after those of the words. With kUnknown among them, words that the vocabulary
  /// lacks get its id.
  std::vector<std::string> special_tokens = {std::string(kEndOfText), std::string(kUnknown)};
};

/// The words of a text: it is split at white space, which is dropped, and at each of , . : ; ? _ !
/// " ( ) ' and --, which are words themselves. This is re.split(r'([,.:;?_!"()\']|--|\s)', text) in
/// Python with the blank pieces removed, the split of Raschka's *Build a Large Language Model (From
/// Scratch)*, chapter 2. Throws std::invalid_argument where the text is not valid UTF-8.
std::vector<std::string_view> split_words(std::string_view text);

/// One token for each word. Copies and moves.
///
/// decode puts one blank between two words, and none before , . : ; ? ! " ( ) and '. White space as
/// it was in the text is lost.
class WordTokenizer final : public Tokenizer {
 public:
  /// The words of a text; those that spell one of the special tokens are left out.
  static WordTokenizer from_text(std::string_view text, const WordOptions& options = {});

  /// Throws std::invalid_argument for an ordinary token that is not one word.
  explicit WordTokenizer(Vocabulary vocabulary);

  std::string to_json() const override;

 private:
  // Throws for a word that has no id when there is no unknown token.
  void append_ids(std::string_view text, std::size_t offset,
                  std::vector<std::int32_t>& ids) const override;
  std::string join(std::span<const std::int32_t> ids) const override;
};

}  // namespace rowgrad
