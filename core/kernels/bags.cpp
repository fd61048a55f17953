#include <algorithm>
#include <cmath>
#include <functional>

#include <rowgrad/core/kernels/bags.hpp>

namespace rowgrad::kernels {
namespace {

// Calls body(bag) for each bag, in parallel.
void for_bags(const BagLayout& layout, std::size_t width, const auto& body) {
  const std::size_t bags = layout.bags();
  const std::size_t rows_a_bag = 1 + layout.ids.size() / std::max<std::size_t>(bags, 1);
  parallel_for(bags, row_grain(width * rows_a_bag), [&](std::size_t begin, std::size_t end) {
    for (std::size_t bag = begin; bag < end; ++bag) body(bag);
  });
}

// Calls body(place) for the place of each id of a bag that is not padding.
void for_places(const BagLayout& layout, std::size_t bag, const auto& body) {
  for (std::size_t place = layout.starts[bag]; place < layout.starts[bag + 1]; ++place)
    if (layout.counts(place)) body(place);
}

// The bag that each place belongs to.
std::vector<std::uint32_t> bag_of_places(const BagLayout& layout) {
  std::vector<std::uint32_t> bag_of(layout.ids.size());
  for (std::size_t bag = 0; bag < layout.bags(); ++bag)
    std::fill(bag_of.data() + layout.starts[bag], bag_of.data() + layout.starts[bag + 1],
              static_cast<std::uint32_t>(bag));
  return bag_of;
}

// to += row, multiplied by the weight if there is one.
void add_row(std::size_t width, real* to, const real* row, const real* weight) {
  if (weight == nullptr) {
    map_span(width, to, std::plus<>(), to, row);
  } else {
    const Simd factor(*weight);
    map_span(
        width, to, [&](const Simd& a, const Simd& b) { return a + factor * b; }, to, row);
  }
}

// to = row, multiplied by the weight if there is one.
void set_row(std::size_t width, real* to, const real* row, const real* weight) {
  if (weight == nullptr) {
    std::copy_n(row, width, to);
  } else {
    const Simd factor(*weight);
    map_span(
        width, to, [&](const Simd& x) { return factor * x; }, row);
  }
}

}  // namespace

void divide_by_counts(const BagLayout& layout, Tensor& values) {
  const std::size_t width = values.shape()[1];
  for_bags(layout, width, [&](std::size_t bag) {
    std::size_t count = 0;
    for_places(layout, bag, [&](std::size_t) { ++count; });
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
  for_bags(layout, width, [&](std::size_t bag) {
    for_places(layout, bag, [&](std::size_t place) {
      add_row(width, sums.data() + bag * width, rows.data() + place * width,
              weights == nullptr ? nullptr : weights + place);
    });
  });
  return sums;
}

MergedRows sum_bags_backward(const BagLayout& layout, const Tensor& upstream, const real* weights,
                             bool mean) {
  const std::size_t width = upstream.shape()[1];
  const std::vector<std::uint32_t> bag_of = bag_of_places(layout);
  const auto row = [&](std::size_t place) { return upstream.data() + bag_of[place] * width; };
  const auto weight = [&](std::size_t place) {
    return weights == nullptr ? nullptr : weights + place;
  };
  return sum_groups(
      RowGroups(layout.ids.storage(), layout.padding), width, mean,
      [&](real* to, std::size_t place) { set_row(width, to, row(place), weight(place)); },
      [&](real* to, std::size_t place) { add_row(width, to, row(place), weight(place)); });
}

Tensor bag_weights_backward(const BagLayout& layout, const Tensor& upstream, const Tensor& rows,
                            const Shape& shape) {
  const std::size_t width = upstream.shape()[1];
  Tensor gradient = zeros(shape);
  for_bags(layout, width, [&](std::size_t bag) {
    for_places(layout, bag, [&](std::size_t place) {
      gradient.data()[place] = sum_span(width, std::multiplies<>(), upstream.data() + bag * width,
                                        rows.data() + place * width);
    });
  });
  return gradient;
}

Tensor max_bags(const BagLayout& layout, const Tensor& rows, Winners& winners) {
  const std::size_t width = rows.shape().back();
  Tensor largest = zeros({layout.bags(), width});
  winners.assign(layout.bags() * width, kNobody);
  for_bags(layout, width, [&](std::size_t bag) {
    real* to = largest.data() + bag * width;
    std::uint32_t* winner = winners.data() + bag * width;
    bool first = true;
    for_places(layout, bag, [&](std::size_t place) {
      const real* row = rows.data() + place * width;
      for (std::size_t column = 0; column < width; ++column) {
        if (!first && (row[column] <= to[column] || std::isnan(to[column]))) continue;
        to[column] = row[column];
        winner[column] = static_cast<std::uint32_t>(place);
      }
      first = false;
    });
  });
  return largest;
}

MergedRows max_bags_backward(const BagLayout& layout, const Tensor& upstream,
                             const Winners& winners) {
  constexpr std::int32_t kLoser = -1;  // not a row of any table
  const std::size_t width = upstream.shape()[1];
  std::vector<std::int32_t> ids(layout.ids.size(), kLoser);
  for (const std::uint32_t place : winners)
    if (place != kNobody) ids[place] = layout.ids.data()[place];
  const std::vector<std::uint32_t> bag_of = bag_of_places(layout);
  const auto add = [&](real* to, std::size_t place) {
    const std::uint32_t* winner = winners.data() + bag_of[place] * width;
    const real* row = upstream.data() + bag_of[place] * width;
    for (std::size_t column = 0; column < width; ++column)
      to[column] += winner[column] == place ? row[column] : real{0};
  };
  const auto set = [&](real* to, std::size_t place) {
    std::fill_n(to, width, real{0});
    add(to, place);
  };
  return sum_groups(RowGroups(ids, kLoser), width, false, set, add);
}

}  // namespace rowgrad::kernels
