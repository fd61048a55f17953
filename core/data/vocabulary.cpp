#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <rowgrad/core/data/unicode.hpp>
#include <rowgrad/core/data/vocabulary.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

constexpr std::int32_t kFree = -1;

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> tokens,
                       const std::vector<std::int32_t>& special_ids)
    : tokens_(std::move(tokens)), special_ids_(special_ids) {
  check_argument(tokens_.size() <= std::numeric_limits<std::int32_t>::max(),
                 "Vocabulary: ", tokens_.size(), " tokens are more than 32-bit ids can number");
  std::sort(special_ids_.begin(), special_ids_.end());
  for (std::size_t i = 0; i < special_ids_.size(); ++i) {
    const std::int32_t id = special_ids_[i];
    check_argument(id >= 0 && std::cmp_less(id, size()), "Vocabulary: special id ", id,
                   " is outside the ", size(), " tokens");
    check_argument(i == 0 || special_ids_[i - 1] != id, "Vocabulary: special id ", id,
                   " is given twice");
  }
  slots_.assign(std::bit_ceil(2 * tokens_.size() + 1), kFree);
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    check_argument(!token(id).empty(), "Vocabulary: token ", id, " is empty");
    insert(id);
  }
}

void Vocabulary::insert(std::int32_t id) {
  const bool special = is_special(id);
  if (special) check_utf8("Vocabulary: a special token", token(id));
  const std::optional<std::int32_t> first = special ? find_special(token(id)) : find(token(id));
  check_argument(!first || *first == id, "Vocabulary: ", in_quotes(token(id)), " has two ids, ",
                 first.value_or(id), " and ", id);
  if (!special) slots_[slot_of(token(id))] = id;
}

const std::string& Vocabulary::token(std::int32_t id) const {
  check_argument(id >= 0 && std::cmp_less(id, size()), "token: id ", id,
                 " is outside the vocabulary of ", size(), " tokens");
  return tokens_[static_cast<std::size_t>(id)];
}

bool Vocabulary::is_special(std::int32_t id) const {
  return std::binary_search(special_ids_.begin(), special_ids_.end(), id);
}

std::optional<std::int32_t> Vocabulary::find(std::string_view token) const {
  const std::int32_t id = slots_[slot_of(token)];
  return id == kFree ? std::nullopt : std::optional(id);
}

std::optional<std::int32_t> Vocabulary::find_special(std::string_view token) const {
  const auto found = std::find_if(special_ids_.begin(), special_ids_.end(), [&](std::int32_t id) {
    return tokens_[static_cast<std::size_t>(id)] == token;
  });
  return found == special_ids_.end() ? std::nullopt : std::optional(*found);
}

// Where the token stands or, if it is not there, the free place that it would get.
std::size_t Vocabulary::slot_of(std::string_view token) const {
  std::size_t slot = std::hash<std::string_view>{}(token);
  for (;; ++slot) {
    slot &= slots_.size() - 1;
    const std::int32_t id = slots_[slot];
    if (id == kFree || tokens_[static_cast<std::size_t>(id)] == token) return slot;
  }
}

Vocabulary vocabulary_with_special(std::vector<std::string> tokens,
                                   const std::vector<std::string>& special_tokens) {
  std::vector<std::int32_t> special_ids(special_tokens.size());
  std::iota(special_ids.begin(), special_ids.end(), static_cast<std::int32_t>(tokens.size()));
  tokens.insert(tokens.end(), special_tokens.begin(), special_tokens.end());
  return Vocabulary(std::move(tokens), special_ids);
}

}  // namespace rowgrad
