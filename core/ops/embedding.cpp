#include <algorithm>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

std::span<const std::int32_t> as_span(const Ids& ids) { return {ids.data(), ids.size()}; }

// What a lookup of `ids` passes back to its table.
Gradient table_gradient(Backward& node, const Ids& ids, std::optional<std::int32_t> padding,
                        const EmbeddingLookup& options) {
  const Shape& table = node.input_shape(0);
  const auto uniform = node.uniform_gradient();
  kernels::MergedRows merged =
      uniform ? kernels::merge_uniform_rows(as_span(ids), *uniform, table[1], padding,
                                            options.scale_grad_by_freq)
              : kernels::merge_rows(as_span(ids), node.take_gradient(), padding,
                                    options.scale_grad_by_freq);
  RowGradient rows(table, std::move(merged.numbers), std::move(merged.values));
  if (options.dense_gradient) return rows.to_dense();
  return rows;
}

// The row of the padding id. Ids are checked as their rows are read.
std::optional<std::int32_t> check_lookup(const char* caller, const Variable& table,
                                         const EmbeddingLookup& options) {
  kernels::check_table(caller, table.shape());
  return padding_row(caller, options.padding, table.shape()[0]);
}

}  // namespace

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
  constexpr const char* kOp = "embedding";
  const auto padding = check_lookup(kOp, table, options);
  return record(kOp, {table}, table.rows(ids, nullptr, kOp),
                [ids, padding, options](Backward& node) {
                  node.give(0, table_gradient(node, ids, padding, options));
                });
}

Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options) {
  constexpr const char* kOp = "embedding_add";
  const auto padding = check_lookup(kOp, table, options);
  return record(kOp, {table, added}, table.rows(ids, &added.value(), kOp),
                [ids, padding, options](Backward& node) {
                  if (node.needs(1)) node.give(1, node.gradient_summed_to(node.input_shape(1)));
                  if (node.needs(0)) node.give(0, table_gradient(node, ids, padding, options));
                });
}

}  // namespace rowgrad
