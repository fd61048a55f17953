#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>
#include <rowgrad/optim/callbacks/table_records.hpp>

namespace rowgrad {
namespace {

// Maximum number of rows in a record, unless more rows are new. At the end of a run, the maximum
// applies only to n-gram tables and to reasons.
constexpr std::size_t kMaxRows = 2000;
constexpr std::size_t kMaxReasons = 100;  // rows with reasons in a record during the run
constexpr std::size_t kMaxLabels = std::size_t{1} << 18;  // rows of a table whose record has labels

// Returns [row, path, [step, lookups, gradient norm, moved, position, ids of the text], …].
Json reason_json(std::int32_t row, double path, const std::vector<TableHistory::Step>& steps) {
  Json reason = Json::array();
  reason.push_back(row);
  reason.push_back(rounded(path));
  for (const TableHistory::Step& step : steps) {
    Json one = Json::array();
    one.push_back(step.step);
    one.push_back(step.lookups);
    one.push_back(rounded(step.gradient_norm));
    one.push_back(rounded(step.moved));
    if (!step.text.empty()) one.push_back(step.place);
    if (!step.text.empty()) one.push_back(std::vector(step.text.begin(), step.text.end()));
    reason.push_back(std::move(one));
  }
  return reason;
}

// Returns up to `most` indices with the largest values, in descending order.
std::vector<std::size_t> largest(std::vector<std::size_t> indices, std::size_t most,
                                 const auto& value_of) {
  const auto end = indices.begin() + static_cast<std::ptrdiff_t>(std::min(indices.size(), most));
  std::partial_sort(indices.begin(), end, indices.end(), [&](std::size_t a, std::size_t b) {
    const double of_a = value_of(a), of_b = value_of(b);
    return of_a > of_b || (of_a == of_b && a < b);
  });
  indices.erase(end, indices.end());
  return indices;
}

std::vector<std::size_t> all_indices(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Json table_record(const TableHistory& table) {
  const Shape& shape = table.table().shape();
  Json record{{"table", table.table().name()},
              {"kind", table.noun()},
              {"rows", shape[0]},
              {"width", shape[1]}};
  if (table.kind() == RowKind::kToken) record["tokens"] = true;
  if (table.ngrams() != nullptr) record["ngrams"] = true;
  if (!table.labels().empty() && shape[0] <= kMaxLabels) record["labels"] = table.labels();
  return record;
}

std::vector<std::size_t> places_to_write(const TableHistory& table, const WrittenSteps& written,
                                         bool whole) {
  const bool has_ngrams = table.ngrams() != nullptr;
  const auto steps_before = [&](std::size_t index) {
    return index < written.size() ? written[index] : 0;
  };
  const auto steps = [&](std::size_t index) {
    return static_cast<std::int64_t>(table.row(index).steps);
  };
  const auto is_new = [&](std::size_t index) { return steps_before(index) == 0; };
  std::vector<std::size_t> indices = all_indices(table.ids().size());
  if (!whole) {
    std::erase_if(indices, [&](std::size_t index) { return steps(index) == steps_before(index); });
    const auto news = static_cast<std::size_t>(std::ranges::count_if(indices, is_new));
    indices =
        largest(indices, has_ngrams ? kMaxRows : std::max(kMaxRows, news), [&](std::size_t at) {
          return is_new(at) ? std::numeric_limits<double>::infinity()
                            : static_cast<double>(steps(at) - steps_before(at));
        });
  } else if (has_ngrams && indices.size() > kMaxRows) {
    const std::vector<double> moved = table.moved();
    indices = largest(indices, kMaxRows, [&](std::size_t index) { return moved[index]; });
  }
  std::ranges::sort(indices, {}, [&](std::size_t index) { return table.ids()[index]; });
  return indices;
}

Json rows_record(const TableHistory& table, std::span<const std::size_t> indices,
                 const RowsRecordOptions& options) {
  using Row = TableHistory::Row;
  const TableHistory::Frame frame = table.now(options.step, indices);
  const auto counts = [&](std::uint64_t Row::*count) {
    std::vector<std::uint64_t> all;
    for (const Row& row : frame.rows) all.push_back(row.*count);
    return pack_counts(all);
  };
  const auto numbers = [&](double Row::*number) {
    std::vector<double> all;
    for (const Row& row : frame.rows) all.push_back(row.*number);
    return pack_numbers(all);
  };
  std::vector<std::uint64_t> distances;  // between successive ids
  std::vector<double> norms;
  std::uint64_t before = 0;
  for (const std::size_t index : indices) {
    const auto id = static_cast<std::uint64_t>(table.ids()[index]);
    distances.push_back(id - std::exchange(before, id));
    norms.push_back(std::sqrt(table.row(index).squares));
  }
  Json data{{"table", table.table().name()},     {"touched", table.touched()},
            {"followed", table.ids().size()},    {"rows", pack_counts(distances)},
            {"lookups", counts(&Row::lookups)},  {"steps", counts(&Row::steps)},
            {"last", counts(&Row::last)},        {"norm", pack_numbers(norms)},
            {"moved", pack_numbers(frame.moved)}};
  if (options.whole) data["whole"] = true;
  if (table.is_dense()) data["dense"] = true;
  const auto add_numbers = [&](const char* column, double Row::*number) {
    if (std::ranges::any_of(frame.rows, [&](const Row& row) { return row.*number != 0; }))
      data[column] = numbers(number);
  };
  // Long records omit these columns until the end of the run.
  if (!table.is_dense() && (options.whole || indices.size() <= kMaxRows)) {
    add_numbers("momentum", &Row::momentum);
    add_numbers("decay", &Row::decay);
  }
  if (table.has_unknown_decay()) data["coupled_decay"] = true;
  if (const auto kept = table.kept_without_gradient()) data["decayed"] = rounded(*kept);
  if (table.ngrams() != nullptr
          ? options.whole
          : !table.labels().empty() && table.table().shape()[0] > kMaxLabels) {
    const RowLabels labels(table, options.tokenizer);
    for (const std::size_t index : indices)
      data["labels"].push_back(shown_bytes(labels.of(table.ids()[index])));
  }
  std::size_t left = options.whole ? kMaxRows : kMaxReasons;
  for (const std::size_t i : largest(all_indices(indices.size()), indices.size(),
                                     [&](std::size_t one) { return frame.moved[one]; })) {
    const std::vector<TableHistory::Step> kept = table.steps(indices[i]);
    const auto is_recent = [&](const auto& one) { return one.step > options.since; };
    if (!options.whole && std::ranges::none_of(kept, is_recent)) continue;
    data["reasons"].push_back(reason_json(table.ids()[indices[i]], frame.rows[i].path, kept));
    if (--left == 0) break;
  }
  return data;
}

}  // namespace rowgrad
