#pragma once

#include <cstdint>

namespace rowgrad {

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014): each bit of the input changes about half
/// of the bits of the output.
constexpr std::uint64_t scramble(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

}  // namespace rowgrad
