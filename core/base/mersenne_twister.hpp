#pragma once

// MT19937 (Matsumoto & Nishimura 1998, "Mersenne twister"), with its recursion written as one long
// loop that compilers vectorise. Gives the same numbers as std::mt19937.

#include <array>
#include <cstdint>
#include <span>

namespace rowgrad {

class MersenneTwister {
 public:
  explicit MersenneTwister(std::uint32_t seed);

  /// The next 32 random bits.
  std::uint32_t operator()() {
    if (next_ == kWords) advance();
    return temper(state_[next_++]);
  }

  /// The next words before tempering: temper() turns each into what operator() would have returned.
  /// Separate functions, because only the recursion has to run in order.
  void fill_untempered(std::span<std::uint32_t> words);

  static std::uint32_t temper(std::uint32_t word) {
    return static_cast<std::uint32_t>(temper_both(word));
  }

  /// The same for two words at once, one in each half.
  static std::uint64_t temper_both(std::uint64_t words) {
    words ^= words >> 11 & 0x001FFFFF001FFFFF;
    words ^= words << 7 & 0x9D2C56809D2C5680;
    words ^= words << 15 & 0xEFC60000EFC60000;
    return words ^ (words >> 18 & 0x00003FFF00003FFF);
  }

  static constexpr std::size_t kWords = 624;
  using Words = std::array<std::uint32_t, kWords>;

  /// The state: its words, and the index of the next one, at most kWords.
  MersenneTwister(const Words& words, std::size_t next) : state_(words), next_(next) {}
  const Words& words() const { return state_; }
  std::size_t next() const { return next_; }

 private:
  void advance();

  Words state_;
  std::size_t next_ = kWords;
};

}  // namespace rowgrad
