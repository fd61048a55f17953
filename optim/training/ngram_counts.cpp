#include <algorithm>
#include <tuple>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/optim/training/ngram_counts.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLongestLabel = 60;  // bytes, but for a first n-gram that is longer

// For each id the first one with the same canonical id.
std::vector<std::int32_t> first_spellings(const std::vector<std::int32_t>& canonical) {
  std::unordered_map<std::int32_t, std::int32_t> firsts;
  std::vector<std::int32_t> spellings;
  for (const std::int32_t id : canonical)
    spellings.push_back(
        firsts.emplace(id, static_cast<std::int32_t>(spellings.size())).first->second);
  return spellings;
}

}  // namespace

std::size_t NgramCounts::HashOfIds::operator()(const std::vector<std::int32_t>& ids) const {
  std::uint64_t hash = 0;
  for (const std::int32_t id : ids) hash = splitmix64(hash ^ static_cast<std::uint32_t>(id));
  return hash;
}

NgramCounts::NgramCounts(const NgramHash& hash, std::size_t most)
    : hash_(&hash),
      most_(most),
      spellings_(first_spellings(hash.canonical_ids())),
      counts_(hash.orders().size()) {}

void NgramCounts::add(const Ids& texts) {
  const std::size_t length = texts.shape(texts.dimension() - 1);
  std::vector<std::int32_t> ids(texts.begin(), texts.end());
  if (!spellings_.empty())
    for (std::int32_t& id : ids) id = spellings_.at(static_cast<std::size_t>(id));
  std::vector<std::int32_t> ngram;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto end = ids.begin() + static_cast<std::ptrdiff_t>(i + 1);
    for (std::size_t order = 0; order < counts_.size(); ++order) {
      const std::size_t tokens = std::min(hash_->orders()[order], i % length + 1);
      ngram.assign(end - static_cast<std::ptrdiff_t>(tokens), end);
      const auto found = counts_[order].find(ngram);
      if (found != counts_[order].end()) {
        ++found->second;
      } else if (size_ < most_) {
        counts_[order].emplace(ngram, 1);
        ++size_;
      } else {
        ++not_told_apart_;
      }
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
      Ids texts = Ids::from_shape({ngrams.size(), length});
      for (std::size_t i = 0; i < ngrams.size(); ++i)
        std::ranges::copy(ngrams[i].ids, texts.data() + i * length);
      const Ids found = hash_->rows(texts, 1);
      for (std::size_t i = 0; i < ngrams.size(); ++i)
        for (std::size_t head = 0; head < hash_->heads(); ++head)
          rows[found.data()[i * hash_->lookups() + order * hash_->heads() + head]].push_back(
              ngrams[i]);
    }
  }
  for (auto& [row, ngrams] : rows)
    std::ranges::sort(ngrams, [](const Ngram& a, const Ngram& b) {
      return a.count != b.count ? a.count > b.count
                                : std::ranges::lexicographical_compare(a.ids, b.ids);
    });
  return rows;
}

std::string text_of(const NgramCounts::Ngram& ngram, const Tokenizer* tokenizer) {
  std::string text = ngram.ids.size() < ngram.order ? "[start]" : "";
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : " ") + more; };
  if (tokenizer != nullptr)
    add(tokenizer->decode(to_ids(ngram.ids)));
  else
    for (const std::int32_t id : ngram.ids) add(concat(id));
  return text;
}

std::string label_of(const std::vector<NgramCounts::Ngram>& ngrams, const Tokenizer* tokenizer) {
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
