#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/vocabulary.hpp>

namespace rowgrad {

constexpr std::int32_t kFreeSlot = -1;

Vocabulary::Vocabulary(std::vector<std::string> tokens,
                       const std::vector<std::int32_t>& special_ids)
    : tokens_(std::move(tokens)), special_ids_(special_ids) {
  check_argument(tokens_.size() <= std::numeric_limits<std::int32_t>::max(),
                 "Vocabulary: there are ", tokens_.size(), " tokens, expected at most 2^31 - 1");
  std::sort(special_ids_.begin(), special_ids_.end());
  for (std::size_t i = 0; i < special_ids_.size(); ++i) {
    const std::int32_t id = special_ids_[i];
    check_argument(id >= 0 && std::cmp_less(id, size()), "Vocabulary: special id ", id,
                   " is out of range: there are ", size(), " tokens");
    check_argument(i == 0 || special_ids_[i - 1] != id, "Vocabulary: duplicate special id ", id);
  }
  slots_.assign(std::bit_ceil(2 * tokens_.size() + 1), kFreeSlot);
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    check_argument(!token(id).empty(), "Vocabulary: token ", id, " is empty");
    const bool special = is_special(id);
    if (special) check_utf8("Vocabulary: a special token", token(id));
    std::int32_t& first =
        special ? special_.emplace(token(id), kFreeSlot).first->second : slots_[slot_of(token(id))];
    check_argument(first == kFreeSlot, "Vocabulary: ", in_quotes(token(id)), " has two ids, ",
                   first, " and ", id);
    first = id;
  }
}

const std::string& Vocabulary::token(std::int32_t id) const {
  check_argument(id >= 0 && std::cmp_less(id, size()), "token: id ", id,
                 " is out of range: the vocabulary has ", size(), " tokens");
  return tokens_[static_cast<std::size_t>(id)];
}

bool Vocabulary::is_special(std::int32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const std::int32_t id = slots_[slot_of(token)];
  return id == kFreeSlot ? std::nullopt : std::optional(id);
}

std::optional<std::int32_t> Vocabulary::find_special(std::string_view token) const {
  const auto found = special_.find(token);
  return found == special_.end() ? std::nullopt : std::optional(found->second);
}

namespace {

std::uint64_t hash_of(auto sum, const Vocabulary& vocabulary) {
  for (const std::string& token : vocabulary.tokens()) sum.add(token);
  for (const std::int32_t id : vocabulary.special_ids()) sum.add(static_cast<std::uint64_t>(id));
  return sum.value();
}

}  // namespace

std::uint64_t Vocabulary::hash() const { return hash_of(Checksum(), *this); }

std::uint64_t Vocabulary::legacy_hash() const { return hash_of(LegacyChecksum(), *this); }

// Returns the slot of the token or, if it is not in the vocabulary, the free slot where it would
// go.
std::size_t Vocabulary::slot_of(std::string_view token) const {
  std::size_t slot = StringHash()(token);
  for (;; ++slot) {
    slot &= slots_.size() - 1;
    const std::int32_t id = slots_[slot];
    if (id == kFreeSlot || tokens_[static_cast<std::size_t>(id)] == token) return slot;
  }
}

Vocabulary vocabulary_with_special(std::vector<std::string> tokens,
                                   const std::vector<std::string>& special_tokens) {
  std::vector<std::int32_t> special_ids(special_tokens.size());
  std::iota(special_ids.begin(), special_ids.end(), static_cast<std::int32_t>(tokens.size()));
  tokens.insert(tokens.end(), special_tokens.begin(), special_tokens.end());
  return Vocabulary(std::move(tokens), special_ids);
}

SpecialTokenSearch::SpecialTokenSearch(std::string_view text,
                                       const std::vector<std::string>& tokens,
                                       const Vocabulary& vocabulary)
    : text_(text) {
  for (const std::string& token : tokens) {
    const std::optional<std::int32_t> id = vocabulary.find_special(token);
    check_argument(id.has_value(), "encode: allowed_special has ", in_quotes(token),
                   ", which is not a special token of this tokenizer");
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

// Searches the sorted tokens. The last token that does not sort after `rest` either is a prefix of
// `rest` or has only a shorter prefix in common with it. In the second case, the search goes on
// with the common prefix.
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
