#include <algorithm>
#include <span>

#include <rowgrad/core/data/special_tokens.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/core/tensor/utf8.hpp>

namespace rowgrad {

SpecialTokenSearch::SpecialTokenSearch(std::string_view text,
                                       const std::vector<std::string>& tokens,
                                       const Vocabulary& vocabulary)
    : text_(text) {
  for (const std::string& token : tokens) {
    const std::optional<std::int32_t> id = vocabulary.find_special(token);
    check_argument(id.has_value(), "encode: allowed_special has ", in_quotes(token),
                   ", which is no special token of this tokenizer");
    tokens_.emplace_back(token, *id);
    begins_token_[static_cast<std::uint8_t>(token.front())] = true;
  }
  std::ranges::sort(tokens_);
}

std::optional<SpecialTokenSearch::Found> SpecialTokenSearch::next(std::size_t begin) const {
  if (tokens_.empty()) return std::nullopt;
  for (; begin < text_.size(); ++begin) {
    if (!begins_token_[static_cast<std::uint8_t>(text_[begin])]) continue;
    if (const Token* token = longest_at(begin))
      return Found{begin, begin + token->first.size(), token->second};
  }
  return std::nullopt;
}

// Walks along the text and narrows the range of tokens that match it so far.
const SpecialTokenSearch::Token* SpecialTokenSearch::longest_at(std::size_t begin) const {
  const Token* longest = nullptr;
  std::span<const Token> alike = tokens_;
  for (std::size_t length = 0; !alike.empty(); ++length) {
    if (alike.front().first.size() == length) longest = &alike.front();
    if (begin + length == text_.size()) break;
    // A token that ends here sorts before all longer ones; its missing byte counts as −1.
    const auto byte_there = [&](const Token& token) {
      return token.first.size() == length ? -1 : static_cast<std::uint8_t>(token.first[length]);
    };
    const int byte = static_cast<std::uint8_t>(text_[begin + length]);
    const auto first = std::partition_point(
        alike.begin(), alike.end(), [&](const Token& token) { return byte_there(token) < byte; });
    const auto last = std::partition_point(
        first, alike.end(), [&](const Token& token) { return byte_there(token) <= byte; });
    alike = std::span(first, last);
  }
  return longest;
}

}  // namespace rowgrad
