#pragma once

// A random generator that returns the same numbers as PyTorch's CPU generator with the same seed,
// call for call; normal values (Box & Muller 1958) may differ in their last bits. Layers draw in
// PyTorch's order, so they start with the weights that textbooks print. Wrong arguments throw
// std::invalid_argument, and change nothing.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// MT19937 (Matsumoto & Nishimura 1998, "Mersenne twister") seeded with one word. Returns the same
/// numbers as std::mt19937, but its recursion is a long loop that compilers vectorise.
class MersenneTwister {
 public:
  /// Stores the seed. The first draw expands it to a state, so an unused generator costs nothing.
  explicit MersenneTwister(std::uint32_t seed) : state_{seed}, next_(kUnseeded) {}

  /// Returns the next 32 random bits.
  std::uint32_t operator()() {
    if (next_ >= kWords) advance();
    return temper(state_[next_++]);
  }

  /// Draws words without tempering them: temper() turns each into the result of operator(). Only
  /// the recursion has to run in order; words can be tempered in parallel.
  void fill_untempered(std::span<std::uint32_t> words);

  /// Turns a word of the state into a result of operator().
  static std::uint32_t temper(std::uint32_t word) {
    return static_cast<std::uint32_t>(temper_both(word));
  }

  /// Tempers two words at once, one in each half.
  static std::uint64_t temper_both(std::uint64_t words) {
    words ^= words >> 11 & 0x001FFFFF001FFFFF;
    words ^= words << 7 & 0x9D2C56809D2C5680;
    words ^= words << 15 & 0xEFC60000EFC60000;
    return words ^ (words >> 18 & 0x00003FFF00003FFF);
  }

  static constexpr std::size_t kWords = 624;        // words of a state
  using Words = std::array<std::uint32_t, kWords>;  // a state

  /// Set and return the state: its words, and the index of the next word, at most kWords.
  MersenneTwister(const Words& words, std::size_t next) : state_(words), next_(next) {}
  Words words() const {
    MersenneTwister seeded = *this;
    seeded.seed();
    return seeded.state_;
  }
  std::size_t next() const { return std::min(next_, kWords); }

 private:
  static constexpr std::size_t kUnseeded = kWords + 1;

  void seed();
  void advance();

  Words state_;  // before seed(), only the first word is set
  std::size_t next_;
};

/// A random generator with its own state; a copy continues independently with the same numbers. The
/// double library widens float draws, so both libraries start with the same weights.
class Random {
 public:
  /// Seeds the generator like torch.manual_seed on the CPU, which uses the low 32 bits of `seed`.
  explicit Random(std::uint64_t seed);

  /// Draws normal values. Requires: stddev >= 0, and mean ± kMaxNormal · stddev fit in a float.
  Tensor normal(const Shape& shape, double mean = 0, double stddev = 1);
  static constexpr double kMaxNormal = 8.6;  // bound of standard normal draws

  /// Draws uniform values in [low, high), or `low` if low = high. Requires: low <= high, and low,
  /// high and high − low fit in a float. A value that PyTorch would round out of the interval
  /// becomes the nearest float inside.
  Tensor uniform(const Shape& shape, double low = 0, double high = 1);

  /// Returns a random permutation of 0 … count − 1, as torch.randperm does.
  std::vector<std::int64_t> permutation(std::int64_t count);

  /// Shuffles items. The items 0 … count − 1 become permutation(count).
  void shuffle(auto& items) {
    for (std::size_t i = 0; i + 1 < items.size(); ++i)
      std::swap(items[i], items[i + bits() % (items.size() - i)]);
  }

  /// Draws a uniform value in [0, 1) with 53 random bits, from two words.
  double uniform_double();

  /// Returns the next 32 random bits.
  std::uint32_t bits() { return engine_(); }

  /// Draws words without tempering them: see MersenneTwister.
  void fill_untempered(std::span<std::uint32_t> words) { engine_.fill_untempered(words); }

  /// Save and restore the position in the random sequence.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  float uniform_float() { return static_cast<float>(bits() & 0xFFFFFF) * 0x1p-24F; }

  MersenneTwister engine_;
  std::optional<double> second_normal_;  // second value of a Box-Muller pair, if not used yet
};

}  // namespace rowgrad
