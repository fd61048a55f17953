#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/ngram_hash.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMostIds = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kLongest = 64;  // order

bool is_prime(std::size_t number) {
  if (number < 4 || number % 2 == 0) return number == 2 || number == 3;
  for (std::size_t divisor = 3; divisor * divisor <= number; divisor += 2)
    if (number % divisor == 0) return false;
  return true;
}

// The size of each part before that block and of its own: for each order, the next primes from
// `rows` on that no part before has.
std::vector<std::size_t> part_sizes(const NgramHashOptions& options,
                                    const std::vector<std::size_t>& blocks, std::size_t block) {
  std::set<std::size_t> used;
  std::vector<std::size_t> sizes;
  for (const std::size_t one : blocks) {
    sizes.clear();
    std::size_t sum = 0;
    for (std::size_t order = 0; order < options.orders.size(); ++order) {
      std::size_t size = options.rows;
      for (std::size_t head = 0; head < options.heads; ++head, ++size) {
        while (!is_prime(size) || used.contains(size)) ++size;
        used.insert(size);
        sizes.push_back(size);
        sum += size;
        check_argument(sum <= kMostIds, "NgramHash: ", options.orders.size(), " orders of ",
                       options.heads, " heads with ", options.rows,
                       " rows or more each are more rows than ids, ", kMostIds);
      }
    }
    if (one == block) break;
  }
  return sizes;
}

void check_options(std::size_t vocabulary, const NgramHashOptions& options,
                   const std::vector<std::size_t>& blocks, std::size_t block) {
  check_argument(vocabulary > 0 && vocabulary <= kMostIds, "NgramHash: vocabulary is ", vocabulary,
                 ", expected 1 to ", kMostIds);
  check_argument(!options.orders.empty() && options.heads > 0 && options.rows > 0,
                 "NgramHash: ", options.orders.size(), " orders, heads ", options.heads,
                 " and rows ", options.rows, " must be above 0");
  check_argument(options.rows <= kMostIds && options.heads <= kMostIds, "NgramHash: heads ",
                 options.heads, " of ", options.rows, " rows are more rows than ids, ", kMostIds);
  for (const std::size_t order : options.orders)
    check_argument(order > 0 && order <= kLongest, "NgramHash: an order is ", order,
                   ", expected 1 to ", kLongest);
  check_argument(std::ranges::find(blocks, block) != blocks.end(), "NgramHash: block ", block,
                 " is none of those that have one");
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

using Vector = xsimd::batch<double>;
constexpr std::size_t kAtOnce = 64;     // positions
constexpr std::size_t kDigitBits = 21;  // of numbers below 2^63, which have three such digits
constexpr double kDigit = std::uint64_t{1} << kDigitBits;

using Numbers = std::array<double, kAtOnce>;

// The digits of numbers, the highest first.
std::array<Numbers, 3> digits_of(const std::array<std::uint64_t, kAtOnce>& numbers) {
  constexpr std::uint64_t kMask = (std::uint64_t{1} << kDigitBits) - 1;
  std::array<Numbers, 3> digits;
  for (std::size_t i = 0; i < kAtOnce; ++i)
    for (std::size_t digit = 0; digit < digits.size(); ++digit)
      digits[digit][i] = static_cast<double>(
          static_cast<std::int64_t>(numbers[i] >> (2 - digit) * kDigitBits & kMask));
  return digits;
}

// The number mod size, digit by digit. All that is computed are whole numbers below 2^53, so exact,
// but for the quotients, which may be one too large or too small.
Numbers remainders(const std::array<Numbers, 3>& digits, double size) {
  const Vector divisor(size), inverse(1 / size), digit(kDigit);
  Numbers rests;
  for (std::size_t i = 0; i < kAtOnce; i += Vector::size) {
    Vector rest = Vector::load_unaligned(&digits[0][i]);
    for (std::size_t k = 1; k < digits.size(); ++k) {
      rest = xsimd::fma(rest, digit, Vector::load_unaligned(&digits[k][i]));
      rest = xsimd::fnma(xsimd::floor(rest * inverse), divisor, rest);
    }
    rest = xsimd::select(rest < Vector(0.0), rest + divisor, rest);
    rest = xsimd::select(rest >= divisor, rest - divisor, rest);
    rest.store_unaligned(&rests[i]);
  }
  return rests;
}

}  // namespace

NgramHash::NgramHash(std::size_t vocabulary, const NgramHashOptions& options,
                     const std::vector<std::size_t>& blocks, std::size_t block)
    : vocabulary_(vocabulary), orders_(options.orders), heads_(options.heads) {
  check_options(vocabulary, options, blocks, block);
  canonical_ = options.canonical;
  multipliers_ = multipliers_of(vocabulary, options, block);
  for (const std::size_t size : part_sizes(options, blocks, block)) {
    parts_.push_back({static_cast<std::int32_t>(table_rows_), static_cast<double>(size)});
    table_rows_ += size;
  }
}

std::vector<std::size_t> NgramHash::sizes() const {
  std::vector<std::size_t> sizes;
  for (const Part& part : parts_) sizes.push_back(static_cast<std::size_t>(part.size));
  return sizes;
}

Ids NgramHash::rows(const Ids& texts, std::size_t length) const {
  check_argument(texts.dimension() == 2 && texts.shape(1) >= length, "NgramHash: texts have shape ",
                 bracketed(texts.shape()), ", expected [batch, positions] with at least ", length,
                 " positions");
  for (std::size_t i = 0; i < texts.size(); ++i)
    check_argument(texts[i] >= 0 && static_cast<std::size_t>(texts[i]) < vocabulary_,
                   "NgramHash: id ", texts[i], " at ", i, " is outside the vocabulary of ",
                   vocabulary_);
  const std::size_t positions = texts.shape(1);
  Ids rows = Ids::from_shape({texts.shape(0), length, lookups()});
  for (std::size_t text = 0; text < texts.shape(0); ++text)
    write_rows(texts.data() + text * positions, positions, positions - length,
               rows.data() + text * length * lookups());
  return rows;
}

// Of the positions from `first` on.
void NgramHash::write_rows(const std::int32_t* text, std::size_t positions, std::size_t first,
                           std::int32_t* rows) const {
  const std::size_t longest = multipliers_.size();
  std::vector<std::uint64_t> ids(longest - 1 + positions - first, vocabulary_);  // canonical
  const std::size_t before = std::min(first, longest - 1);
  for (std::size_t t = first - before; t < positions; ++t)
    ids[t - first + longest - 1] = static_cast<std::uint64_t>(
        canonical_.empty() ? text[t] : canonical_[static_cast<std::size_t>(text[t])]);
  for (std::size_t begin = longest - 1; begin < ids.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, ids.size() - begin);
    const Part* part = parts_.data();
    for (const std::size_t order : orders_) {
      std::array<std::uint64_t, kAtOnce> mixed{};
      for (std::size_t i = 0; i < count; ++i)
        for (std::size_t k = 0; k < order; ++k) mixed[i] ^= ids[begin + i - k] * multipliers_[k];
      const auto digits = digits_of(mixed);
      for (std::size_t head = 0; head < heads_; ++head, ++part) {
        const Numbers rests = remainders(digits, part->size);
        for (std::size_t i = 0; i < count; ++i)
          rows[i * lookups() + static_cast<std::size_t>(part - parts_.data())] =
              part->first + static_cast<std::int32_t>(rests[i]);
      }
    }
    rows += count * lookups();
  }
}

}  // namespace rowgrad
