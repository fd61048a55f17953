#include <algorithm>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/ngram_counts.hpp>

namespace rowgrad {
namespace {

// The maximum bytes of a label before " | … more", unless the first n-gram is longer.
constexpr std::size_t kLongestLabel = 60;

// Returns, for each id, the lowest id with the same canonical id.
std::vector<std::int32_t> first_spellings(const std::vector<std::int32_t>& canonical) {
  std::unordered_map<std::int32_t, std::int32_t> firsts;
  std::vector<std::int32_t> spellings;
  for (const std::int32_t id : canonical)
    spellings.push_back(
        firsts.emplace(id, static_cast<std::int32_t>(spellings.size())).first->second);
  return spellings;
}

}  // namespace

NgramCounts::NgramCounts(const NgramHash& hash, std::size_t max_ngrams)
    : hash_(&hash),
      max_ngrams_(max_ngrams),
      spellings_(first_spellings(hash.canonical_ids())),
      counts_(hash.orders().size()) {}

void NgramCounts::add(const Ids& tokens) {
  check_argument(tokens.dimension() > 0,
                 "NgramCounts::add: tokens has shape [], expected at least one axis");
  hash_->check_ids(tokens);
  const std::size_t length = tokens.shape().back();
  std::u32string ids(tokens.begin(), tokens.end());
  if (!spellings_.empty())
    for (char32_t& id : ids) id = static_cast<char32_t>(spellings_.at(id));
  for (std::size_t i = 0; i < ids.size(); ++i)
    for (std::size_t order = 0; order < counts_.size(); ++order) {
      const std::size_t n = std::min(hash_->orders()[order], i % length + 1);
      std::u32string ngram = ids.substr(i + 1 - n, n);
      if (const auto found = counts_[order].find(ngram); found != counts_[order].end()) {
        ++found->second;
      } else if (size_ < max_ngrams_) {
        counts_[order].emplace(std::move(ngram), 1);
        ++size_;
      } else {
        ++uncounted_;
      }
    }
}

std::map<std::int32_t, std::vector<NgramCounts::Ngram>> NgramCounts::by_row() const {
  std::map<std::int32_t, std::vector<Ngram>> rows;
  for (std::size_t order = 0; order < counts_.size(); ++order) {
    const std::size_t longest = hash_->orders()[order];
    std::vector<std::vector<Ngram>> by_length(longest + 1);
    for (const auto& [ids, count] : counts_[order])
      by_length[ids.size()].push_back({longest, ids, count});
    for (std::size_t length = 1; length <= longest; ++length) {
      const std::vector<Ngram>& ngrams = by_length[length];
      if (ngrams.empty()) continue;
      Ids tokens = Ids::from_shape({ngrams.size(), length});
      for (std::size_t i = 0; i < ngrams.size(); ++i)
        std::ranges::copy(ngrams[i].ids, tokens.data() + i * length);
      const Ids found = hash_->rows(tokens, 1);
      for (std::size_t i = 0; i < ngrams.size(); ++i)
        for (std::size_t head = 0; head < hash_->heads(); ++head)
          rows[found.data()[i * hash_->lookups() + order * hash_->heads() + head]].push_back(
              ngrams[i]);
    }
  }
  for (auto& [row, ngrams] : rows)
    std::ranges::sort(ngrams, [](const Ngram& a, const Ngram& b) {
      return a.count != b.count ? a.count > b.count : a.ids < b.ids;
    });
  return rows;
}

StateDict NgramCounts::state_dict() const {
  StateDict state;
  for (std::size_t order = 0; order < counts_.size(); ++order) {
    const std::map<std::u32string, std::uint64_t> sorted(counts_[order].begin(),
                                                         counts_[order].end());
    std::vector<std::int64_t> lengths, ids, counts;
    for (const auto& [ngram, count] : sorted) {
      lengths.push_back(static_cast<std::int64_t>(ngram.size()));
      ids.insert(ids.end(), ngram.begin(), ngram.end());
      counts.push_back(static_cast<std::int64_t>(count));
    }
    state.put(concat(order, ".lengths"), std::move(lengths));
    state.put(concat(order, ".ids"), std::move(ids));
    state.put(concat(order, ".counts"), std::move(counts));
  }
  state.put("uncounted", uncounted_);
  return state;
}

void NgramCounts::load_state_dict(const StateDict& state) {
  NgramCounts loaded(*hash_, max_ngrams_);
  const auto check = [](bool holds) {
    check_argument(holds,
                   "NgramCounts::load_state_dict: the state is damaged or from another hash");
  };
  for (std::size_t order = 0; order < counts_.size(); ++order) {
    const std::vector<std::int64_t> lengths = state.integers(concat(order, ".lengths"));
    const std::vector<std::int64_t> ids = state.integers(concat(order, ".ids"));
    const std::vector<std::int64_t> counts = state.integers(concat(order, ".counts"));
    check(lengths.size() == counts.size() && loaded.size_ + counts.size() <= max_ngrams_);
    for (const std::int64_t id : ids) check(std::in_range<std::int32_t>(id));
    const std::u32string all(ids.begin(), ids.end());
    if (!ids.empty()) hash_->check_ids(to_ids(std::vector<std::int32_t>(ids.begin(), ids.end())));
    std::size_t at = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      check(counts[i] > 0 && lengths[i] > 0 && std::cmp_less_equal(lengths[i], all.size() - at) &&
            std::cmp_less_equal(lengths[i], hash_->orders()[order]));
      const auto length = static_cast<std::size_t>(lengths[i]);
      check(loaded.counts_[order]
                .emplace(all.substr(at, length), static_cast<std::uint64_t>(counts[i]))
                .second);
      at += length;
    }
    check(at == all.size());
    loaded.size_ += counts.size();
  }
  loaded.uncounted_ = state.count("uncounted");
  *this = std::move(loaded);
}

std::string text_of(const NgramCounts::Ngram& ngram, const Tokenizer* tokenizer) {
  std::string text = ngram.ids.size() < ngram.order ? "[start]" : "";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  const auto is_token = [&](char32_t id) { return id < tokenizer->size(); };
  if (tokenizer != nullptr && std::ranges::all_of(ngram.ids, is_token))
    add(tokenizer->decode(to_ids(ngram.ids)));
  else
    for (const char32_t id : ngram.ids) add(std::to_string(id));
  return text;
}

std::string label_of(std::span<const NgramCounts::Ngram> ngrams, const Tokenizer* tokenizer) {
  std::string label;
  for (std::size_t i = 0; i < ngrams.size(); ++i) {
    const std::string text = (i > 0 ? " | " : "") + text_of(ngrams[i], tokenizer);
    if (i > 0 && label.size() + text.size() > kLongestLabel)
      return concat(label, " | ", ngrams.size() - i, " more");
    label += text;
  }
  return label;
}

}  // namespace rowgrad
