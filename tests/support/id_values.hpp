#pragma once

#include <cstdint>
#include <vector>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::testing {

/// Ids in a form that EXPECT_EQ prints.
inline std::vector<std::int32_t> values(const Ids& ids) { return {ids.begin(), ids.end()}; }

}  // namespace rowgrad::testing
