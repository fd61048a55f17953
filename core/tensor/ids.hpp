#pragma once

// Arrays of ids. They are the same in both libraries, whatever the number type of tensors.

#include <algorithm>
#include <cstdint>
#include <iterator>

#include <rowgrad/core/tensor/buffer_pool.hpp>
#include <rowgrad/core/tensor/xtensor.hpp>

namespace rowgrad {

/// An array of ids: token ids, positions, row numbers. Rank 1 for a text, rank 2 for a batch.
using Ids = xt::xarray<std::int32_t, xt::layout_type::row_major, PoolAllocator<std::int32_t>>;

/// The rank-1 array of the ids in a range.
template <class Range>
Ids to_ids(const Range& range) {
  Ids ids(Ids::shape_type{static_cast<std::size_t>(std::size(range))});
  std::copy(std::begin(range), std::end(range), ids.data());
  return ids;
}

}  // namespace rowgrad
