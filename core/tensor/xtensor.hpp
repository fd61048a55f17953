#pragma once

// Includes xtensor and xsimd, and handles differences between their versions. Tested with xtensor
// 0.24, 0.25 and 0.27 and with xsimd 8, 13 and 14.

// In programs compiled without NDEBUG, xtensor throws std::runtime_error for an index that is out
// of range. The macro does not change any type.
#if !defined(NDEBUG) && !defined(XTENSOR_ENABLE_ASSERT)
#define XTENSOR_ENABLE_ASSERT
#endif

#if __has_include(<xtensor/containers/xarray.hpp>)  // xtensor 0.26 moved its headers into folders
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/containers/xarray.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xarray.hpp>
#endif

#include <xsimd/xsimd.hpp>

namespace rowgrad {

/// Returns the sum of a vector's lanes.
template <class Number>
Number sum_of_lanes(const xsimd::batch<Number>& lanes) {
#if XSIMD_VERSION_MAJOR < 10
  return xsimd::hadd(lanes);
#else
  return xsimd::reduce_add(lanes);
#endif
}

}  // namespace rowgrad

#if defined(__aarch64__) && XSIMD_VERSION_MAJOR == 8
// On ARM, xsimd 8 computes float division and square roots from approximate reciprocals: the last
// digits are wrong, and large values give 0 · ∞. The processor's instructions round correctly.
template <>
inline xsimd::batch<float, xsimd::neon64> xsimd::kernel::div<xsimd::neon64>(
    const xsimd::batch<float, xsimd::neon64>& a, const xsimd::batch<float, xsimd::neon64>& b,
    xsimd::kernel::requires_arch<xsimd::neon>) noexcept {
  return vdivq_f32(a, b);
}
template <>
inline xsimd::batch<float, xsimd::neon64> xsimd::kernel::sqrt<xsimd::neon64>(
    const xsimd::batch<float, xsimd::neon64>& x,
    xsimd::kernel::requires_arch<xsimd::neon>) noexcept {
  return vsqrtq_f32(x);
}
#endif

#if defined(__AVX512BW__) && XSIMD_VERSION_MAJOR == 8
// For AVX-512, xsimd 8 selects between integers with casts that compile only with optimisation.
template <>
inline xsimd::batch<std::int32_t, xsimd::avx512bw>
xsimd::kernel::select<xsimd::avx512bw, std::int32_t, void>(
    const xsimd::batch_bool<std::int32_t, xsimd::avx512bw>& condition,
    const xsimd::batch<std::int32_t, xsimd::avx512bw>& yes,
    const xsimd::batch<std::int32_t, xsimd::avx512bw>& no,
    xsimd::kernel::requires_arch<xsimd::avx512bw>) noexcept {
  return _mm512_mask_blend_epi32(condition, no, yes);
}
template <>
inline xsimd::batch<std::int64_t, xsimd::avx512bw>
xsimd::kernel::select<xsimd::avx512bw, std::int64_t, void>(
    const xsimd::batch_bool<std::int64_t, xsimd::avx512bw>& condition,
    const xsimd::batch<std::int64_t, xsimd::avx512bw>& yes,
    const xsimd::batch<std::int64_t, xsimd::avx512bw>& no,
    xsimd::kernel::requires_arch<xsimd::avx512bw>) noexcept {
  return _mm512_mask_blend_epi64(condition, no, yes);
}

// For AVX-512, xsimd 8 does not guarantee that these operations round only once.
#define ROWGRAD_ROUNDS_ONCE(function, Number, instruction)                                       \
  template <>                                                                                    \
  inline xsimd::batch<Number, xsimd::avx512bw> xsimd::kernel::function<xsimd::avx512bw, Number>( \
      const xsimd::batch<Number, xsimd::avx512bw>& x,                                            \
      const xsimd::batch<Number, xsimd::avx512bw>& y,                                            \
      const xsimd::batch<Number, xsimd::avx512bw>& z,                                            \
      xsimd::kernel::requires_arch<xsimd::generic>) noexcept {                                   \
    return instruction(x, y, z);                                                                 \
  }
ROWGRAD_ROUNDS_ONCE(fma, float, _mm512_fmadd_ps)
ROWGRAD_ROUNDS_ONCE(fma, double, _mm512_fmadd_pd)
ROWGRAD_ROUNDS_ONCE(fms, float, _mm512_fmsub_ps)
ROWGRAD_ROUNDS_ONCE(fms, double, _mm512_fmsub_pd)
ROWGRAD_ROUNDS_ONCE(fnma, float, _mm512_fnmadd_ps)
ROWGRAD_ROUNDS_ONCE(fnma, double, _mm512_fnmadd_pd)
#undef ROWGRAD_ROUNDS_ONCE
#endif
