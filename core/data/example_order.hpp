#pragma once

// The order in which an epoch takes its examples.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rowgrad {

/// A random permutation of 0 … count − 1 that is computed by index and is the same on every
/// machine. Source: a Feistel network (Luby & Rackoff 1988) over the bits of a number. A result
/// that is not below `count` is permuted again (cycle walking: Black & Rogaway 2002), on average
/// less than once.
class KeyedPermutation {
 public:
  /// A permutation of at least one number. Each key gives another one.
  KeyedPermutation(std::uint64_t count, std::uint64_t key);

  std::uint64_t operator()(std::uint64_t index) const;  // index < count

 private:
  std::uint64_t permuted(std::uint64_t number) const;

  std::uint64_t count_;
  int low_bits_, high_bits_;  // of the two parts of a number
  std::array<std::uint64_t, 8> keys_;
};

/// A random order of examples. Up to kMaxListed examples are listed in the order of torch.randperm,
/// with 4 bytes an example. The order of more examples is a KeyedPermutation, without a list.
class ExampleOrder {
 public:
  static constexpr std::size_t kMaxListed = std::size_t{1} << 24;

  ExampleOrder(std::size_t count, std::uint64_t seed);  // count ≥ 1; each seed gives another order

  std::int64_t operator[](std::size_t place) const {  // the example at this place
    return listed_.empty() ? static_cast<std::int64_t>(keyed_(place)) : listed_[place];
  }

 private:
  std::vector<std::int32_t> listed_;
  KeyedPermutation keyed_;
};

}  // namespace rowgrad
