#include <rowgrad/core/data/special_tokens.hpp>
#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {

SpecialTokenSearch::SpecialTokenSearch(std::string_view text,
                                       const std::vector<std::string>& tokens,
                                       const Vocabulary& vocabulary)
    : text_(text) {
  for (const std::string& token : tokens) {
    const std::optional<std::int32_t> id = vocabulary.find_special(token);
    check_argument(id.has_value(), "encode: allowed_special has ", in_quotes(token),
                   ", which is no special token of this tokenizer");
    candidates_.push_back({token, *id, text.find(token)});
  }
}

std::optional<SpecialTokenSearch::Found> SpecialTokenSearch::next(std::size_t begin) {
  const Candidate* best = nullptr;
  for (Candidate& candidate : candidates_) {
    if (candidate.place < begin) candidate.place = text_.find(candidate.token, begin);
    if (candidate.place == std::string_view::npos) continue;
    const bool better =
        best == nullptr || candidate.place < best->place ||
        (candidate.place == best->place && candidate.token.size() > best->token.size());
    if (better) best = &candidate;
  }
  if (best == nullptr) return std::nullopt;
  return Found{best->place, best->place + best->token.size(), best->id};
}

}  // namespace rowgrad
