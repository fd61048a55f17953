#pragma once

// Element-wise functions in the CPU's vector registers. A function is written once, for a vector
// (simd.hpp): `[](Simd x) { return exp(x) * x; }`. The last few elements go through a padded
// vector, so the bits of a result do not depend on its position.

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/simd.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {
inline namespace ROWGRAD_VECTORS {

/// Loads `count` < kLanes values. The other lanes get `padding`.
inline Simd load_partial(const real* from, std::size_t count, real padding) {
  alignas(64) std::array<real, kLanes> lanes;
  // Compilers turn this loop into a masked load, if the CPU has one.
  for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = i < count ? from[i] : padding;
  return Simd::load_aligned(lanes.data());
}

/// Loads `count` < kLanes values. The other lanes get the first value, or 0.
inline Simd load_partial(const real* from, std::size_t count) {
  return load_partial(from, count, count > 0 ? from[0] : real{0});
}

/// Stores the first `count` < kLanes values of a vector.
inline void store_partial(const Simd& vector, real* to, std::size_t count) {
  alignas(64) std::array<real, kLanes> lanes;
  vector.store_aligned(lanes.data());
  for (std::size_t i = 0; i < kLanes; ++i)
    if (i < count) to[i] = lanes[i];
}

/// A whole vector at index `at` of arrays.
struct WholeVector {
  std::size_t at;

  Simd load(const real* from) const { return Simd::load_unaligned(from + at); }
  Simd load(const real* from, real /*padding*/) const { return load(from); }
  void store(const Simd& x, real* to) const { x.store_unaligned(to + at); }
};

/// The last `count` values of a range, at index `at`. Other lanes read `padding` or the first
/// value, and are not written.
struct PartialVector {
  std::size_t at;
  std::size_t count;

  Simd load(const real* from) const { return load_partial(from + at, count); }
  Simd load(const real* from, real padding) const {
    return load_partial(from + at, count, padding);
  }
  void store(const Simd& x, real* to) const { store_partial(x, to + at, count); }
};

/// Calls body(vector) for the vectors of [begin, end) on the calling thread. `body` is passed by
/// value and inlined. No array can alias `body`, so its members stay in registers.
template <class Body>
[[gnu::always_inline]] inline void for_vectors(std::size_t begin, std::size_t end,
                                               const Body body) {
  for (; begin + kLanes <= end; begin += kLanes) body(WholeVector{begin});
  if (begin < end) body(PartialVector{begin, end - begin});
}

/// Computes out[i] = f(in[i] …) for `count` elements on the calling thread. `out` may be an input.
template <class F, class... In>
void map_span(std::size_t count, real* out, const F& f, const In*... in) {
  for_vectors(0, count, [=, &f](const auto& v) { v.store(f(v.load(in)...), out); });
}

/// Returns Σ f(in[i] …) over `count` values, on the calling thread. Long arrays are summed in
/// blocks.
template <class F, class... In>
real sum_span(std::size_t count, const F& f, const In*... in) {
  constexpr std::size_t kBlock = 4096;
  if (count > kBlock) {
    double total = 0;
    for (std::size_t at = 0; at < count; at += kBlock)
      total += static_cast<double>(sum_span(std::min(kBlock, count - at), f, (in + at)...));
    return static_cast<real>(total);
  }
  Simd total(real{0});
  Simd second(real{0});  // two running sums hide the latency of an addition
  std::size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    total += f(Simd::load_unaligned(in + i)...);
    second += f(Simd::load_unaligned(in + i + kLanes)...);
  }
  for (; i + kLanes <= count; i += kLanes) total += f(Simd::load_unaligned(in + i)...);
  real sum = lanes::sum(total + second);
  if (i < count) {
    std::array<real, kLanes> lanes{};
    store_partial(f(load_partial(in + i, count - i)...), lanes.data(), count - i);
    for (const real lane : lanes) sum += lane;
  }
  return sum;
}

/// Loops over N arrays together, on the calling thread. Calls f(x, put) for each vector: x[k] has
/// the values of arrays[k] (zeros for a null array), and put(y, array) stores y at the same index.
template <std::size_t N, class F>
[[gnu::always_inline]] inline void for_each_vector(std::size_t count,
                                                   const std::array<const real*, N> arrays,
                                                   const F f) {
  for_vectors(0, count, [arrays, f](const auto& v) {
    std::array<Simd, N> x;
    for (std::size_t k = 0; k < N; ++k)
      x[k] = arrays[k] != nullptr ? v.load(arrays[k]) : Simd(real{0});
    f(x, [&v](const Simd& y, real* array) { v.store(y, array); });
  });
}

/// Computes out = f(in …) for arrays of `count` elements, in parallel.
template <class F, class... In>
void map_into(std::size_t count, real* out, const F& f, const In*... in) {
  parallel_for(count, kGrainElements, [&](std::size_t begin, std::size_t end) {
    map_span(end - begin, out + begin, f, (in + begin)...);
  });
}

/// Returns f(x …) as a new tensor. Requires: all tensors have the same shape.
template <class F, class... Rest>
Tensor map(const F& f, const Tensor& first, const Rest&... rest) {
  Tensor result = empty(first.shape());
  map_into(first.size(), result.data(), f, first.data(), rest.data()...);
  return result;
}

/// Returns f(x …) in the memory of the first tensor: `g = map_in_place(f, std::move(g), y)`.
template <class F, class... Rest>
Tensor map_in_place(const F& f, Tensor&& first, const Rest&... rest) {
  map_into(first.size(), first.data(), f, first.data(), rest.data()...);
  return std::move(first);
}

}  // namespace ROWGRAD_VECTORS
}  // namespace rowgrad::kernels
