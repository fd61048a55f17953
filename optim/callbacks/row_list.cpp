#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include <rowgrad/optim/callbacks/row_list.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kRowsPerList = 4096;  // rows to read at a time
constexpr double kHardly = 0.1;             // fraction of the median distance

std::vector<std::int32_t> listed(const TableHistory& history) {
  std::vector<std::int32_t> ids = history.ids();
  const std::size_t rows = history.table().shape()[0];
  if (rows <= TableHistory::kMaxRows) {
    ids.resize(rows);
    std::iota(ids.begin(), ids.end(), 0);
  }
  std::ranges::sort(ids);
  return ids;
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return 0;
  const auto middle = numbers.begin() + static_cast<std::ptrdiff_t>(numbers.size() / 2);
  std::ranges::nth_element(numbers, middle);
  return *middle;
}

void mark_learned(std::vector<ListedRow>& rows) {
  const auto looked_up = [](const ListedRow& row) { return row.lookups > 0; };
  std::vector<double> distances;
  for (const ListedRow& row : rows)
    if (looked_up(row) && !std::isnan(row.moved)) distances.push_back(row.moved);
  const double least = kHardly * median(std::move(distances));
  for (ListedRow& row : rows)
    row.learned = !looked_up(row)     ? Learned::kNo
                  : row.moved > least ? Learned::kYes
                                      : Learned::kHardly;
}

}  // namespace

const char* name_of(Learned learned) {
  constexpr std::array<const char*, 3> kNames{"no", "hardly", "yes"};
  return kNames.at(static_cast<std::size_t>(learned));
}

std::vector<ListedRow> list_rows(const TableHistory& history) {
  const std::size_t width = history.table().shape()[1];
  const std::vector<double> moved = history.moved();
  const std::vector<std::int32_t> ids = listed(history);
  std::vector<ListedRow> rows;
  for (std::size_t begin = 0; begin < ids.size(); begin += kRowsPerList) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kRowsPerList, ids.size() - begin));
    const std::vector<std::int32_t> some(first, first + count);
    const Tensor values = history.values(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::span<const real> value(values.data() + i * width, width);
      ListedRow& row = rows.emplace_back(ListedRow{.id = some[i]});
      for (const real x : value) row.norm += static_cast<double>(x) * static_cast<double>(x);
      row.norm = std::sqrt(row.norm);
      if (const auto index = history.index_of(row.id)) {
        const TableHistory::Row& statistics = history.row(*index);
        row.lookups = statistics.lookups;
        row.steps = statistics.steps;
        row.gradient_norm = std::sqrt(statistics.squares);
        row.moved = moved[*index];
      } else {
        row.moved = history.moved_untracked(row.id, value);
      }
    }
  }
  mark_learned(rows);
  return rows;
}

std::string token_label(const Tokenizer* tokenizer, std::int32_t id) {
  const bool is_known =
      tokenizer != nullptr && id >= 0 && static_cast<std::size_t>(id) < tokenizer->size();
  return is_known ? tokenizer->token(id) : std::to_string(id);
}

RowLabels::RowLabels(const TableHistory& history, const Tokenizer* tokenizer)
    : history_(history), tokenizer_(tokenizer) {
  if (history.ngrams() != nullptr) ngrams_ = history.ngrams()->by_row();
}

std::span<const NgramCounts::Ngram> RowLabels::ngrams(std::int32_t id) const {
  const auto found = ngrams_.find(id);
  return found == ngrams_.end() ? std::span<const NgramCounts::Ngram>() : found->second;
}

std::string RowLabels::of(std::int32_t id) const {
  if (history_.ngrams() != nullptr) return label_of(ngrams(id), tokenizer_);
  const std::vector<std::string>& labels = history_.labels();
  if (!labels.empty()) return labels.at(static_cast<std::size_t>(id));
  return token_label(history_.kind() == RowKind::kToken ? tokenizer_ : nullptr, id);
}

}  // namespace rowgrad
