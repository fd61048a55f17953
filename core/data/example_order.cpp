#include <algorithm>
#include <bit>
#include <numeric>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/data/example_order.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

// Returns the lowest `bits` bits of a number.
std::uint64_t low_bits(std::uint64_t number, int bits) {
  return number & ((std::uint64_t{1} << bits) - 1);
}

}  // namespace

KeyedPermutation::KeyedPermutation(std::uint64_t count, std::uint64_t key) : count_(count) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(count - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  for (std::uint64_t& round : keys_) round = key = splitmix64(key);
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t index) const {
  do index = permuted(index);
  while (index >= count_);
  return index;
}

// Permutes all numbers of low_bits_ + high_bits_ bits. Each round changes one part of the number by
// a hash of the other part.
std::uint64_t KeyedPermutation::permuted(std::uint64_t number) const {
  std::uint64_t low = low_bits(number, low_bits_), high = number >> low_bits_;
  for (std::size_t round = 0; round < keys_.size(); round += 2) {
    high ^= low_bits(splitmix64(keys_[round] ^ low), high_bits_);
    low ^= low_bits(splitmix64(keys_[round + 1] ^ high), low_bits_);
  }
  return high << low_bits_ | low;
}

ExampleOrder::ExampleOrder(std::size_t count, std::uint64_t seed) : keyed_(count, seed) {
  if (count > kMaxListed) return;
  listed_.resize(count);
  std::iota(listed_.begin(), listed_.end(), 0);
  Random(seed).shuffle(listed_);
}

}  // namespace rowgrad
