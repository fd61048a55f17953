#pragma once

// The order in which an epoch takes its examples.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rowgrad {

/// A random permutation of 0 … count − 1, computed by index and identical on every machine.
/// Source: a Feistel network (Luby & Rackoff 1988) over the bits of an index. Results of `count` or
/// more are permuted again (cycle walking: Black & Rogaway 2002).
class KeyedPermutation {
 public:
  /// Requires count ≥ 1. `key` selects the permutation.
  KeyedPermutation(std::uint64_t count, std::uint64_t key);

  std::uint64_t operator()(std::uint64_t index) const;  // requires index < count

 private:
  std::uint64_t permuted(std::uint64_t number) const;

  std::uint64_t count_;
  int low_bits_, high_bits_;  // bits in the parts of an index
  std::array<std::uint64_t, 8> keys_;
};

/// A random order of examples. Up to kMaxListed examples are in the order of torch.randperm, which
/// is stored with 4 bytes per example. More examples are in the order of a KeyedPermutation.
class ExampleOrder {
 public:
  static constexpr std::size_t kMaxListed = std::size_t{1} << 24;

  ExampleOrder(std::size_t count, std::uint64_t seed);  // requires count ≥ 1

  std::int64_t operator[](std::size_t position) const {  // returns the example at a position
    return listed_.empty() ? static_cast<std::int64_t>(keyed_(position)) : listed_[position];
  }

 private:
  std::vector<std::int32_t> listed_;
  KeyedPermutation keyed_;
};

}  // namespace rowgrad
