#pragma once

// Random numbers: those of PyTorch's CPU generator with the same seed, call for call.
//
// Generator: MT19937 (Matsumoto & Nishimura 1998) seeded with one 32-bit word. Normal numbers: Box
// & Muller 1958. Draws are consumed in PyTorch's order, so that layers constructed one after
// another start with the weights that textbooks print.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <rowgrad/core/base/mersenne_twister.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// A generator with its own state; a copy continues independently with the same numbers. The double
/// library widens the float draws, so that both libraries start with the same weights.
class Random {
 public:
  /// Like torch.manual_seed for the CPU: only the low 32 bits of `seed` count.
  explicit Random(std::uint64_t seed);

  /// Normal numbers. Throws std::invalid_argument unless both are finite, `deviation` not negative.
  Tensor normal(const Shape& shape, double mean = 0, double deviation = 1);

  /// Uniform numbers in [low, high). Throws std::invalid_argument unless low <= high, both finite.
  Tensor uniform(const Shape& shape, double low = 0, double high = 1);

  /// The numbers 0 … count − 1 in the random order of torch.randperm. Throws std::invalid_argument
  /// for a negative count.
  std::vector<std::int64_t> permutation(std::int64_t count);

  /// A uniform number in [0, 1) with 53 random bits, from the next two words.
  double uniform_double();

  /// The next 32 random bits.
  std::uint32_t bits() { return engine_(); }

  /// Many words at once, before tempering: see MersenneTwister.
  void fill_untempered(std::span<std::uint32_t> words) { engine_.fill_untempered(words); }

  /// The position in the random sequence. load_state_dict() throws std::invalid_argument for an
  /// invalid state, and then changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

 private:
  float uniform_float() { return static_cast<float>(bits() & 0xFFFFFF) * 0x1p-24F; }

  MersenneTwister engine_;
  std::optional<double> second_normal_;  // the other of a Box-Muller pair
};

}  // namespace rowgrad
