#include <algorithm>

#include <rowgrad/core/base/mersenne_twister.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLag = 397;

// Word i of the next state, from words i, i + 1 and i + kLag of this one.
std::uint32_t twist(std::uint32_t a, std::uint32_t b, std::uint32_t lagged) {
  const std::uint32_t y = (a & 0x80000000U) | (b & 0x7FFFFFFFU);
  return lagged ^ (y >> 1) ^ (-(y & 1U) & 0x9908B0DFU);
}

}  // namespace

MersenneTwister::MersenneTwister(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void MersenneTwister::advance() {
  std::uint32_t* s = state_.data();
  for (std::size_t i = 0; i < kWords - kLag; ++i) s[i] = twist(s[i], s[i + 1], s[i + kLag]);
  for (std::size_t i = kWords - kLag; i < kWords - 1; ++i)
    s[i] = twist(s[i], s[i + 1], s[i + kLag - kWords]);
  s[kWords - 1] = twist(s[kWords - 1], s[0], s[kLag - 1]);
  next_ = 0;
}

void MersenneTwister::fill_untempered(std::span<std::uint32_t> words) {
  const auto copy_rest = [&] {  // what is left of the state
    const std::size_t count = std::min(kWords - next_, words.size());
    std::copy_n(state_.begin() + static_cast<std::ptrdiff_t>(next_), count, words.begin());
    next_ += count;
    words = words.subspan(count);
  };
  copy_rest();
  if (words.size() >= kWords) {
    advance();
    copy_rest();
    // Each word is computed from earlier words of the output, a whole state at a time, so that the
    // state that is kept does not depend on how many words were requested at once.
    const std::size_t count = words.size() / kWords * kWords;
    std::uint32_t* w = words.data() - kWords;
    for (std::size_t i = 0; i < count; ++i) w[i + kWords] = twist(w[i], w[i + 1], w[i + kLag]);
    std::copy_n(w + count, kWords, state_.begin());
    words = words.subspan(count);
  }
  if (!words.empty()) {
    advance();
    copy_rest();
  }
}

}  // namespace rowgrad
