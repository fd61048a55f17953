#include <algorithm>
#include <bit>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/scramble.hpp>
#include <rowgrad/core/data/permutation.hpp>

namespace rowgrad {

IndexPermutation::IndexPermutation(std::uint64_t size, std::uint64_t seed) : size_(size) {
  check_argument(size >= 1 && size <= std::uint64_t{1} << 62, "IndexPermutation: size is ", size,
                 ", expected 1 to 2^62");
  for (std::size_t round = 0; round < keys_.size(); ++round)
    keys_[round] = scramble(scramble(seed) + round);
  const int bits = std::max(static_cast<int>(std::bit_width(size - 1)), 2);
  low_bits_ = bits / 2;
  low_mask_ = (std::uint64_t{1} << low_bits_) - 1;
  high_mask_ = (std::uint64_t{1} << (bits - low_bits_)) - 1;
}

std::uint64_t IndexPermutation::operator()(std::uint64_t place) const {
  check_argument(place < size_, "IndexPermutation: place ", place, " is outside the ", size_);
  do place = permuted(place);
  while (place >= size_);
  return place;
}

// Each half is changed by a function of the other and of the round: that can be undone.
std::uint64_t IndexPermutation::permuted(std::uint64_t x) const {
  std::uint64_t low = x & low_mask_;
  std::uint64_t high = x >> low_bits_;
  for (std::size_t round = 0; round < keys_.size(); round += 2) {
    high ^= scramble(keys_[round] ^ low) & high_mask_;
    low ^= scramble(keys_[round + 1] ^ high) & low_mask_;
  }
  return high << low_bits_ | low;
}

}  // namespace rowgrad
