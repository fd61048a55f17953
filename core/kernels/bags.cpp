#include <algorithm>
#include <cmath>
#include <functional>

#include <rowgrad/core/kernels/bags.hpp>

namespace rowgrad::kernels {
namespace {

// Calls body(bag) for each bag, in parallel.
void for_each_bag(const BagLayout& layout, std::size_t width, const auto& body) {
  const std::size_t bags = layout.bags();
  const std::size_t rows_a_bag = 1 + layout.ids.size() / std::max<std::size_t>(bags, 1);
  parallel_for(bags, row_grain(width * rows_a_bag), [&](std::size_t begin, std::size_t end) {
    for (std::size_t bag = begin; bag < end; ++bag) body(bag);
  });
}

// Calls body(i) for the index of each id of a bag that is not padding.
void for_each_id(const BagLayout& layout, std::size_t bag, const auto& body) {
  for (std::size_t i = layout.starts[bag]; i < layout.starts[bag + 1]; ++i)
    if (layout.counts(i)) body(i);
}

// The bag that each id belongs to.
std::vector<std::uint32_t> bag_of_ids(const BagLayout& layout) {
  std::vector<std::uint32_t> bag_of(layout.ids.size());
  for (std::size_t bag = 0; bag < layout.bags(); ++bag)
    std::fill(bag_of.data() + layout.starts[bag], bag_of.data() + layout.starts[bag + 1],
              static_cast<std::uint32_t>(bag));
  return bag_of;
}

}  // namespace

void divide_by_counts(const BagLayout& layout, Tensor& values) {
  const std::size_t width = values.shape()[1];
  for_each_bag(layout, width, [&](std::size_t bag) {
    std::size_t count = 0;
    for_each_id(layout, bag, [&](std::size_t) { ++count; });
    if (count < 2) return;
    const Simd divisor(static_cast<real>(count));
    real* row = values.data() + bag * width;
    map_span(
        width, row, [&](const Simd& x) { return x / divisor; }, row);
  });
}

Tensor sum_bags(const BagLayout& layout, const Tensor& rows, const real* weights) {
  const std::size_t width = rows.shape().back();
  Tensor sums = zeros({layout.bags(), width});
  for_each_bag(layout, width, [&](std::size_t bag) {
    real* to = sums.data() + bag * width;
    for_each_id(layout, bag, [&](std::size_t i) {
      const Simd weight(weights == nullptr ? real{1} : weights[i]);
      map_span(
          width, to, [&](const Simd& a, const Simd& b) { return a + weight * b; }, to,
          rows.data() + i * width);
    });
  });
  return sums;
}

MergedRows sum_bags_backward(const BagLayout& layout, const Tensor& upstream, const real* weights,
                             bool mean) {
  const std::size_t width = upstream.shape()[1];
  const std::vector<std::uint32_t> bag_of = bag_of_ids(layout);
  const auto row = [&](std::size_t i) { return upstream.data() + bag_of[i] * width; };
  return sum_groups(
      RowGroups(layout.ids.storage(), layout.padding), width, mean, row,
      [&](const Simd& x, std::size_t i) { return weights == nullptr ? x : Simd(weights[i]) * x; });
}

Tensor bag_weights_backward(const BagLayout& layout, const Tensor& upstream, const Tensor& rows,
                            const Shape& shape) {
  const std::size_t width = upstream.shape()[1];
  Tensor gradient = zeros(shape);
  for_each_bag(layout, width, [&](std::size_t bag) {
    for_each_id(layout, bag, [&](std::size_t i) {
      gradient.data()[i] = sum_span(width, std::multiplies<>(), upstream.data() + bag * width,
                                    rows.data() + i * width);
    });
  });
  return gradient;
}

Tensor max_bags(const BagLayout& layout, const Tensor& rows, ArgMax& argmax) {
  const std::size_t width = rows.shape().back();
  Tensor largest = zeros({layout.bags(), width});
  argmax.assign(layout.bags() * width, kNone);
  for_each_bag(layout, width, [&](std::size_t bag) {
    real* to = largest.data() + bag * width;
    std::uint32_t* index = argmax.data() + bag * width;
    bool first = true;
    for_each_id(layout, bag, [&](std::size_t i) {
      const real* row = rows.data() + i * width;
      for (std::size_t column = 0; column < width; ++column) {
        if (!first && (row[column] <= to[column] || std::isnan(to[column]))) continue;
        to[column] = row[column];
        index[column] = static_cast<std::uint32_t>(i);
      }
      first = false;
    });
  });
  return largest;
}

MergedRows max_bags_backward(const BagLayout& layout, const Tensor& upstream,
                             const ArgMax& argmax) {
  constexpr std::int32_t kUnused = -1;  // not a row of any table
  const std::size_t width = upstream.shape()[1];
  std::vector<std::int32_t> ids(layout.ids.size(), kUnused);
  for (const std::uint32_t i : argmax)
    if (i != kNone) ids[i] = layout.ids.data()[i];
  const std::vector<std::uint32_t> bag_of = bag_of_ids(layout);
  const auto row = [&](std::size_t i) { return upstream.data() + bag_of[i] * width; };
  return make_rows(RowGroups(ids, kUnused), width, row, [&](const RowGroup& group, real* to) {
    if (group.begins()) std::fill_n(to, width, real{0});
    for (std::size_t place = group.first; place < group.last; ++place) {
      const std::size_t i = group.groups.position(place);
      const std::uint32_t* index = argmax.data() + bag_of[i] * width;
      for (std::size_t column = 0; column < width; ++column)
        to[column] += index[column] == i ? row(i)[column] : real{0};
    }
  });
}

}  // namespace rowgrad::kernels
