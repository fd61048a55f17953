#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>

#include <rowgrad/core/kernels/dropout.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::kernels {
namespace {

constexpr std::size_t kBits = 32;  // bits in a word of the mask

// Returns mask bits for up to 32 values, each drawn from two untempered generator words.
std::uint32_t draw_bits(const std::uint32_t* words, std::size_t count, std::uint64_t threshold) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t pair;
    std::memcpy(&pair, words + 2 * i, sizeof pair);
    // The first word is the high half of 64 bits, of which PyTorch uses the low 53.
    pair = std::rotl(MersenneTwister::temper_both(pair), 32);
    const std::uint64_t uniform = pair & ((std::uint64_t{1} << 53) - 1);
    bits |= (uniform - threshold) >> 63 << i;  // the sign bit: both are below 2^54
  }
  return static_cast<std::uint32_t>(bits);
}

}  // namespace

DropoutMask draw_dropout_mask(Random& random, std::size_t count, double p) {
  static_assert(std::endian::native == std::endian::little,
                "pairs of words are read as one 64-bit integer");
  // For integers u, u · 2^-53 < 1 − p is equivalent to u < ceil((1 − p) · 2^53), which is exact.
  const auto threshold = static_cast<std::uint64_t>(std::ceil((1 - p) * 0x1p53));
  DropoutMask mask((count + kBits - 1) / kBits);
  // The generator's recursion is sequential; everything after it runs in parallel.
  constexpr std::size_t kChunk = std::size_t{1} << 17;
  std::vector<std::uint32_t, PoolAllocator<std::uint32_t>> drawn(2 * std::min(count, kChunk));
  for (std::size_t start = 0; start < count; start += kChunk) {
    const std::size_t values = std::min(kChunk, count - start);
    random.fill_untempered({drawn.data(), 2 * values});
    parallel_for_each((values + kBits - 1) / kBits, kBits, [&](std::size_t i) {
      const std::uint32_t* from = drawn.data() + 2 * i * kBits;
      const std::size_t left = values - i * kBits;
      mask[start / kBits + i] =
          left >= kBits ? draw_bits(from, kBits, threshold) : draw_bits(from, left, threshold);
    });
  }
  return mask;
}

void apply_dropout_mask(const DropoutMask& mask, std::size_t count, const real* x, real factor,
                        real* out) {
  parallel_for_each(mask.size(), kBits, [&](std::size_t i) {
    const std::uint32_t word = mask[i];
    const std::size_t first = i * kBits;
    // Uses no branches, because no CPU predicts random bits. The compiler can vectorize this loop.
    alignas(64) std::array<real, kBits> factors;
    for (std::size_t j = 0; j < kBits; ++j)
      factors[j] = static_cast<real>(static_cast<std::int32_t>(word >> j & 1)) * factor;
    map_span(std::min(kBits, count - first), out + first, std::multiplies<>(), x + first,
             factors.data());
  });
}

}  // namespace rowgrad::kernels
