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

// The row of the padding id.
std::optional<std::int32_t> check_lookup(const char* caller, const Variable& table, const Ids& ids,
                                         const EmbeddingLookup& options) {
  check_argument(table.shape().size() == 2, caller, ": the table has shape ",
                 bracketed(table.shape()), ", expected [rows, width]");
  const auto padding = padding_row(caller, options.padding, table.shape()[0]);
  check_ids(caller, ids, table.shape()[0]);
  return padding;
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

void check_ids(const char* caller, const Ids& ids, std::size_t rows) {
  const auto all = as_span(ids);
  const auto wrong = std::find_if_not(all.begin(), all.end(), [rows](std::int32_t id) {
    return id >= 0 && static_cast<std::size_t>(id) < rows;
  });
  if (wrong == all.end()) return;
  check_argument(false, caller, ": id ", *wrong, " at ",
                 bracketed(index_at(ids.shape(), static_cast<std::size_t>(wrong - all.begin()))),
                 " is outside the table's ", rows, " rows");
}

void check_added(const char* caller, const Shape& rows, const Shape& added) {
  check_argument(!added.empty() && added.size() <= rows.size() &&
                     std::equal(added.rbegin(), added.rend(), rows.rbegin()),
                 caller, ": what is added has shape ", bracketed(added),
                 ", expected the last axes of ", bracketed(rows));
}

Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options) {
  const auto padding = check_lookup("embedding", table, ids, options);
  return record("embedding", {table}, table.rows(ids), [ids, padding, options](Backward& node) {
    node.give(0, table_gradient(node, ids, padding, options));
  });
}

Variable embedding_add(const Variable& table, const Ids& ids, const Variable& added,
                       const EmbeddingLookup& options) {
  const auto padding = check_lookup("embedding_add", table, ids, options);
  Shape shape(ids.shape().begin(), ids.shape().end());
  shape.push_back(table.shape()[1]);
  check_added("embedding_add", shape, added.shape());
  return record("embedding_add", {table, added}, table.rows(ids, &added.value()),
                [ids, padding, options](Backward& node) {
                  if (node.needs(1)) node.give(1, node.gradient_summed_to(node.input_shape(1)));
                  if (node.needs(0)) node.give(0, table_gradient(node, ids, padding, options));
                });
}

}  // namespace rowgrad
