#include <algorithm>
#include <cmath>
#include <vector>

#include <rowgrad/core/kernels/bags.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

void check_rows(std::string_view caller, const Variable& table, const Ids& ids) {
  kernels::check_table(caller, table.shape());
  kernels::check_ids(caller, ids.storage(), ids.shape(), table.shape()[0]);
}

Shape shape_of_rows(const Variable& table, const Ids& ids) {
  Shape shape = ids.shape();
  shape.push_back(table.shape()[1]);
  return shape;
}

void check_added_shape(std::string_view caller, const Shape& rows, const Shape& added) {
  check_argument(!added.empty() && added.size() <= rows.size() &&
                     std::equal(added.rbegin(), added.rend(), rows.rbegin()),
                 caller, ": what is added has shape ", bracketed(added),
                 ", expected the last axes of ", bracketed(rows));
}

// The rows of ids that have been checked, plus `added` unless it is null.
Tensor gathered(const Variable& table, const Ids& ids, const Tensor* added) {
  const std::size_t width = table.shape()[1];
  Tensor rows;
  if (const Parameter* parameter = table.parameter()) {
    rows = parameter->gathered_rows(ids.storage(), added);
  } else {
    rows = empty({ids.size(), width});
    kernels::gather_rows(table.value().data(), width, ids.storage(), rows.data(), added);
  }
  return reshaped(std::move(rows), shape_of_rows(table, ids));
}

// Scales the rows of ids that have been checked down to max_norm, where their norm is above it.
void renormalize(std::string_view caller, const Variable& variable, const Ids& ids,
                 const EmbeddingLookup& options) {
  if (!options.max_norm) return;
  check_argument(variable.parameter() != nullptr, caller,
                 ": max_norm changes rows, so the table has to be a parameter");
  Parameter& table = *variable.parameter();
  std::vector<std::int32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Tensor rows = table.gathered_rows(distinct);
  const std::size_t width = table.shape()[1];

  std::vector<std::int32_t> too_large;
  std::vector<real> scaled;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    const std::span row(rows.data() + i * width, width);
    double length = kernels::norm(row, options.norm_type);
    if (!(length > *options.max_norm)) continue;
    if (std::isinf(length)) {  // in units of the largest value, it may be finite
      const double unit = kernels::largest_magnitude(row);
      if (std::isfinite(unit))
        for (real& value : row) value = static_cast<real>(value / unit);
      length = kernels::norm(row, options.norm_type);
    }
    const double factor = *options.max_norm / (length + 1e-7);  // as a `real` it could be 0
    too_large.push_back(distinct[i]);
    for (const real value : row) scaled.push_back(static_cast<real>(value * factor));
  }
  if (too_large.empty()) return;
  check_state(!variable.tape().has_read(table), caller, ": max_norm has to change ", table.name(),
              ", which was read as a whole on this tape before");
  Tensor values = empty({too_large.size(), width});
  std::copy(scaled.begin(), scaled.end(), values.data());
  table.assign_rows(too_large, values);
}

Gradient of_table(Backward& node, kernels::MergedRows merged, bool dense) {
  RowGradient rows(node.input_shape(0), std::move(merged.indices), std::move(merged.values));
  if (dense) return rows.to_dense();
  return rows;
}

Variable lookup(OpName op, const Variable& table, const Ids& ids, const Variable* added,
                const EmbeddingLookup& options) {
  check_rows(op, table, ids);
  check_lookup(op, options, table.shape()[0]);
  check_argument(options.mode == BagMode::kMean && !options.include_last_offset,
                 std::string_view(op),
                 ": mode and include_last_offset are options of embedding_bag");
  if (added != nullptr) check_added(op, table, ids, *added);
  renormalize(op, table, ids, options);
  Tensor rows = gathered(table, ids, added != nullptr ? &added->value() : nullptr);

  std::vector<Variable> inputs{table};
  if (added != nullptr) inputs.push_back(*added);
  return record(op, inputs, std::move(rows),
                [ids, padding = padding_row(op, options.padding_idx, table.shape()[0]),
                 mean = options.scale_grad_by_freq, dense = options.dense_gradient,
                 adds = added != nullptr](Backward& node) {
                  if (adds && node.needs(1))
                    node.give(1, kernels::sum_to(node.gradient(), node.input_shape(1)));
                  if (!node.needs(0)) return;
                  const std::span<const std::int32_t> all = ids.storage();
                  kernels::MergedRows merged;
                  if (!padding && kernels::strictly_increasing(all)) {  // no id is repeated
                    merged = {{all.begin(), all.end()},
                              reshaped(node.take_gradient(), {all.size(), node.input_shape(0)[1]})};
                  } else {
                    merged = kernels::merge_rows(all, node.gradient(), padding, mean);
                  }
                  node.give(0, of_table(node, std::move(merged), dense));
                });
}

constexpr char kBag[] = "embedding_bag";

const char* name(BagMode mode) {
  return mode == BagMode::kSum ? "sum" : mode == BagMode::kMean ? "mean" : "max";
}

// The start of each bag, and the end of the last one.
std::vector<std::size_t> starts_of(const Bags& bags, bool include_last_offset) {
  const auto& shape = bags.ids.shape();
  std::vector<std::size_t> starts;
  if (!bags.offsets) {
    check_argument(shape.size() == 2, kBag, ": ids have shape ", bracketed(shape),
                   ", expected [bags, length], or [count] with offsets");
    check_argument(!include_last_offset, kBag,
                   ": include_last_offset is set, but no offsets were given");
    for (std::size_t bag = 0; bag <= shape[0]; ++bag) starts.push_back(bag * shape[1]);
    return starts;
  }
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

// Checks everything. Returns starts_of the bags.
std::vector<std::size_t> checked_starts(const Variable& table, const Bags& bags,
                                        const EmbeddingLookup& options) {
  kernels::check_table(kBag, table.shape());
  check_lookup(kBag, options, table.shape()[0]);
  auto starts = starts_of(bags, options.include_last_offset);
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
  check_rows(kBag, table, bags.ids);
  return starts;
}

}  // namespace

Tensor look_up(std::string_view caller, const Variable& table, const Ids& ids,
               const Tensor* added) {
  check_rows(caller, table, ids);
  if (added != nullptr) check_added_shape(caller, shape_of_rows(table, ids), added->shape());
  return gathered(table, ids, added);
}

void check_added(std::string_view caller, const Variable& table, const Ids& ids,
                 const Variable& added) {
  check_added_shape(caller, shape_of_rows(table, ids), added.shape());
  check_state(&added.tape() == &table.tape(), caller, ": what is added belongs to another tape");
}

std::optional<std::int32_t> padding_row(std::string_view caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows) {
  if (!padding) return std::nullopt;
  const auto count = static_cast<std::int64_t>(rows);
  const std::int64_t row = *padding < 0 ? *padding + count : *padding;
  check_argument(row >= 0 && row < count, caller, ": padding id ", *padding,
                 " is outside the table's ", rows, " rows");
  return static_cast<std::int32_t>(row);
}

void check_lookup(std::string_view caller, const EmbeddingLookup& options, std::size_t rows) {
  check_argument(options.mode != BagMode::kMax || !options.scale_grad_by_freq, caller,
                 ": scale_grad_by_freq is set with mode max, expected mode sum or mean");
  padding_row(caller, options.padding_idx, rows);
  const auto& max_norm = options.max_norm;
  check_argument(!max_norm || (std::isfinite(*max_norm) && *max_norm > 0), caller, ": max_norm is ",
                 max_norm.value_or(0), ", expected a finite number above 0");
  check_argument(options.norm_type == 1 || options.norm_type == 2 || options.norm_type == HUGE_VAL,
                 caller, ": norm_type is ", options.norm_type, ", expected 1, 2 or infinity");
}

Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options) {
  return lookup("embedding", table, ids, nullptr, options);
}

Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options) {
  return lookup("embedding_add", table, ids, &added, options);
}

Variable embedding_bag(const Variable& table, Bags bags, const EmbeddingLookup& options) {
  auto starts = checked_starts(table, bags, options);
  kernels::BagLayout layout{std::move(bags.ids), std::move(starts),
                            padding_row(kBag, options.padding_idx, table.shape()[0])};
  renormalize(kBag, table, layout.ids, options);
  const auto& weights = bags.per_sample_weights;
  Tensor rows = gathered(table, layout.ids, nullptr);
  kernels::ArgMax argmax;
  Tensor value = options.mode == BagMode::kMax
                     ? kernels::max_bags(layout, rows, argmax)
                     : kernels::sum_bags(layout, rows, weights ? weights->value().data() : nullptr);
  if (options.mode == BagMode::kMean) kernels::divide_by_counts(layout, value);

  std::vector<Variable> inputs{table};
  if (weights) inputs.push_back(*weights);
  // The gradient of the weights needs the rows as they were read here, even if they change later.
  if (!weights || !weights->needs_gradient()) rows = Tensor();
  return record(
      kBag, inputs, std::move(value),
      [layout = std::move(layout), rows = std::move(rows), argmax = std::move(argmax), options,
       weighted = weights.has_value()](Backward& node) {
        Tensor upstream = node.take_gradient();
        if (options.mode == BagMode::kMean) kernels::divide_by_counts(layout, upstream);
        if (weighted && node.needs(1))
          node.give(1, kernels::bag_weights_backward(layout, upstream, rows, node.input_shape(1)));
        if (!node.needs(0)) return;
        const real* factors = weighted ? node.input(1).data() : nullptr;
        auto merged =
            options.mode == BagMode::kMax
                ? kernels::max_bags_backward(layout, upstream, argmax)
                : kernels::sum_bags_backward(layout, upstream, factors, options.scale_grad_by_freq);
        node.give(0, of_table(node, std::move(merged), options.dense_gradient));
      });
}

}  // namespace rowgrad
