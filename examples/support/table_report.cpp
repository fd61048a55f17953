#include <algorithm>
#include <iomanip>
#include <iostream>
#include <numeric>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/examples/support/table_report.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace rowgrad {
namespace {

std::string range(std::size_t first, std::size_t last) {
  return first == last ? concat(first) : concat(first, " to ", last);
}

}  // namespace

std::vector<std::uint64_t> fingerprints(const Parameter& table) {
  constexpr std::size_t kRowsAtOnce = 4096;
  const std::size_t width = table.shape()[1];
  std::vector<std::uint64_t> all;
  std::vector<std::int32_t> ids(kRowsAtOnce);
  while (all.size() < table.shape()[0]) {
    ids.resize(std::min(kRowsAtOnce, table.shape()[0] - all.size()));
    std::iota(ids.begin(), ids.end(), static_cast<std::int32_t>(all.size()));
    const Tensor rows = table.rows(ids);
    for (std::size_t i = 0; i < ids.size(); ++i)
      all.push_back(TextHash()(
          {reinterpret_cast<const char*>(rows.data() + i * width), width * sizeof(real)}));
  }
  return all;
}

TableReport::TableReport(const TableHistory& history, const std::vector<std::uint64_t>& start,
                         const Tokenizer& tokenizer)
    : history_(history), tokenizer_(tokenizer) {
  const std::vector<double> moved = history.moved();
  const RowLabels labels(history, &tokenizer);
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const std::int32_t id = history.ids()[i];
    const std::span<const NgramCounts::Ngram> ngrams = labels.ngrams(id);
    rows_.push_back({.id = id,
                     .label = labels.of(id),
                     .ngrams = {ngrams.begin(), ngrams.end()},
                     .what = history.rows()[i],
                     .moved = moved[i]});
  }
  std::ranges::sort(rows_, {}, &Row::id);
  const std::vector<std::uint64_t> now = fingerprints(history.table());
  for (std::size_t row = 0; row < size(); ++row)
    if (!was_touched(row) && start[row] != now[row]) ++changed_without_gradient_;
  if (history.ngrams() != nullptr) add_heads(labels);
}

// Of token.weight, t5_table, and memories.0.table.weight.
std::string TableReport::name() const {
  const std::string& parameter = history_.table().name();
  return parameter.substr(
      0, std::min({parameter.find(".weight"), parameter.find("_table"), parameter.find(".table")}));
}

// The rows without a gradient: "28 to 31".
std::string TableReport::untouched_rows() const {
  std::string text;
  for (std::size_t first = 0, next = 0; first < size(); first = next + 1) {
    for (next = first; next < size() && !was_touched(next);) ++next;
    if (next > first) text += (text.empty() ? "" : ", ") + range(first, next - 1);
  }
  return text;
}

void TableReport::add_heads(const RowLabels& labels) {
  const NgramHash& hash = history_.ngrams()->hash();
  std::size_t row = 0;
  for (const std::size_t size : hash.sizes()) {
    const std::size_t lookup = heads_.size();
    Head& head = heads_.emplace_back(Head{.order = hash.orders()[lookup / hash.heads()],
                                          .head = lookup % hash.heads(),
                                          .rows = size});
    for (const std::size_t end = row + size; row < end; ++row) {
      head.touched += was_touched(row) ? 1 : 0;
      const std::size_t ngrams = labels.ngrams(static_cast<std::int32_t>(row)).size();
      head.ngrams += ngrams;
      head.sharing += ngrams > 1 ? ngrams : 0;
      head.shared += ngrams > 1 ? 1 : 0;
      head.most = std::max(head.most, ngrams);
    }
  }
}

// Its label, in quotes where that is a text of its own.
std::string TableReport::shown(const Row& row) const {
  const bool is_text = history_.kind() == "token" || !row.ngrams.empty();
  return is_text ? readable_token(row.label) : row.label;
}

void TableReport::print_heads() const {
  std::cout
      << "  tokens  head      rows   touched   n-grams  of them sharing   shared rows  most in "
         "one\n";
  for (const Head& head : heads_)
    std::cout << std::setw(8) << head.order << std::setw(6) << head.head << std::setw(10)
              << head.rows << std::setw(10) << head.touched << std::setw(10) << head.ngrams
              << std::setw(17) << head.sharing << std::setw(14) << head.shared << std::setw(13)
              << head.most << '\n';
  if (const std::uint64_t others = history_.ngrams()->not_told_apart(); others > 0)
    std::cout << "  and " << others << " places of n-grams that came later than the first "
              << NgramCounts::kMostNgrams << ", which alone are told apart\n";
}

void TableReport::print(std::size_t limit) const {
  std::vector<Row> rows = rows_;
  std::ranges::stable_sort(rows, std::greater<>(),
                           [](const Row& row) { return row.ngrams.size(); });
  const std::size_t untouched = size() - history_.touched();
  const bool names_untouched = history_.kind() != "token" && heads_.empty() && untouched > 0;
  std::cout << '\n'
            << name() << " table: " << history_.touched() << " of " << size()
            << " rows got a gradient (" << std::setprecision(3)
            << 100.0 * static_cast<double>(history_.touched()) / static_cast<double>(size())
            << " %), " << untouched << " were never touched"
            << (names_untouched ? ": " + untouched_rows() : "") << '\n';
  if (!heads_.empty()) print_heads();
  std::cout << "     row  looked up  steps  gradient norm      moved  " << history_.kind() << '\n';
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    const Row& row = rows[i];
    std::cout << std::setw(8) << row.id << std::setw(11) << row.what.lookups << std::setw(7)
              << row.what.steps << std::scientific << std::setprecision(4) << std::setw(15)
              << row.what.largest << std::setw(11) << std::setprecision(3) << row.moved
              << std::defaultfloat << "  " << shown(row) << '\n';
  }
  if (rows.size() > limit) std::cout << "     … and " << rows.size() - limit << " more (--rows)\n";
}

Json TableReport::to_json() const {
  Json list = Json::array();
  for (const Row& row : rows_) {
    Json one{{"row", row.id},
             {"looked_up", row.what.lookups},
             {"steps", row.what.steps},
             {"gradient_norm", row.what.largest},
             {"moved", row.moved}};
    Json& meaning = one[history_.kind()];
    if (heads_.empty()) meaning = row.label;
    for (const NgramCounts::Ngram& ngram : row.ngrams)
      meaning.push_back({{"text", text_of(ngram, &tokenizer_)}, {"looked_up", ngram.count}});
    list.push_back(std::move(one));
  }
  Json report{{"rows", size()},
              {"rows_with_gradient", history_.touched()},
              {"rows_never_touched", size() - history_.touched()},
              {"rows_changed_without_gradient", changed_without_gradient_},
              {"gradients", std::move(list)}};
  if (!heads_.empty()) report["not_told_apart"] = history_.ngrams()->not_told_apart();
  for (const Head& head : heads_)
    report["heads"].push_back({{"tokens", head.order},
                               {"head", head.head},
                               {"rows", head.rows},
                               {"rows_with_gradient", head.touched},
                               {"ngrams", head.ngrams},
                               {"ngrams_sharing", head.sharing},
                               {"rows_shared", head.shared},
                               {"most_in_a_row", head.most}});
  return report;
}

// Quotes in a text are doubled (RFC 4180).
void TableReport::append_csv(std::ostream& csv, const std::vector<std::string>& meanings) const {
  for (const Row& row : rows_) {
    csv << name() << ',' << row.id << ',';
    for (const std::string& meaning : meanings) {
      if (meaning == history_.kind()) csv << std::quoted(shown(row), '"', '"');
      csv << ',';
    }
    csv << row.what.lookups << ',' << row.what.steps << ',' << row.what.largest << ',' << row.moved
        << '\n';
  }
}

std::vector<std::string> meanings(const std::vector<TableHistory>& tables) {
  std::vector<std::string> names;
  for (const TableHistory& table : tables)
    if (!std::ranges::count(names, table.kind())) names.push_back(table.kind());
  return names;
}

}  // namespace rowgrad
