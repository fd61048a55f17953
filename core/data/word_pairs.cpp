#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/data/word_pairs.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad {

// The words drawn from a block, with the ranges of their windows, and the random stream of their
// negatives.
struct WordPairs::Words {
  std::vector<std::int32_t> ids = {};
  std::vector<IndexRange> windows = {};
  Random random;
  std::size_t centers = 0, contexts = 0;  // words with context words, and their context words
};

namespace {

// Returns the counts of words in the training text, and checks all ids of this text.
std::vector<std::uint64_t> word_counts(const TokenSequence& text, const WordPairOptions& options) {
  const std::size_t negatives = std::max(options.negatives, options.shared_negatives);
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  for (const auto& [name, value] :
       {std::pair("block", options.block), {"window", options.window}, {"negatives", negatives}})
    check_argument(value >= 1 && value <= kMax, "WordPairs: ", name, " is ",
                   static_cast<std::ptrdiff_t>(value), ", expected 1 to ", kMax);
  check_argument(std::isfinite(options.subsample) && options.subsample >= 0,
                 "WordPairs: subsample is ", options.subsample, ", expected a finite number >= 0");
  const bool counted = !options.counts.empty();
  std::vector<std::uint64_t> counts =
      id_counts(text, counted ? options.counts.size() : options.vocabulary);
  if (counted) counts = options.counts;
  for (const auto* ids : {&options.left_out, &options.borders})
    for (const std::int32_t id : *ids) {
      check_argument(id >= 0 && std::cmp_less(id, counts.size()),
                     "WordPairs: ", ids == &options.borders ? "borders" : "left_out",
                     " has the id ", id, ", expected ids of the vocabulary of ", counts.size(),
                     " tokens");
      counts[static_cast<std::size_t>(id)] = 0;
    }
  check_argument(std::ranges::any_of(counts, [](std::uint64_t count) { return count > 0; }),
                 "WordPairs: the text has no words, expected at least two");
  return counts;
}

std::vector<std::uint64_t> keep_of(const std::vector<std::uint64_t>& counts, double subsample) {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<std::uint64_t> keep;
  for (const std::uint64_t count : counts) {
    const double ratio = subsample * all / static_cast<double>(count);
    const double probability = subsample > 0 ? std::min(std::sqrt(ratio) + ratio, 1.0) : 1;
    keep.push_back(count > 0 ? static_cast<std::uint64_t>(std::ldexp(probability, 32)) : 0);
  }
  return keep;
}

}  // namespace

WordPairs::WordPairs(TokenSequence text, WordPairOptions options)
    : text_(std::move(text)),
      options_(std::move(options)),
      counts_(word_counts(text_, options_)),
      keep_(keep_of(counts_, options_.subsample)),
      sampler_(NegativeSampler::from_counts(counts_)) {
  std::int64_t block = 0;
  while (std::cmp_less(block, size()) && draw_words(block, true, Random(0)).contexts == 0) ++block;
  check_argument(std::cmp_less(block, size()), "WordPairs: no block of ", options_.block,
                 " tokens has two words without a border between them, expected at least one pair");
}

WordPairs::Words WordPairs::draw_words(std::int64_t block, bool all, Random random) const {
  const std::uint64_t begin = static_cast<std::uint64_t>(block) * options_.block;
  std::vector<std::int32_t> tokens(std::min<std::uint64_t>(options_.block, text_.size() - begin));
  text_.read(begin, tokens);
  Words words{.random = std::move(random)};
  // Draws the windows of the words since the last border.
  const auto end_part = [&, window = std::uint64_t{options_.window}] {
    const std::size_t first = words.windows.size(), last = words.ids.size();
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t reach = all ? window : 1 + (words.random.bits() * window >> 32);
      const IndexRange range{i - std::min(i - first, reach), i + std::min(last - i, reach + 1)};
      words.windows.push_back(range);
      words.contexts += range.size() - 1;
      words.centers += range.size() > 1;
    }
  };
  for (const std::int32_t id : tokens) {
    const std::uint64_t keep = keep_[static_cast<std::size_t>(id)];
    if (all ? keep > 0 : words.random.bits() < keep)
      words.ids.push_back(id);
    else if (keep == 0 && std::ranges::count(options_.borders, id) > 0)
      end_part();
  }
  end_part();
  return words;
}

Batch WordPairs::pairs(std::span<const std::int64_t> blocks, Random* random) const {
  const bool all = random == nullptr;
  std::vector<Words> words;
  for (const std::int64_t block : blocks) {
    check_argument(block >= 0 && std::cmp_less(block, size()), "WordPairs: block ", block,
                   " is out of range: there are ", size(), " blocks");
    words.push_back({.random = Random(all ? static_cast<std::uint64_t>(block) : random->bits())});
  }
  kernels::parallel_for(blocks.size(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      words[i] = draw_words(blocks[i], all, std::move(words[i].random));
  });
  // Creates the bags of the blocks, with sizes(words) ids each.
  const auto bags = [&](const auto& sizes) {
    std::vector<std::int32_t> offsets;
    std::size_t total = 0;
    for (const Words& each : words) {
      offsets.push_back(static_cast<std::int32_t>(total));
      total += sizes(each);
      check_argument(total <= std::numeric_limits<std::int32_t>::max(), "WordPairs: a batch has ",
                     total, " ids, expected less than 2^31; choose a smaller batch");
    }
    return RaggedIds{Ids::from_shape({total}), to_ids(offsets)};
  };
  const bool cbow = options_.cbow, shares = options_.shared_negatives > 0;
  const auto centers = [](const Words& each) { return each.centers; };
  const auto targets = [&](const Words& each) { return cbow ? each.centers : each.contexts; };
  Batch batch{.bags = {bags(centers), bags([](const Words& each) { return each.contexts; })}};
  if (cbow) std::swap(batch.bags[0], batch.bags[1]);
  if (!shares)
    batch.bags.push_back(
        bags([&](const Words& each) { return options_.negatives * targets(each); }));
  batch.bags.push_back(bags(centers));
  kernels::parallel_for(blocks.size(), 1, [&](std::size_t first, std::size_t last) {
    for (std::size_t block = first; block < last; ++block) {
      Words& each = words[block];
      const auto start = [&](std::size_t array) {
        return batch.bags[array].ids.data() + batch.bags[array].offsets.data()[block];
      };
      std::int32_t *center = start(cbow), *context = start(!cbow), *count = start(2 + !shares);
      if (!shares) sampler_.fill({start(2), options_.negatives * targets(each)}, each.random);
      for (std::size_t i = 0; i < each.ids.size(); ++i) {
        const IndexRange window = each.windows[i];
        if (window.size() < 2) continue;
        *center++ = each.ids[i];
        *count++ = static_cast<std::int32_t>(window.size() - 1);
        for (std::size_t j = window.begin; j < window.end; ++j)
          if (j != i) *context++ = each.ids[j];
      }
    }
  });
  if (!shares) return batch;
  batch.shared.push_back(Ids::from_shape({options_.shared_negatives}));
  Random shared(all ? 0 : random->bits());
  sampler_.fill(batch.shared[0].storage(), shared);
  return batch;
}

StateDict WordPairs::description() const {
  Checksum others;
  for (const std::size_t option :
       {options_.window, options_.negatives, options_.shared_negatives, std::size_t{options_.cbow}})
    others.add(option);
  others.add(std::bit_cast<std::uint64_t>(options_.subsample));
  others.add_bytes(std::as_bytes(std::span(counts_)));
  others.add_bytes(std::as_bytes(std::span(options_.borders)));
  StateDict description = Dataset::description();
  description.put("block", options_.block);
  description.put("ids_checksum", static_cast<std::int64_t>(text_.checksum()));
  description.put("options_checksum", static_cast<std::int64_t>(others.value()));
  return description;
}

}  // namespace rowgrad
