#include <algorithm>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/bags.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/embedding_bag.hpp>

namespace rowgrad {
namespace {

using kernels::BagLayout;

constexpr char kBag[] = "embedding_bag";

const char* name(BagMode mode) {
  return mode == BagMode::kSum ? "sum" : mode == BagMode::kMean ? "mean" : "max";
}

std::vector<std::size_t> starts_of_rows(const Bags& bags, bool include_last_offset) {
  const auto& shape = bags.ids.shape();
  check_argument(shape.size() == 2, kBag, ": ids have shape ", bracketed(shape),
                 ", expected [bags, length], or [count] with offsets");
  check_argument(!include_last_offset, kBag,
                 ": include_last_offset is set, but no offsets were given");
  std::vector<std::size_t> starts(shape[0] + 1);
  for (std::size_t bag = 0; bag <= shape[0]; ++bag) starts[bag] = bag * shape[1];
  return starts;
}

std::vector<std::size_t> starts_at_offsets(const Bags& bags, bool include_last_offset) {
  const auto& shape = bags.ids.shape();
  const Ids& offsets = *bags.offsets;
  check_argument(shape.size() == 1, kBag, ": ids have shape ", bracketed(shape),
                 ", expected [count], since offsets were given");
  check_argument(offsets.dimension() == 1, kBag, ": offsets have shape ",
                 bracketed(offsets.shape()), ", expected ",
                 include_last_offset ? "[bags + 1]" : "[bags]");
  const auto count = static_cast<std::int64_t>(shape[0]);
  check_argument(offsets.size() > 0 || (count == 0 && !include_last_offset), kBag,
                 ": there are no offsets, expected ",
                 include_last_offset ? "at least the last one, " : "a bag for the ids, ", count);
  std::vector<std::size_t> starts;
  starts.reserve(offsets.size() + 1);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::int32_t offset = offsets.data()[i];
    check_argument(i > 0 || offset == 0, kBag, ": offset ", offset, " at [0], expected 0");
    check_argument(i == 0 || offset >= offsets.data()[i - 1], kBag, ": offset ", offset, " at [", i,
                   "] is below the one before it, ", i == 0 ? 0 : offsets.data()[i - 1]);
    check_argument(offset <= count, kBag, ": offset ", offset, " at [", i, "] is beyond the ",
                   count, " ids");
    starts.push_back(static_cast<std::size_t>(offset));
  }
  if (!include_last_offset) {
    starts.push_back(shape[0]);
  } else {
    check_argument(starts.back() == shape[0], kBag, ": the last offset is ", starts.back(),
                   ", expected the end of the ", count, " ids, since include_last_offset is set");
  }
  return starts;
}

// Checks everything except the ids. Returns the start of each bag, and the end of the last one.
std::vector<std::size_t> checked_starts(const Variable& table, const Bags& bags,
                                        const EmbeddingBagLookup& options) {
  kernels::check_table(kBag, table.shape());
  check_bag_options(kBag, options, table.shape()[0]);
  auto starts = bags.offsets ? starts_at_offsets(bags, options.include_last_offset)
                             : starts_of_rows(bags, options.include_last_offset);
  if (bags.per_sample_weights) {
    check_argument(options.mode == BagMode::kSum, kBag,
                   ": per-sample weights were given with mode ", name(options.mode),
                   ", expected mode sum");
    const Shape& weights = bags.per_sample_weights->shape();
    check_argument(std::equal(weights.begin(), weights.end(), bags.ids.shape().begin(),
                              bags.ids.shape().end()),
                   kBag, ": per-sample weights have shape ", bracketed(weights), ", expected ",
                   bracketed(bags.ids.shape()), " of the ids");
    check_state(&bags.per_sample_weights->tape() == &table.tape(), kBag,
                ": the per-sample weights belong to another tape");
  }
  return starts;
}

void give_table(Backward& node, kernels::MergedRows merged, bool dense) {
  RowGradient rows(node.input_shape(0), std::move(merged.indices), std::move(merged.values));
  node.give(0, dense ? Gradient(rows.to_dense()) : Gradient(std::move(rows)));
}

Variable largest_of_bags(const Variable& table, BagLayout layout, bool dense) {
  kernels::Winners winners;
  Tensor largest = kernels::max_bags(layout, look_up(kBag, table, layout.ids), winners);
  return record(kBag, {table}, std::move(largest),
                [layout = std::move(layout), winners = std::move(winners), dense](Backward& node) {
                  give_table(node, kernels::max_bags_backward(layout, node.gradient(), winners),
                             dense);
                });
}

}  // namespace

void check_bag_options(const char* caller, const EmbeddingBagLookup& options, std::size_t rows) {
  check_argument(options.mode != BagMode::kMax || !options.scale_grad_by_freq, caller,
                 ": scale_grad_by_freq is set with mode max, expected mode sum or mean");
  padding_row(caller, options.padding_idx, rows);
}

void check_bags(const Variable& table, const Bags& bags, const EmbeddingBagLookup& options) {
  checked_starts(table, bags, options);
  kernels::check_ids(kBag, bags.ids.storage(), bags.ids.shape(), table.shape()[0]);
}

Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingBagLookup& options) {
  auto starts = checked_starts(table, bags, options);
  BagLayout layout{std::move(bags.ids), std::move(starts),
                   padding_row(kBag, options.padding_idx, table.shape()[0])};
  if (options.mode == BagMode::kMax)
    return largest_of_bags(table, std::move(layout), options.dense_gradient);

  const auto& weights = bags.per_sample_weights;
  const bool mean = options.mode == BagMode::kMean;
  Tensor rows = look_up(kBag, table, layout.ids);
  Tensor value = kernels::sum_bags(layout, rows, weights ? weights->value().data() : nullptr);
  if (mean) kernels::divide_by_counts(layout, value);

  std::vector<Variable> inputs{table};
  if (weights) inputs.push_back(*weights);
  // The gradient of the weights needs the rows as they were read here, even if they change later.
  if (!weights || !weights->needs_gradient()) rows = Tensor();
  return record(
      kBag, inputs, std::move(value),
      [layout = std::move(layout), rows = std::move(rows), mean, weighted = weights.has_value(),
       scale_by_freq = options.scale_grad_by_freq, dense = options.dense_gradient](Backward& node) {
        Tensor upstream = node.take_gradient();
        if (mean) kernels::divide_by_counts(layout, upstream);
        if (weighted && node.needs(1))
          node.give(1, kernels::bag_weights_backward(layout, upstream, rows, node.input_shape(1)));
        if (!node.needs(0)) return;
        const real* factors = weighted ? node.input(1).data() : nullptr;
        give_table(node, kernels::sum_bags_backward(layout, upstream, factors, scale_by_freq),
                   dense);
      });
}

}  // namespace rowgrad
