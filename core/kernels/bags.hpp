#pragma once

// Reductions of bags of rows to one row each, and their gradients.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Which ids belong to which bag: those of bag b are ids[i], starts[b] ≤ i < starts[b + 1]. Ids
/// equal to `padding` are ignored.
struct BagLayout {
  Ids ids;
  std::vector<std::size_t> starts;  // [bags + 1]; the last one is the number of ids
  std::optional<std::int32_t> padding;

  std::size_t bags() const { return starts.size() - 1; }
  bool counts(std::size_t i) const { return ids.data()[i] != padding; }
};

/// Divides each bag's row of `values` [bags, width] by how many of its ids are not padding, if any.
void divide_by_counts(const BagLayout& layout, Tensor& values);

/// rows [shape of ids..., width] → [bags, width]: the sum of each bag's rows, each multiplied by
/// its weight unless `weights`, one per id, is null. Empty bags give zeros.
Tensor sum_bags(const BagLayout& layout, const Tensor& rows, const real* weights);

/// From the upstream gradient [bags, width]: the gradients of the table's rows, divided by how
/// often each id occurs if `mean`; and the gradient of the weights, which has the given shape.
MergedRows sum_bags_backward(const BagLayout& layout, const Tensor& upstream, const real* weights,
                             bool mean);
Tensor bag_weights_backward(const BagLayout& layout, const Tensor& upstream, const Tensor& rows,
                            const Shape& shape);

/// For each bag and column, the index of the id whose row has the largest value there (NaN, if
/// there is one), the first of several; kNone in empty bags.
using ArgMax = std::vector<std::uint32_t, PoolAllocator<std::uint32_t>>;
constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// rows [shape of ids..., width] → [bags, width]: the largest value of each bag in each column, and
/// which id it came from. Empty bags give zeros.
Tensor max_bags(const BagLayout& layout, const Tensor& rows, ArgMax& argmax);

/// From the upstream gradient [bags, width]: the gradients of the rows that were the largest in
/// some column.
MergedRows max_bags_backward(const BagLayout& layout, const Tensor& upstream, const ArgMax& argmax);

}  // namespace rowgrad::kernels
