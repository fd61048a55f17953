#pragma once

// Whether a function of vectors computes each lane from that lane alone.

#include <functional>
#include <span>
#include <string_view>

#include <rowgrad/core/kernels/simd.hpp>

namespace rowgrad::kernels {

/// Tries a function that changes vectors in place, with various numbers side by side, and with each
/// of them alone in all lanes: what comes out must be the same. (Functions that work lane by lane
/// guarantee this, as it is the same code.) Throws std::logic_error otherwise, which names `owner`,
/// the vector, the lane, the numbers, what came out and what should have. `names` are those of the
/// vectors.
void check_lanes(std::string_view owner, std::span<const std::string_view> names,
                 const std::function<void(std::span<Simd>)>& change);

}  // namespace rowgrad::kernels
