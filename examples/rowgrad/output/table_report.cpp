#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/table_report.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {

TableReport::TableReport(const TableHistory& history, const Tokenizer& tokenizer)
    : history_(history),
      tokenizer_(tokenizer),
      labels_(history, &tokenizer),
      rows_(list_rows(history)) {
  std::erase_if(rows_, [&](const ListedRow& row) { return !history.had_gradient(row.id); });
}

// Shortens "token.weight", "t5_table" and "memories.0.table.weight".
std::string TableReport::name() const {
  const std::string& parameter = history_.table().name();
  return parameter.substr(
      0, std::min({parameter.find(".weight"), parameter.find("_table"), parameter.find(".table")}));
}

std::size_t TableReport::changed_without_gradient(const Tensor& start) const {
  const Tensor& now = history_.table().value();
  const std::size_t width = now.shape()[1];
  std::size_t changed = 0;
  for (std::size_t row = 0; row < size(); ++row)
    if (!was_touched(row) && std::memcmp(now.data() + row * width, start.data() + row * width,
                                         width * sizeof(real)) != 0)
      ++changed;
  return changed;
}

// Returns the rows without a gradient: "28 to 31".
std::string TableReport::untouched_rows() const {
  std::string text;
  for (std::size_t first = 0, next = 0; first < size(); first = next + 1) {
    for (next = first; next < size() && !was_touched(next);) ++next;
    if (next == first) continue;
    text += concat(text.empty() ? "" : ", ", first);
    if (next - 1 > first) text += concat(" to ", next - 1);
  }
  return text;
}

// Returns the heads of an n-gram memory; none for other tables.
std::vector<TableReport::Head> TableReport::heads() const {
  std::vector<Head> heads;
  if (history_.ngrams() == nullptr) return heads;
  const NgramHash& hash = history_.ngrams()->hash();
  std::size_t row = 0;
  for (const std::size_t size : hash.sizes()) {
    const std::size_t lookup = heads.size();
    Head& head = heads.emplace_back(Head{.order = hash.orders()[lookup / hash.heads()],
                                         .head = lookup % hash.heads(),
                                         .rows = size});
    for (const std::size_t end = row + size; row < end; ++row) {
      head.touched += was_touched(row) ? 1 : 0;
      const std::size_t ngrams = labels_.ngrams(static_cast<std::int32_t>(row)).size();
      head.ngrams += ngrams;
      head.sharing += ngrams > 1 ? ngrams : 0;
      head.shared += ngrams > 1 ? 1 : 0;
      head.most = std::max(head.most, ngrams);
    }
  }
  return heads;
}

// Returns the label of a row, in quotes if it is text.
std::string TableReport::shown(std::int32_t row) const {
  const bool is_text = history_.kind() == RowKind::kToken || !labels_.ngrams(row).empty();
  return is_text ? readable_token(labels_.of(row)) : labels_.of(row);
}

void TableReport::print_heads() const {
  std::cout
      << "  tokens  head      rows   touched   n-grams  of them sharing   shared rows  most in "
         "one\n";
  for (const Head& head : heads())
    std::cout << formatted("%8zu%6zu%10zu%10zu%10zu%17zu%14zu%13zu\n", head.order, head.head,
                           head.rows, head.touched, head.ngrams, head.sharing, head.shared,
                           head.most);
  if (const std::uint64_t others = history_.ngrams()->uncounted(); others > 0)
    std::cout << "  and " << others << " lookups of n-grams beyond the first "
              << NgramCounts::kMaxNgrams << ", which are not counted by n-gram\n";
}

void TableReport::print(std::size_t limit, bool farthest_first) const {
  const bool has_ngrams = history_.ngrams() != nullptr;
  std::vector<ListedRow> rows = rows_;
  if (farthest_first)
    std::ranges::stable_sort(rows, std::greater<>(), [](const ListedRow& row) {
      return std::isnan(row.moved) ? -1 : row.moved;
    });
  std::ranges::stable_sort(rows, std::greater<>(),
                           [&](const ListedRow& row) { return labels_.ngrams(row.id).size(); });
  const std::size_t touched = history_.with_gradient(), untouched = size() - touched;
  const bool names_untouched = history_.kind() != RowKind::kToken && !has_ngrams && untouched > 0;
  std::cout << '\n'
            << name() << " table: " << touched << " of " << size()
            << formatted(" rows got a gradient (%.3g %%), %zu never did",
                         100.0 * static_cast<double>(touched) / static_cast<double>(size()),
                         untouched)
            << (names_untouched ? ": " + untouched_rows() : "") << '\n';
  if (history_.is_dense())
    std::cout << "  The table is also the head's weight; " << history_.touched()
              << " of its rows were looked up\n";
  if (has_ngrams) print_heads();
  std::cout << "     row  looked up  steps  gradient norm      moved  " << history_.noun() << '\n';
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    const ListedRow& row = rows[i];
    std::cout << formatted("%8d%11zu%7zu%15.4e%11.3e  ", row.id, row.lookups, row.steps,
                           row.gradient_norm, row.moved)
              << shown(row.id) << '\n';
  }
  if (rows.size() > limit) std::cout << "     … and " << rows.size() - limit << " more (--rows)\n";
}

Json TableReport::to_json() const {
  Json list = Json::array();
  for (const ListedRow& row : rows_) {
    Json one{{"row", row.id},
             {"looked_up", row.lookups},
             {"steps", row.steps},
             {"gradient_norm", row.gradient_norm},
             {"norm", row.norm},
             {"moved", row.moved},
             {"learned", name_of(row.learned)}};
    Json& meaning = one[history_.noun()];
    if (history_.ngrams() == nullptr) meaning = labels_.of(row.id);
    for (const NgramCounts::Ngram& ngram : labels_.ngrams(row.id))
      meaning.push_back({{"text", text_of(ngram, &tokenizer_)}, {"looked_up", ngram.count}});
    list.push_back(std::move(one));
  }
  Json report{{"rows", size()},
              {"rows_with_gradient", history_.with_gradient()},
              {"rows_never_touched", size() - history_.with_gradient()},
              {"gradients", std::move(list)}};
  if (history_.ngrams() != nullptr) report["uncounted"] = history_.ngrams()->uncounted();
  for (const Head& head : heads())
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

// Doubles quotes in fields (RFC 4180).
void TableReport::append_csv(std::ostream& csv) const {
  for (const ListedRow& row : rows_)
    csv << name() << ',' << row.id << ',' << history_.noun() << ','
        << std::quoted(shown(row.id), '"', '"') << ',' << row.lookups << ',' << row.steps << ','
        << row.gradient_norm << ',' << row.norm << ',' << row.moved << ',' << name_of(row.learned)
        << '\n';
}

}  // namespace rowgrad
