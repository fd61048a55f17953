#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

// The ids of each bag: bag b has ids[i] for starts[b] ≤ i < starts[b + 1], except padding.
struct BagLayout {
  Ids ids;
  std::vector<std::size_t> starts;  // [bags + 1]; the last start is the number of ids
  std::optional<std::int32_t> padding;

  std::size_t bags() const { return starts.size() - 1; }

  // Returns the number of bags in a task for one thread.
  std::size_t grain(std::size_t width) const {
    const std::size_t rows_a_bag = 1 + ids.size() / std::max<std::size_t>(bags(), 1);
    return kernels::row_grain(width * rows_a_bag);
  }

  // Calls body(bag) for each bag, in parallel.
  void for_each_bag(std::size_t width, const auto& body) const {
    kernels::parallel_for(bags(), grain(width), [&](std::size_t begin, std::size_t end) {
      for (std::size_t bag = begin; bag < end; ++bag) body(bag);
    });
  }

  // Calls body(i) for the index i of each id of a bag, except padding.
  void for_each_id(std::size_t bag, const auto& body) const {
    for (std::size_t i = starts[bag]; i < starts[bag + 1]; ++i)
      if (ids.data()[i] != padding) body(i);
  }
};

// Divides the row of each bag in `values` [bags, width] by the number of ids in the bag that are
// not padding. Does not change the rows of empty bags.
void divide_by_counts(const BagLayout& layout, Tensor& values) {
  const std::size_t width = values.shape()[1];
  layout.for_each_bag(width, [&](std::size_t bag) {
    std::size_t count = 0;
    layout.for_each_id(bag, [&](std::size_t) { ++count; });
    if (count < 2) return;
    const Simd divisor(static_cast<real>(count));
    real* row = values.data() + bag * width;
    kernels::map_span(
        width, row, [&](const Simd& x) { return x / divisor; }, row);
  });
}

// Returns the sum of each bag's rows. Multiplies each row by its weight unless `weights` is null.
Tensor sum_bags(const BagLayout& layout, const Tensor& rows, const real* weights) {
  const std::size_t width = rows.shape().back();
  const std::size_t grain = layout.grain(width);
  const std::size_t memory_size = kernels::halvings(layout.ids.size()) * width;
  Tensor memory = empty({range_count(layout.bags(), grain), memory_size});
  Tensor sums = empty({layout.bags(), width});
  const auto sum_few = [&](std::size_t first, std::size_t last, real* to) {
    std::fill_n(to, width, real{0});
    for (std::size_t i = first; i < last; ++i) {
      if (layout.ids.data()[i] == layout.padding) continue;
      const Simd weight(weights == nullptr ? real{1} : weights[i]);
      kernels::map_span(
          width, to, [&](const Simd& a, const Simd& b) { return fma(weight, b, a); }, to,
          rows.data() + i * width);
    }
  };
  kernels::parallel_for(layout.bags(), grain,
                        [&](std::size_t begin, std::size_t end, std::size_t range) {
                          for (std::size_t bag = begin; bag < end; ++bag)
                            kernels::sum_halves(layout.starts[bag], layout.starts[bag + 1], width,
                                                sums.data() + bag * width,
                                                memory.data() + range * memory_size, sum_few);
                        });
  return sums;
}

Tensor weights_gradient(const BagLayout& layout, const Tensor& upstream, const Tensor& rows) {
  const std::size_t width = upstream.shape()[1];
  Tensor gradient = zeros(Shape(layout.ids.shape().begin(), layout.ids.shape().end()));
  layout.for_each_bag(width, [&](std::size_t bag) {
    layout.for_each_id(bag, [&](std::size_t i) {
      gradient.data()[i] = kernels::sum_span(
          width, std::multiplies<>(), upstream.data() + bag * width, rows.data() + i * width);
    });
  });
  return gradient;
}

// The index of the first id whose row has the maximum or NaN, for each bag and column. The index is
// kNone if the bag has no ids, or only padding.
using ArgMax = std::vector<std::uint32_t, PoolAllocator<std::uint32_t>>;
constexpr std::uint32_t kNone = 0xFFFFFFFF;

// Returns the maximum of each column of each bag (zeros for empty bags), and writes `argmax`.
Tensor max_bags(const BagLayout& layout, const Tensor& rows, ArgMax& argmax) {
  const std::size_t width = rows.shape().back();
  Tensor largest = zeros({layout.bags(), width});
  argmax.assign(layout.bags() * width, kNone);
  layout.for_each_bag(width, [&](std::size_t bag) {
    real* to = largest.data() + bag * width;
    std::uint32_t* index = argmax.data() + bag * width;
    bool first = true;
    layout.for_each_id(bag, [&](std::size_t i) {
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

// Sums the gradients of each row of the table over the bags that contain the row. `upstream` [bags,
// width] has the gradient of the rows of each bag; `weights`, if not null, are factors of the rows.
// If `mean`, divides the gradient of a row by the number of times that its id occurs. If `argmax`
// is not null, only the rows with the maximum of a column get the column's gradient.
kernels::MergedRows rows_gradient(const BagLayout& layout, const Tensor& upstream,
                                  const real* weights, bool mean, const ArgMax* argmax) {
  const std::size_t width = upstream.shape()[1];
  std::vector<std::uint32_t> bag_of(layout.ids.size());  // bag of each id
  for (std::size_t bag = 0; bag < layout.bags(); ++bag)
    std::fill(bag_of.data() + layout.starts[bag], bag_of.data() + layout.starts[bag + 1],
              static_cast<std::uint32_t>(bag));
  const auto row = [&](std::size_t i) { return upstream.data() + bag_of[i] * width; };
  if (argmax == nullptr)
    return kernels::sum_groups(kernels::RowGroups(layout.ids.storage(), layout.padding), width,
                               mean, row, [&](const Simd& x, std::size_t i) {
                                 return weights == nullptr ? x : Simd(weights[i]) * x;
                               });
  constexpr std::int32_t kUnused = -1;  // not a row of any table
  std::vector<std::int32_t> ids(layout.ids.size(), kUnused);
  for (const std::uint32_t i : *argmax)
    if (i != kNone) ids[i] = layout.ids.data()[i];
  const auto sum_few = [&](const kernels::RowPositions& positions, real* to) {
    std::fill_n(to, width, real{0});
    for (std::size_t k = 0; k < positions.size(); ++k) {
      const auto i = static_cast<std::uint32_t>(positions[k]);
      const std::uint32_t* index = argmax->data() + bag_of[i] * width;
      const real* from = row(i);
      for (std::size_t column = 0; column < width; ++column)
        to[column] += index[column] == i ? from[column] : real{0};
    }
  };
  return kernels::make_rows(kernels::RowGroups(ids, kUnused), width, false, row, sum_few);
}

constexpr char kBag[] = "embedding_bag";

const char* name(BagMode mode) {
  return mode == BagMode::kSum ? "sum" : mode == BagMode::kMean ? "mean" : "max";
}

// Returns the start of each bag, and the end of the last bag.
std::vector<std::size_t> starts_of(const Bags& bags, bool include_last_offset) {
  const auto& shape = bags.ids.shape();
  if (bags.offsets) return bag_starts(kBag, bags.ids, *bags.offsets, include_last_offset);
  check_argument(shape.size() == 2, kBag, ": ids have shape ", bracketed(shape),
                 ", expected [bags, length], or [count] with offsets");
  check_argument(!include_last_offset, kBag,
                 ": include_last_offset is set, but no offsets were given");
  std::vector<std::size_t> starts;
  for (std::size_t bag = 0; bag <= shape[0]; ++bag) starts.push_back(bag * shape[1]);
  return starts;
}

void check_sample_weights(const Variable& table, const Bags& bags, BagMode mode) {
  if (!bags.per_sample_weights) return;
  check_argument(mode == BagMode::kSum, kBag, ": per_sample_weights are set with mode ", name(mode),
                 ", expected mode sum");
  const Shape& weights = bags.per_sample_weights->shape();
  check_argument(
      std::equal(weights.begin(), weights.end(), bags.ids.shape().begin(), bags.ids.shape().end()),
      kBag, ": per_sample_weights have shape ", bracketed(weights), ", expected ",
      bracketed(bags.ids.shape()), ", the shape of the ids");
  check_state(&bags.per_sample_weights->tape() == &table.tape(), kBag,
              ": per_sample_weights belong to another tape");
}

}  // namespace

std::vector<std::size_t> bag_starts(std::string_view caller, const Ids& ids, const Ids& offsets,
                                    bool include_last_offset) {
  const auto& shape = ids.shape();
  std::vector<std::size_t> starts;
  check_argument(shape.size() == 1, caller, ": ids have shape ", bracketed(shape),
                 ", expected [count], since offsets were given");
  check_argument(offsets.dimension() == 1, caller, ": offsets have shape ",
                 bracketed(offsets.shape()), ", expected ",
                 include_last_offset ? "[bags + 1]" : "[bags]");
  const auto count = static_cast<std::int64_t>(shape[0]);
  check_argument(offsets.size() > 0 || (count == 0 && !include_last_offset), caller,
                 ": offsets are empty, expected at least one for ", count, " ids",
                 include_last_offset ? " and include_last_offset" : "");
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int32_t offset = offsets.data()[i];
    check_argument(i > 0 || offset == 0, caller, ": the first offset is ", offset, ", expected 0");
    check_argument(i == 0 || offset >= offsets.data()[i - 1], caller, ": offset ", offset, " at [",
                   i, "] follows ", i == 0 ? 0 : offsets.data()[i - 1],
                   ", expected offsets that do not decrease");
    check_argument(offset <= count, caller, ": offset ", offset, " at [", i,
                   "] is out of range: there are ", count, " ids");
    starts.push_back(static_cast<std::size_t>(offset));
  }
  if (!include_last_offset) {
    starts.push_back(shape[0]);
  } else {
    check_argument(starts.back() == shape[0], caller, ": the last offset is ", starts.back(),
                   ", expected ", count, ", the number of ids, since include_last_offset is set");
  }
  return starts;
}

Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingLookup& options) {
  kernels::check_table(kBag, table.shape());
  auto starts = starts_of(bags, options.include_last_offset);
  check_sample_weights(table, bags, options.mode);
  const auto& weights = bags.per_sample_weights;
  EmbeddingLookup lookup = options;
  if (bags.offsets && lookup.kind == RowKind::kToken && !lookup.tokens)
    lookup.tokens =
        Ids::from_shape({});  // a scalar means no tokens: flat ids may belong to many documents
  Tensor rows = read_rows(kBag, table, bags.ids, lookup);
  BagLayout layout{std::move(bags.ids), std::move(starts),
                   padding_row(kBag, options.padding_idx, table.shape()[0])};
  const bool is_max = options.mode == BagMode::kMax;
  ArgMax argmax;
  Tensor value = is_max ? max_bags(layout, rows, argmax)
                        : sum_bags(layout, rows, weights ? weights->read().data() : nullptr);
  if (options.mode == BagMode::kMean) divide_by_counts(layout, value);

  std::vector<Variable> inputs{table};
  if (weights) inputs.push_back(*weights);
  // The gradient of the weights needs the rows that were read here, even if the table changes.
  if (!weights || !weights->needs_gradient()) rows = Tensor();
  return record(
      kBag, inputs, std::move(value),
      [layout = std::move(layout), rows = std::move(rows), argmax = std::move(argmax), options,
       is_max, weighted = weights.has_value()](Backward& node) {
        Tensor upstream = node.take_gradient();
        if (options.mode == BagMode::kMean) divide_by_counts(layout, upstream);
        if (weighted && node.slot(1)) node.slot(1).take(weights_gradient(layout, upstream, rows));
        GradientSlot slot = node.slot(0);
        if (!slot) return;
        RowGradient gradient(
            node.input_shape(0),
            rows_gradient(layout, upstream, weighted ? node.input(1).data() : nullptr,
                          options.scale_grad_by_freq, is_max ? &argmax : nullptr));
        slot.take(options.dense_gradient ? Gradient(gradient.to_dense()) : std::move(gradient));
      });
}

}  // namespace rowgrad
