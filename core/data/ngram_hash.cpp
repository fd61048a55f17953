#include <algorithm>
#include <limits>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/ngram_hash.hpp>
#include <rowgrad/core/kernels/parallel.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMaxIds = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMaxOrder = 64;

bool is_prime(std::size_t number) {
  if (number < 4 || number % 2 == 0) return number == 2 || number == 3;
  for (std::size_t divisor = 3; divisor * divisor <= number; divisor += 2)
    if (number % divisor == 0) return false;
  return true;
}

// Returns the sizes of the parts of `block`. Each size is the smallest prime, at least `rows`, that
// no earlier part of this block or a previous block has.
std::vector<std::size_t> part_sizes(const NgramHashOptions& options,
                                    const std::vector<std::size_t>& blocks, std::size_t block) {
  std::set<std::size_t> used;
  std::vector<std::size_t> sizes;
  for (const std::size_t each : blocks) {
    sizes.clear();
    std::size_t sum = 0;
    for (std::size_t order = 0; order < options.orders.size(); ++order) {
      std::size_t size = options.rows;
      for (std::size_t head = 0; head < options.heads; ++head, ++size) {
        while (!is_prime(size) || used.contains(size)) ++size;
        used.insert(size);
        sizes.push_back(size);
        sum += size;
        check_argument(sum <= kMaxIds, "NgramHash: ", options.orders.size(), " orders of ",
                       options.heads, " heads with at least ", options.rows,
                       " rows each exceed the maximum of ", kMaxIds, " rows");
      }
    }
    if (each == block) break;
  }
  return sizes;
}

void check_options(std::size_t vocabulary, const NgramHashOptions& options,
                   const std::vector<std::size_t>& blocks, std::size_t block) {
  check_argument(vocabulary > 0 && vocabulary <= kMaxIds, "NgramHash: vocabulary is ", vocabulary,
                 ", expected 1 to ", kMaxIds);
  check_argument(!options.orders.empty() && options.heads > 0 && options.rows > 0,
                 "NgramHash: there are ", options.orders.size(), " orders, ", options.heads,
                 " heads and ", options.rows, " rows, expected at least 1 of each");
  check_argument(options.rows <= kMaxIds && options.heads <= kMaxIds, "NgramHash: there are ",
                 options.heads, " heads of ", options.rows, " rows, expected at most ", kMaxIds,
                 " of each");
  for (const std::size_t order : options.orders)
    check_argument(order > 0 && order <= kMaxOrder, "NgramHash: an order is ", order,
                   ", expected 1 to ", kMaxOrder);
  check_argument(std::ranges::find(blocks, block) != blocks.end(), "NgramHash: block is ", block,
                 ", expected one of the blocks with a memory");
  const std::vector<std::int32_t>& canonical = options.canonical;
  check_argument(canonical.empty() || canonical.size() == vocabulary, "NgramHash: there are ",
                 canonical.size(), " canonical ids, expected one for each of the ", vocabulary,
                 " ids");
  for (std::size_t id = 0; id < canonical.size(); ++id)
    check_argument(canonical[id] >= 0 && static_cast<std::size_t>(canonical[id]) < vocabulary,
                   "NgramHash: the canonical id of ", id, " is ", canonical[id], ", expected 0 to ",
                   vocabulary - 1);
}

std::vector<std::uint64_t> multipliers_of(std::size_t vocabulary, const NgramHashOptions& options,
                                          std::size_t block) {
  constexpr std::uint64_t kBlockSeed = 10007;
  const std::uint64_t half = (std::uint64_t{1} << 63) - 1;
  const std::uint64_t range = half / (vocabulary + 1) / 2;
  const std::uint64_t start = splitmix64(options.seed + kBlockSeed * block);
  std::vector<std::uint64_t> multipliers(std::ranges::max(options.orders));
  for (std::size_t k = 0; k < multipliers.size(); ++k)
    multipliers[k] = splitmix64(start + k) % range * 2 + 1;
  return multipliers;
}

}  // namespace

NgramHash::NgramHash(std::size_t vocabulary, const NgramHashOptions& options,
                     const std::vector<std::size_t>& blocks, std::size_t block)
    : vocabulary_(vocabulary), orders_(options.orders), heads_(options.heads) {
  check_options(vocabulary, options, blocks, block);
  canonical_ = options.canonical;
  multipliers_ = multipliers_of(vocabulary, options, block);
  for (const std::size_t size : part_sizes(options, blocks, block)) {
    firsts_.push_back(static_cast<std::int32_t>(table_rows_));
    sizes_.push_back(size);
    table_rows_ += size;
  }
}

void NgramHash::check_ids(const Ids& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    check_argument(tokens[i] >= 0 && static_cast<std::size_t>(tokens[i]) < vocabulary_,
                   "NgramHash: id ", tokens[i], " at index ", i,
                   " is out of range: the vocabulary has ", vocabulary_, " ids");
}

Ids NgramHash::rows(const Ids& tokens, std::size_t length) const {
  check_argument(tokens.dimension() == 2 && tokens.shape(1) >= length,
                 "NgramHash: tokens has shape ", bracketed(tokens.shape()),
                 ", expected [batch, positions] with at least ", length, " positions");
  check_ids(tokens);
  const std::size_t positions = tokens.shape(1);
  Ids rows = Ids::from_shape({tokens.shape(0), length, lookups()});
  constexpr std::size_t kGrain = 16384;  // lookups per task
  const std::size_t before = multipliers_.size() - 1;
  const auto write = [&](std::size_t first_row, std::size_t end_row) {
    std::vector<std::uint64_t> ids(before + positions, vocabulary_);  // canonical ids of one row
    std::int32_t* out = rows.data() + first_row * length * lookups();
    for (std::size_t row = first_row; row < end_row; ++row) {
      for (std::size_t t = positions - std::min(positions, length + before); t < positions; ++t)
        ids[before + t] = canonical(tokens[row * positions + t]);
      const std::uint64_t* const end = ids.data() + ids.size();
      for (const std::uint64_t* id = end - length; id != end; ++id) {
        std::size_t part = 0;
        for (const std::size_t order : orders_) {
          std::uint64_t mixed = 0;
          for (std::size_t k = 0; k < order; ++k) mixed ^= *(id - k) * multipliers_[k];
          for (const std::size_t end_part = part + heads_; part < end_part; ++part)
            *out++ = firsts_[part] + static_cast<std::int32_t>(mixed % sizes_[part]);
        }
      }
    }
  };
  kernels::parallel_for(tokens.shape(0), kGrain / (length * lookups() + 1) + 1, write);
  return rows;
}

}  // namespace rowgrad
