#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <sstream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/optim/training/row_list.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kRowsAtOnce = 4096;  // that are read
constexpr double kHardly = 0.1;            // of the median

std::vector<std::int32_t> listed(const TableHistory& history) {
  std::vector<std::int32_t> ids = history.ids();
  const std::size_t rows = history.table().shape()[0];
  if (rows <= TableHistory::kMostRows) {
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

bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x2028 ||
         character == 0x2029;
}

// On one line, with nothing in it that a reader of tables could take for anything else.
std::string token_text(std::string_view token, std::string_view escaped) {
  std::string text;
  for (std::size_t at = 0; at < token.size();) {
    const Utf8Character character = decode_utf8(token, at);
    const std::string_view bytes = token.substr(at, character.bytes);
    at += character.bytes;
    if (const std::size_t i = std::string_view("\n\t\r").find(bytes); i < 3) {
      text += {'\\', "ntr"[i]};
    } else if (character.code_point == kInvalidCodePoint || is_control(character.code_point)) {
      for (const char byte : bytes) text += shown_byte(static_cast<unsigned char>(byte));
    } else {
      if (escaped.find(bytes) != std::string_view::npos) text += '\\';
      text += bytes;
    }
  }
  return text;
}

// A field in quotes, with quotes in the text doubled, that no spreadsheet takes for a formula.
std::string quoted(const std::string& text) {
  std::string field = text.find_first_of("=+-@") == 0 ? "\"\\" : "\"";
  for (const char c : text) field.append(c == '"' ? 2 : 1, c);
  return field + '"';
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
  for (std::size_t begin = 0; begin < ids.size(); begin += kRowsAtOnce) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kRowsAtOnce, ids.size() - begin));
    const std::vector<std::int32_t> some(first, first + count);
    const Tensor values = history.values(some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const std::span<const real> value(values.data() + i * width, width);
      ListedRow& row = rows.emplace_back(ListedRow{.id = some[i]});
      for (const real x : value) row.norm += static_cast<double>(x) * static_cast<double>(x);
      row.norm = std::sqrt(row.norm);
      if (const auto place = history.place_of(row.id)) {
        const TableHistory::Row& what = history.row(*place);
        row.lookups = what.lookups;
        row.steps = what.steps;
        row.gradient_norm = std::sqrt(what.squares);
        row.moved = moved[*place];
      } else {
        row.moved = history.moved_unfollowed(row.id, value);
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

std::string rows_text(const TableHistory& history, const std::vector<ListedRow>& rows,
                      const Tokenizer* tokenizer, char separator) {
  std::ostringstream text;
  text.precision(6);
  const bool has_quotes = separator != '\t';
  const RowLabels labels(history, tokenizer);
  text << "id";
  for (const char* title :
       {"token", "lookups", "steps", "gradient_norm", "norm", "moved", "learned"})
    text << separator << title;
  text << '\n';
  for (const ListedRow& row : rows) {
    const std::string label = token_text(labels.of(row.id), has_quotes ? "\\" : "\\\"");
    text << row.id << separator << (has_quotes ? quoted(label) : label) << separator << row.lookups
         << separator << row.steps;
    for (const double number : {row.gradient_norm, row.norm, row.moved}) {
      text << separator;
      if (!std::isnan(number)) text << number;  // an empty field is one that is not known
    }
    text << separator << name_of(row.learned) << '\n';
  }
  return std::move(text).str();
}

}  // namespace rowgrad
