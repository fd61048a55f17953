#include <algorithm>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

// The gradient that a lookup of `ids` passes back to its table.
Gradient table_gradient(Backward& node, const Ids& ids, std::optional<std::int32_t> padding,
                        const EmbeddingLookup& options) {
  const Shape& table = node.input_shape(0);
  const std::span<const std::int32_t> all = ids.storage();
  kernels::MergedRows merged;
  if (!padding && kernels::strictly_increasing(all)) {  // no id is repeated
    merged = {{all.begin(), all.end()}, reshaped(node.take_gradient(), {all.size(), table[1]})};
  } else {
    merged = kernels::merge_rows(all, node.gradient(), padding, options.scale_grad_by_freq);
  }
  RowGradient rows(table, std::move(merged.indices), std::move(merged.values));
  if (options.dense_gradient) return rows.to_dense();
  return rows;
}

}  // namespace

void check_added(std::string_view caller, const Shape& rows, const Shape& added) {
  check_argument(!added.empty() && added.size() <= rows.size() &&
                     std::equal(added.rbegin(), added.rend(), rows.rbegin()),
                 caller, ": what is added has shape ", bracketed(added),
                 ", expected the last axes of ", bracketed(rows));
}

Tensor look_up(std::string_view caller, const Variable& table, const Ids& ids,
               const Tensor* added) {
  kernels::check_table(caller, table.shape());
  Shape shape = ids.shape();
  kernels::check_ids(caller, ids.storage(), shape, table.shape()[0]);
  shape.push_back(table.shape()[1]);
  if (added != nullptr) check_added(caller, shape, added->shape());
  Tensor rows;
  if (const Parameter* parameter = table.parameter()) {
    rows = parameter->checked_rows(ids.storage(), added);
  } else {
    rows = empty({ids.size(), shape.back()});
    kernels::gather_rows(table.value().data(), shape.back(), ids.storage(), rows.data(), added);
  }
  return reshaped(std::move(rows), shape);
}

std::optional<std::int32_t> padding_row(const char* caller,
                                        const std::optional<std::int32_t>& padding,
                                        std::size_t rows) {
  if (!padding) return std::nullopt;
  const auto count = static_cast<std::int64_t>(rows);
  const std::int64_t row = *padding < 0 ? *padding + count : *padding;
  check_argument(row >= 0 && row < count, caller, ": padding id ", *padding,
                 " is outside the table's ", rows, " rows");
  return static_cast<std::int32_t>(row);
}

Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options) {
  static constexpr char kOp[] = "embedding";
  Tensor rows = look_up(kOp, table, ids);
  const auto padding = padding_row(kOp, options.padding_idx, table.shape()[0]);
  return record(kOp, {table}, std::move(rows), [ids, padding, options](Backward& node) {
    node.give(0, table_gradient(node, ids, padding, options));
  });
}

Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options) {
  static constexpr char kOp[] = "embedding_add";
  Tensor rows = look_up(kOp, table, ids, &added.value());
  const auto padding = padding_row(kOp, options.padding_idx, table.shape()[0]);
  return record(kOp, {table, added}, std::move(rows), [ids, padding, options](Backward& node) {
    if (node.needs(1)) node.give(1, kernels::sum_to(node.gradient(), node.input_shape(1)));
    if (node.needs(0)) node.give(0, table_gradient(node, ids, padding, options));
  });
}

}  // namespace rowgrad
