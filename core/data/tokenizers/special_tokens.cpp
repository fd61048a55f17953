#include <algorithm>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/special_tokens.hpp>

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

bool SpecialTokenSearch::may_span(std::size_t place) const {
  return std::ranges::any_of(tokens_, [&](const Token& token) {
    const std::string_view letters = token.first;
    for (std::size_t before = 1; before < letters.size() && before <= place; ++before) {
      const std::string_view there = text_.substr(place - before, letters.size());
      if (letters.starts_with(there)) return true;  // `there` may end early, with the text
    }
    return false;
  });
}

// The last token up to the text is the longest one, or begins with all that the text begins with.
const SpecialTokenSearch::Token* SpecialTokenSearch::longest_at(std::size_t begin) const {
  for (std::string_view rest = text_.substr(begin);;) {
    auto token = std::ranges::upper_bound(tokens_, rest, {}, &Token::first);
    if (token == tokens_.begin()) return nullptr;
    const std::string_view letters = (--token)->first;
    const auto same = std::mismatch(letters.begin(), letters.end(), rest.begin(), rest.end()).first;
    if (same == letters.end()) return &*token;
    rest = rest.substr(0, static_cast<std::size_t>(same - letters.begin()));
  }
}

}  // namespace rowgrad
