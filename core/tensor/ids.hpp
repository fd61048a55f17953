#pragma once

// Arrays of ids. They have the same type in both libraries, rowgrad and rowgrad_double.

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <rowgrad/core/tensor/buffer_pool.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of ids: token ids, positions or row indices. Rank 1 for a text, rank 2 for a batch.
using Ids = xt::xarray<std::int32_t, xt::layout_type::row_major, PoolAllocator<std::int32_t>>;

/// Copies a range of ids into an array of rank 1.
Ids to_ids(const auto& range) {
  Ids ids(Ids::shape_type{static_cast<std::size_t>(std::size(range))});
  std::copy(std::begin(range), std::end(range), ids.data());
  return ids;
}

}  // namespace rowgrad
