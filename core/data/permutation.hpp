#pragma once

#include <array>
#include <cstdint>

namespace rowgrad {

/// A pseudo-random order of 0 … size − 1 that takes no memory: each place is computed when it is
/// asked for, in some 0.1 µs. It depends on the size and the seed alone. Good enough to shuffle a
/// text; no secret is safe with it.
///
/// Eight rounds of a Feistel network permute the smallest power of two that is not below the size
/// (Luby & Rackoff 1988, "How to construct pseudorandom permutations from pseudorandom functions";
/// the two halves of a number may differ by a bit). A number outside the range is permuted again
/// until it falls inside: Black & Rogaway 2002, "Ciphers with arbitrary finite domains", cycle
/// walking. As more than half of the numbers are inside, that takes two permutations on average at
/// most.
class IndexPermutation {
 public:
  /// Throws std::invalid_argument for a size of 0 or above 2^62.
  IndexPermutation(std::uint64_t size, std::uint64_t seed);

  /// The index at `place`, which must be below size().
  std::uint64_t operator()(std::uint64_t place) const;

  std::uint64_t size() const { return size_; }

 private:
  std::uint64_t permuted(std::uint64_t x) const;

  std::uint64_t size_;
  std::array<std::uint64_t, 8> keys_;  // of the rounds
  int low_bits_;
  std::uint64_t low_mask_;
  std::uint64_t high_mask_;
};

}  // namespace rowgrad
