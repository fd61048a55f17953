#pragma once

// Random numbers: those of PyTorch's CPU generator with the same seed, call for call; normal
// numbers may differ from PyTorch's in their last bits. Draws are consumed in PyTorch's order, so
// that layers constructed one after another start with the weights that textbooks print. Normal
// numbers: Box & Muller 1958. Wrong arguments throw std::invalid_argument, and change nothing.

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

/// MT19937 (Matsumoto & Nishimura 1998, "Mersenne twister") seeded with one word. Its recursion is
/// a long loop that compilers vectorise. Gives the same numbers as std::mt19937.
class MersenneTwister {
 public:
  /// Begins with the state of one word, which the first draw makes: a generator that nobody draws
  /// from costs nothing.
  explicit MersenneTwister(std::uint32_t seed) : state_{seed}, next_(kUnseeded) {}

  /// The next 32 random bits.
  std::uint32_t operator()() {
    if (next_ >= kWords) advance();
    return temper(state_[next_++]);
  }

  /// The next words before tempering: temper() turns each into what operator() would have returned.
  /// Only the recursion has to run in order; words can be tempered in parallel.
  void fill_untempered(std::span<std::uint32_t> words);

  /// What operator() returns for a word of the state.
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

  static constexpr std::size_t kWords = 624;        // the number of words of a state
  using Words = std::array<std::uint32_t, kWords>;  // a state

  /// The state: its words, and the index of the next one, at most kWords.
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

  Words state_;  // only its first word before it is seeded
  std::size_t next_;
};

/// A generator with its own state; a copy continues independently with the same numbers. The double
/// library widens the float draws, so that both libraries start with the same weights.
class Random {
 public:
  /// Like torch.manual_seed for the CPU: only the low 32 bits of `seed` count.
  explicit Random(std::uint64_t seed);

  /// Normal values. `stddev` is not negative, and mean ± kMaxNormal · stddev fit in a float.
  Tensor normal(const Shape& shape, double mean = 0, double stddev = 1);
  static constexpr double kMaxNormal = 8.6;  // no standard normal value that is drawn is larger

  /// Uniform values in [low, high), or `low` if both are equal. Both bounds and high − low fit in a
  /// float, and low <= high. A draw that PyTorch would round to a value outside becomes the nearest
  /// float inside.
  Tensor uniform(const Shape& shape, double low = 0, double high = 1);

  /// The numbers 0 … count − 1 in the random order of torch.randperm.
  std::vector<std::int64_t> permutation(std::int64_t count);

  /// Puts items into random order: 0 … count − 1 into that of permutation(count).
  void shuffle(auto& items) {
    for (std::size_t i = 0; i + 1 < items.size(); ++i)
      std::swap(items[i], items[i + bits() % (items.size() - i)]);
  }

  /// A uniform number in [0, 1) with 53 random bits, from the next two words.
  double uniform_double();

  /// The next 32 random bits.
  std::uint32_t bits() { return engine_(); }

  /// Many words at once, before tempering: see MersenneTwister.
  void fill_untempered(std::span<std::uint32_t> words) { engine_.fill_untempered(words); }

  /// The position in the random sequence.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  float uniform_float() { return static_cast<float>(bits() & 0xFFFFFF) * 0x1p-24F; }

  MersenneTwister engine_;
  std::optional<double> second_normal_;  // the other of a Box-Muller pair
};

}  // namespace rowgrad
