#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

Shape shape_of_rows(const Variable& table, const Ids& ids) {
  Shape shape = ids.shape();
  shape.push_back(table.shape()[1]);
  return shape;
}

void check_added_shape(std::string_view caller, const Shape& rows, const Shape& added) {
  check_argument(!added.empty() && added.size() <= rows.size() &&
                     std::equal(added.rbegin(), added.rend(), rows.rbegin()),
                 caller, ": added has shape ", bracketed(added), ", expected the last axes of ",
                 bracketed(rows));
}

void check_tokens(std::string_view caller, const Ids& ids, const Ids& tokens) {
  check_argument(tokens.dimension() <= ids.dimension() &&
                     std::equal(tokens.shape().begin(), tokens.shape().end(), ids.shape().begin()),
                 caller, ": tokens have shape ", bracketed(tokens.shape()),
                 ", expected the first axes of the ids' shape ", bracketed(ids.shape()));
}

// Scales looked-up rows whose norm exceeds max_norm down to max_norm. Requires: the ids have been
// checked.
void renormalize(std::string_view caller, const Variable& variable, const Ids& ids,
                 const EmbeddingLookup& options) {
  if (!options.max_norm) return;
  check_argument(variable.parameter() != nullptr, caller,
                 ": max_norm is set for a table that is not a parameter, expected a parameter");
  Parameter& table = *variable.parameter();
  std::vector<std::int32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Tensor rows = table.gathered_rows(distinct);
  const std::size_t width = table.shape()[1];

  // Scales a row down once, and returns true if it changed. The loop below repeats this until
  // nothing changes, so that later lookups do not scale the row again.
  const auto scale_down = [&](std::span<real> row) {
    double length = kernels::norm(row, options.norm_type);
    if (!(length > *options.max_norm)) return false;
    if (std::isinf(length)) {  // the norm relative to the largest value may be finite
      const double unit = kernels::max_abs(row);
      if (std::isfinite(unit))
        for (real& value : row) value = static_cast<real>(value / unit);
      length = kernels::norm(row, options.norm_type);
    }
    const double factor = *options.max_norm / (length + 1e-7);  // as a `real`, this could be 0
    const std::vector<real> before(row.begin(), row.end());
    for (real& value : row) value = static_cast<real>(value * factor);
    return !std::ranges::equal(row, before);
  };
  std::vector<std::int32_t> too_large;
  std::vector<real> scaled;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    const std::span row(rows.data() + i * width, width);
    if (!scale_down(row)) continue;
    while (scale_down(row)) continue;
    too_large.push_back(distinct[i]);
    scaled.insert(scaled.end(), row.begin(), row.end());
  }
  if (too_large.empty()) return;
  check_state(!variable.tape().has_read(table), caller, ": max_norm would scale rows of ",
              table.name(), ", which this tape has already read as a whole");
  Tensor values = empty({too_large.size(), width});
  std::copy(scaled.begin(), scaled.end(), values.data());
  table.assign_rows(too_large, values);
}

Variable record_lookup(OpName op, const Variable& table, const Ids& ids, const Variable* added,
                       const EmbeddingLookup& options) {
  check_argument(options.mode == BagMode::kMean && !options.include_last_offset,
                 std::string_view(op),
                 ": mode or include_last_offset is set, expected neither (use embedding_bag)");
  if (added != nullptr) check_added(op, table, ids, *added);
  const auto shared_ids = std::make_shared<const Ids>(ids);
  Tensor rows =
      read_rows(op, table, shared_ids, options, added != nullptr ? &added->read() : nullptr);

  std::vector<Variable> inputs{table};
  if (added != nullptr) inputs.push_back(*added);
  return record(op, inputs, std::move(rows),
                [shared_ids, padding = padding_row(op, options.padding_idx, table.shape()[0]),
                 mean = options.scale_grad_by_freq, dense = options.dense_gradient,
                 adds = added != nullptr](Backward& node) {
                  if (adds && node.slot(1))
                    node.slot(1).take(kernels::sum_to(node.gradient(), node.input_shape(1)));
                  if (!node.slot(0)) return;
                  const std::span<const std::int32_t> all = shared_ids->storage();
                  kernels::MergedRows merged;
                  if (!padding && kernels::strictly_increasing(all))  // no id occurs twice
                    merged = {{all.begin(), all.end()},
                              reshaped(node.take_gradient(), {all.size(), node.input_shape(0)[1]})};
                  else
                    merged = kernels::merge_rows(all, node.gradient(), padding, mean);
                  RowGradient gradient(node.input_shape(0), std::move(merged));
                  node.slot(0).take(dense ? Gradient(gradient.to_dense()) : std::move(gradient));
                });
}

}  // namespace

Tensor read_rows(std::string_view op, const Variable& table, std::shared_ptr<const Ids> shared_ids,
                 const EmbeddingLookup& options, const Tensor* added) {
  const Ids& ids = *shared_ids;
  kernels::check_table(op, table.shape());
  kernels::check_ids(op, ids.storage(), ids.shape(), table.shape()[0]);
  check_lookup(op, options, table.shape()[0]);
  const Shape shape = shape_of_rows(table, ids);
  if (added != nullptr) check_added_shape(op, shape, added->shape());
  if (options.tokens) check_tokens(op, ids, *options.tokens);
  renormalize(op, table, ids, options);
  if (Parameter* const parameter = table.parameter()) {
    auto tokens = options.tokens                    ? std::make_shared<const Ids>(*options.tokens)
                  : options.kind == RowKind::kToken ? shared_ids
                                                    : nullptr;
    if (tokens != nullptr && (tokens->dimension() == 0 || tokens->size() == 0)) tokens = nullptr;
    table.tape().record_lookup(*parameter, shared_ids, options.kind, std::move(tokens));
    return reshaped(parameter->gathered_rows(ids.storage(), added), shape);
  }
  Tensor rows = empty(shape);
  kernels::gather_rows(table.read().data(), table.shape()[1], ids.storage(), rows.data(), added);
  return rows;
}

void check_added(std::string_view caller, const Variable& table, const Ids& ids,
                 const Variable& added) {
  kernels::check_table(caller, table.shape());
  check_added_shape(caller, shape_of_rows(table, ids), added.shape());
  check_state(&added.tape() == &table.tape(), caller, ": added belongs to another tape");
}

std::optional<std::int32_t> padding_row(std::string_view caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows) {
  if (!padding) return std::nullopt;
  const auto count = static_cast<std::int64_t>(rows);
  const std::int64_t row = *padding < 0 ? *padding + count : *padding;
  check_argument(row >= 0 && row < count, caller, ": padding_idx ", *padding,
                 " is out of range: the table has ", rows, " rows");
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
  return record_lookup("embedding", table, ids, nullptr, options);
}

Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options) {
  return record_lookup("embedding_add", table, ids, &added, options);
}

}  // namespace rowgrad
