#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kLag = 397;

// Returns word i + kWords of the sequence of untempered words, from words i, i + 1 and i + kLag.
std::uint32_t twist(std::uint32_t a, std::uint32_t b, std::uint32_t lagged) {
  const std::uint32_t y = (a & 0x80000000U) | (b & 0x7FFFFFFFU);
  return lagged ^ (y >> 1) ^ (-(y & 1U) & 0x9908B0DFU);
}

}  // namespace

void MersenneTwister::seed() {
  if (next_ != kUnseeded) return;
  next_ = kWords;
  for (std::uint32_t i = 1; i < kWords; ++i)
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void MersenneTwister::advance() {
  seed();
  std::uint32_t* s = state_.data();
  for (std::size_t i = 0; i < kWords - kLag; ++i) s[i] = twist(s[i], s[i + 1], s[i + kLag]);
  for (std::size_t i = kWords - kLag; i < kWords - 1; ++i)
    s[i] = twist(s[i], s[i + 1], s[i + kLag - kWords]);
  s[kWords - 1] = twist(s[kWords - 1], s[0], s[kLag - 1]);
  next_ = 0;
}

void MersenneTwister::fill_untempered(std::span<std::uint32_t> words) {
  seed();
  const auto copy_rest = [&] {  // copies the remaining words of the state
    const std::size_t count = std::min(kWords - next_, words.size());
    std::copy_n(state_.begin() + static_cast<std::ptrdiff_t>(next_), count, words.begin());
    next_ += count;
    words = words.subspan(count);
  };
  copy_rest();
  if (words.size() >= kWords) {
    advance();
    copy_rest();
    // Computes each word from earlier words of the output, in whole states, so that the final state
    // does not depend on how many words were requested at once.
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

namespace {

constexpr double kMaxFloat = std::numeric_limits<float>::max();
constexpr std::size_t kBlock = 16;  // normal values are computed 16 at a time
constexpr std::size_t kHalf = kBlock / 2;

// Turns 16 uniform values into normal values in place; elements j and j + 8 form a pair.
void box_muller(real* block, float mean, float stddev) {
  for (std::size_t j = 0; j < kHalf; ++j) {
    const float radius = std::sqrt(-2.0F * std::log(1.0F - static_cast<float>(block[j])));
    const float angle = 2.0F * std::numbers::pi_v<float> * static_cast<float>(block[j + kHalf]);
    block[j] = radius * std::cos(angle) * stddev + mean;
    block[j + kHalf] = radius * std::sin(angle) * stddev + mean;
  }
}

}  // namespace

Random::Random(std::uint64_t seed) : engine_(static_cast<std::uint32_t>(seed)) {}

double Random::uniform_double() {
  const std::uint64_t high = bits();
  const std::uint64_t low = bits();
  return static_cast<double>(((high << 32) | low) & ((std::uint64_t{1} << 53) - 1)) * 0x1p-53;
}

Tensor Random::normal(const Shape& shape, double mean, double stddev) {
  check_argument(stddev >= 0 && std::abs(mean) + kMaxNormal * stddev <= kMaxFloat,
                 "Random::normal: mean ", mean, " and stddev ", stddev,
                 ", expected stddev >= 0 and values in the range of float");
  Tensor result = empty(shape);
  const std::size_t count = result.size();
  real* values = result.data();

  if (count < kBlock) {
    for (std::size_t i = 0; i < count; ++i) {
      double unit;
      if (second_normal_) {
        unit = *std::exchange(second_normal_, std::nullopt);
      } else {
        const double angle = 2 * std::numbers::pi * uniform_double();
        const double radius = std::sqrt(-2 * std::log1p(-uniform_double()));
        unit = radius * std::cos(angle);
        second_normal_ = radius * std::sin(angle);
      }
      values[i] = static_cast<float>(unit * stddev + mean);
    }
    return result;
  }

  const auto narrow_mean = static_cast<float>(mean);
  const auto narrow_stddev = static_cast<float>(stddev);
  for (std::size_t i = 0; i < count; ++i) values[i] = uniform_float();
  for (std::size_t i = 0; i + kBlock <= count; i += kBlock)
    box_muller(values + i, narrow_mean, narrow_stddev);
  if (count % kBlock != 0) {  // as in PyTorch, redraw the last 16 values
    real* last = values + count - kBlock;
    for (std::size_t i = 0; i < kBlock; ++i) last[i] = uniform_float();
    box_muller(last, narrow_mean, narrow_stddev);
  }
  return result;
}

Tensor Random::uniform(const Shape& shape, double low, double high) {
  check_argument(low <= high && std::abs(low) <= kMaxFloat && std::abs(high) <= kMaxFloat &&
                     std::isfinite(static_cast<float>(high) - static_cast<float>(low)),
                 "Random::uniform: low ", low, " and high ", high,
                 ", expected low <= high, with both bounds and high - low in the range of float");
  Tensor result = empty(shape);
  const auto start = static_cast<float>(low);
  const float range = static_cast<float>(high) - start;
  // Bounds and sums may round to floats outside the interval.
  float smallest = start, largest = static_cast<float>(high);
  if (smallest < low) smallest = std::nextafter(smallest, HUGE_VALF);
  if (largest >= high) largest = std::nextafter(largest, -HUGE_VALF);
  if (smallest > largest) smallest = largest = start;  // no float is in the interval
  for (real& value : result.storage())
    value = std::clamp(uniform_float() * range + start, smallest, largest);
  return result;
}

std::vector<std::int64_t> Random::permutation(std::int64_t count) {
  check_argument(count >= 0, "Random::permutation: count ", count, ", expected at least 0");
  std::vector<std::int64_t> order(
      element_count({static_cast<std::size_t>(count)}, "Random::permutation"));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order);
  return order;
}

StateDict Random::state_dict() const {
  StateDict state;
  const MersenneTwister::Words words = engine_.words();
  state.put("words", std::vector<std::int64_t>(words.begin(), words.end()));
  state.put("next", engine_.next());
  if (second_normal_) state.put("second_normal", *second_normal_);
  return state;
}

void Random::load_state_dict(const StateDict& state) {
  const auto saved = state.integers("words");
  const std::uint64_t next = state.count("next");
  const bool fits =
      saved.size() == MersenneTwister::kWords && next <= MersenneTwister::kWords &&
      std::ranges::all_of(saved, [](std::int64_t word) { return word >= 0 && word >> 32 == 0; });
  check_argument(fits, "Random::load_state_dict: got ", saved.size(), " words and next ", next,
                 ", expected ", MersenneTwister::kWords, " words of 32 bits and next at most ",
                 MersenneTwister::kWords);
  const auto second =
      state.contains("second_normal") ? std::optional(state.number("second_normal")) : std::nullopt;
  check_argument(!second || std::isfinite(*second), "Random::load_state_dict: second_normal is ",
                 second.value_or(0), ", expected a finite number");
  MersenneTwister::Words words;
  std::ranges::transform(saved, words.begin(),
                         [](std::int64_t word) { return static_cast<std::uint32_t>(word); });
  engine_ = MersenneTwister(words, next);
  second_normal_ = second;
}

}  // namespace rowgrad
