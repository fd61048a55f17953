#pragma once

// Bags of rows reduced to one row each, and back.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad::kernels {

/// Which ids are in which bag: bag b holds those at the places starts[b] to starts[b + 1]. Ids
/// equal to `padding` do not count.
struct BagLayout {
  Ids ids;
  std::vector<std::size_t> starts;  // one more than there are bags; the last is the ids' number
  std::optional<std::int32_t> padding;

  std::size_t bags() const { return starts.size() - 1; }
  bool counts(std::size_t place) const { return ids.data()[place] != padding; }
};

/// values [bags, width], the row of each bag divided by how many ids count in it, if any do.
void divide_by_counts(const BagLayout& layout, Tensor& values);

/// rows [ids' shape..., width] → [bags, width]: the sum of each bag's rows, each times its weight
/// where `weights`, one for each id, are given; else null. Empty bags give zeros.
Tensor sum_bags(const BagLayout& layout, const Tensor& rows, const real* weights);

/// Back from upstream [bags, width]: the gradients of the table's rows, with `mean` divided by how
/// often each id occurs; and that of the weights, of the given shape.
MergedRows sum_bags_backward(const BagLayout& layout, const Tensor& upstream, const real* weights,
                             bool mean);
Tensor bag_weights_backward(const BagLayout& layout, const Tensor& upstream, const Tensor& rows,
                            const Shape& shape);

/// Of each bag and column, the place of the id whose row is the largest there, the first of
/// several; kNobody in empty bags.
using Winners = std::vector<std::uint32_t, PoolAllocator<std::uint32_t>>;
constexpr std::uint32_t kNobody = 0xFFFFFFFF;

/// rows [ids' shape..., width] → [bags, width], the largest of each bag in each column, and who
/// that was. Empty bags give zeros.
Tensor max_bags(const BagLayout& layout, const Tensor& rows, Winners& winners);

/// Back from upstream [bags, width] to the rows that were the largest anywhere.
MergedRows max_bags_backward(const BagLayout& layout, const Tensor& upstream,
                             const Winners& winners);

}  // namespace rowgrad::kernels
