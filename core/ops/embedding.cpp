#include <algorithm>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

std::span<const std::int32_t> as_span(const Ids& ids) { return {ids.data(), ids.size()}; }

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

Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options) {
  check_argument(table.shape().size() == 2, "embedding: the table has shape ",
                 bracketed(table.shape()), ", expected [rows, width]");
  const auto padding = padding_row("embedding", options.padding, table.shape()[0]);
  check_ids("embedding", ids, table.shape()[0]);

  return record("embedding", {table}, table.rows(ids), [ids, padding, options](Backward& node) {
    kernels::MergedRows merged = kernels::merge_rows(as_span(ids), node.take_gradient(), padding,
                                                     options.scale_grad_by_freq);
    RowGradient rows(node.input_shape(0), std::move(merged.numbers), std::move(merged.values));
    if (options.dense_gradient) {
      node.give(0, rows.to_dense());
    } else {
      node.give(0, std::move(rows));
    }
  });
}

}  // namespace rowgrad
