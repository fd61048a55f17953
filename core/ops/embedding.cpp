#include <algorithm>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {
namespace {

std::span<const std::int32_t> as_span(const Ids& ids) { return {ids.data(), ids.size()}; }

void check_ids(const Ids& ids, std::size_t rows, std::optional<std::int32_t> padding) {
  const auto inside = [rows](std::int32_t id) {
    return id >= 0 && static_cast<std::size_t>(id) < rows;
  };
  check_argument(!padding || inside(*padding), "embedding: padding id ", padding.value_or(0),
                 " is outside the table's ", rows, " rows");
  const auto all = as_span(ids);
  const auto wrong = std::find_if_not(all.begin(), all.end(), inside);
  if (wrong == all.end()) return;
  check_argument(false, "embedding: id ", *wrong, " at ",
                 bracketed(index_at(ids.shape(), static_cast<std::size_t>(wrong - all.begin()))),
                 " is outside the table's ", rows, " rows");
}

}  // namespace

Variable embedding(const Variable& table, const Ids& ids, const EmbeddingLookup& options) {
  check_argument(table.shape().size() == 2, "embedding: the table has shape ",
                 bracketed(table.shape()), ", expected [rows, width]");
  check_ids(ids, table.shape()[0], options.padding);

  return record("embedding", {table}, table.rows(ids), [ids, options](Backward& node) {
    kernels::MergedRows merged = kernels::merge_rows(as_span(ids), node.take_gradient(),
                                                     options.padding, options.scale_grad_by_freq);
    RowGradient rows(node.input_shape(0), std::move(merged.numbers), std::move(merged.values));
    if (options.dense_gradient) {
      node.give(0, rows.to_dense());
    } else {
      node.give(0, std::move(rows));
    }
  });
}

}  // namespace rowgrad
