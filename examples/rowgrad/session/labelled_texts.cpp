#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/labelled_texts.hpp>

namespace rowgrad {
namespace {

struct TableRow {
  std::size_t line;  // the first line of the row, counted from 1
  std::vector<std::string> fields;
};

// Splits a table into rows. If the separator is a comma, a quoted field may contain commas, line
// ends and doubled quotes (RFC 4180). If the separator is a tab, quotes are ordinary characters.
std::vector<TableRow> rows_of(const std::string& name, std::string_view text, char separator) {
  std::vector<TableRow> rows;
  std::size_t line = 1;
  for (std::size_t at = 0; at < text.size(); ++at, ++line) {
    rows.push_back({line, {}});
    for (;; ++at) {
      std::string& field = rows.back().fields.emplace_back();
      const bool is_quoted = separator == ',' && text.substr(at).starts_with('"');
      if (is_quoted)
        for (++at;; ++at) {
          check_runtime(at < text.size(), name, ":", rows.back().line, ": unclosed quote");
          if (text[at] == '"' && !text.substr(++at).starts_with('"')) break;
          if (text[at] == '\n') ++line;
          field += text[at];
        }
      const char ends[] = {separator, '\n', '\0'};
      const std::size_t end = std::min(text.find_first_of(ends, at), text.size());
      std::string_view rest = text.substr(at, end - at);
      at = end;
      const bool ends_line = at == text.size() || text[at] == '\n';
      if (ends_line && rest.ends_with('\r')) rest.remove_suffix(1);
      check_runtime(!is_quoted || rest.empty(), name, ":", rows.back().line,
                    ": text after a closing quote");
      field += rest;
      if (ends_line) break;
    }
  }
  return rows;
}

struct Example {
  std::string label, text, source;
};

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// Reads a text file. Rejects pipes, which may have no writer, and devices, which may be endless.
std::string text_in(const std::filesystem::path& path) {
  check_runtime(!file_exists(path) || std::filesystem::is_regular_file(path), path.string(),
                ": not a regular file");
  std::string text = without_byte_order_mark(read_file(path), path.string());
  check_utf8(path.string(), text);
  return text;
}

std::vector<Example> read_table(const std::filesystem::path& path,
                                const LabelledTextOptions& options) {
  const std::string name = path.string();
  const std::string content = text_in(path);
  check_runtime(path.extension() == ".csv" || path.extension() == ".tsv", name,
                ": expected a folder, or a .csv or .tsv table");
  std::vector<TableRow> rows = rows_of(name, content, path.extension() == ".tsv" ? '\t' : ',');
  check_runtime(!rows.empty(), name, ": the table has no header row");
  const std::vector<std::string> columns = rows.front().fields;
  rows.erase(rows.begin());
  const auto column = [&](const std::string& wanted) {
    const auto found = std::ranges::find(columns, wanted);
    const auto count = std::count(found, columns.end(), wanted);
    check_runtime(count == 1, name, ": has ", count == 0 ? "no column " : "several columns ",
                  InQuotes(wanted), "; its columns are ",
                  bracketed(std::vector<InQuotes>(columns.begin(), columns.end())));
    return static_cast<std::size_t>(found - columns.begin());
  };
  const std::size_t text = column(options.text);
  const std::size_t label = column(options.label);
  std::vector<Example> examples;
  for (const auto& [line, fields] : rows) {
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    check_runtime(fields.size() == columns.size(), name, ":", line, ": got ", fields.size(),
                  " columns, expected ", columns.size());
    for (const std::size_t needed : {text, label})
      check_runtime(!is_blank(fields[needed]), name, ":", line, ": the column ",
                    InQuotes(columns[needed]), " is empty");
    examples.push_back({fields[label], fields[text], concat(name, ":", line)});
  }
  return examples;
}

std::vector<Example> read_folders(const std::filesystem::path& path) {
  const auto sorted = [](const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> entries;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
    std::ranges::sort(entries);
    return entries;
  };
  std::vector<Example> examples;
  for (const std::filesystem::path& label : sorted(path))
    if (std::filesystem::is_directory(label))
      for (const std::filesystem::path& file : sorted(label)) {
        examples.push_back({label.filename().string(), text_in(file), file.string()});
        check_runtime(!is_blank(examples.back().text), file.string(), ": is empty");
      }
  return examples;
}

}  // namespace

LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const LabelledTextOptions& options) {
  std::vector<Example> examples =
      std::filesystem::is_directory(path) ? read_folders(path) : read_table(path, options);
  check_runtime(!examples.empty(), path.string(), ": has no examples");
  std::set<std::string> labels;
  for (const Example& example : examples) labels.insert(example.label);
  LabelledTexts result{.texts = {}, .labels = {labels.begin(), labels.end()}};
  for (auto& [label, text, source] : examples) {
    const auto found = std::ranges::lower_bound(result.labels, label);
    result.texts.push_back({std::move(text),
                            static_cast<std::size_t>(found - result.labels.begin()),
                            std::move(source)});
  }
  return result;
}

}  // namespace rowgrad
