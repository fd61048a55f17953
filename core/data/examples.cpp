#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/examples.hpp>

namespace rowgrad {
namespace {

void check_ids(const char* caller, const char* what, const Ids& ids) {
  check_argument(ids.dimension() == 1 && ids.size() > 0, caller, ": ", what, " has shape ",
                 bracketed(ids.shape()), ", expected a text of at least one id");
}

// Examples next to each other until a window is full, or one a window.
TokenWindows windows_of(const char* caller, std::span<const Example> examples,
                        const ExampleWindowOptions& options, bool packed) {
  check_argument(!examples.empty(), caller, ": there are no examples");
  std::size_t context = options.context;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const auto& [inputs, targets] = examples[i];
    check_argument(!inputs.empty() && inputs.size() == targets.size(), caller, ": example ", i,
                   " has ", inputs.size(), " ids and ", targets.size(),
                   " targets, expected equally many");
    check_argument(options.context == 0 || inputs.size() <= options.context, caller, ": example ",
                   i, " has ", inputs.size(), " ids, more than the context of ", options.context);
    if (options.context == 0) context = std::max(context, inputs.size());
  }
  element_count({examples.size(), context}, caller);
  std::vector<std::int32_t> ids, targets;
  const auto fill_up = [&] {
    const std::size_t end = (ids.size() + context - 1) / context * context;
    ids.resize(end, options.padding);
    targets.resize(end, kIgnoredTarget);
  };
  for (const auto& [of_inputs, of_targets] : examples) {
    if (!packed || context - ids.size() % context < of_inputs.size()) fill_up();
    ids.insert(ids.end(), of_inputs.begin(), of_inputs.end());
    targets.insert(targets.end(), of_targets.begin(), of_targets.end());
  }
  fill_up();
  return {to_ids(ids), to_ids(targets), {.context = context, .stride = context}};
}

struct Row {
  std::size_t line;  // where it begins, counted from 1
  std::vector<std::string> fields;
};

std::vector<Row> rows_with_tabs(std::string_view text) {
  std::vector<Row> rows;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rows.push_back({rows.size() + 1, {}});
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t tab = std::min(line.find('\t', at), line.size());
      rows.back().fields.emplace_back(line.substr(at, tab - at));
      at = tab + 1;
    }
    begin = end + 1;
  }
  return rows;
}

// RFC 4180: fields may be in quotes, and then have commas, line ends, and quotes that are doubled.
std::vector<Row> rows_with_commas(const std::string& name, std::string_view text) {
  std::vector<Row> rows;
  std::size_t line = 1;
  std::size_t at = 0;
  const auto field = [&] {
    std::string value;
    if (at == text.size() || text[at] != '"') {
      const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
      value = text.substr(at, end - at);
      at = end;
      if (value.ends_with('\r')) value.pop_back();
      return value;
    }
    for (++at;; ++at) {
      check_runtime(at < text.size(), name, ":", rows.back().line, ": a quote is never closed");
      if (text[at] == '\n') ++line;
      if (text[at] == '"' && (++at == text.size() || text[at] != '"')) break;
      value += text[at];
    }
    if (at < text.size() && text[at] == '\r') ++at;
    check_runtime(at == text.size() || text[at] == ',' || text[at] == '\n', name, ":",
                  rows.back().line, ": there is text behind a closed quote");
    return value;
  };
  while (at < text.size()) {
    rows.push_back({line, {}});
    for (;; ++at) {
      rows.back().fields.push_back(field());
      if (at == text.size() || text[at] == '\n') break;
    }
    ++at;
    ++line;
  }
  return rows;
}

// Pairs of a label and a text.
using Pairs = std::vector<std::pair<std::string, std::string>>;

// A pipe would be waited for, and a device may have no end.
std::string read_text(const std::filesystem::path& path) {
  check_runtime(!file_exists(path) || std::filesystem::is_regular_file(path), path.string(),
                ": is no regular file");
  std::string text = read_file(path);
  check_utf8(path.string(), text);
  return text;
}

Pairs read_table(const std::filesystem::path& path, const LabelledTextOptions& options) {
  const std::string name = path.string();
  std::string content = read_text(path);
  if (content.starts_with("\xEF\xBB\xBF")) content.erase(0, 3);  // a byte order mark
  std::vector<Row> rows =
      path.extension() == ".tsv" ? rows_with_tabs(content) : rows_with_commas(name, content);
  std::vector<std::string> columns = options.columns;
  if (columns.empty()) {
    check_runtime(!rows.empty(), name, ": has no first row with the names of its columns");
    columns = rows.front().fields;
    rows.erase(rows.begin());
  }
  const auto column = [&](const std::string& wanted) {
    const auto found = std::ranges::find(columns, wanted);
    const auto count = std::count(found, columns.end(), wanted);
    check_runtime(count == 1, name, ": has ", count == 0 ? "no column " : "several columns ",
                  InQuotes(wanted), ", its columns are ",
                  bracketed(std::vector<InQuotes>(columns.begin(), columns.end())));
    return static_cast<std::size_t>(found - columns.begin());
  };
  const std::size_t text = column(options.text);
  const std::size_t label = column(options.label);
  Pairs pairs;
  for (const auto& [line, fields] : rows) {
    if (fields.size() == 1 && fields[0].empty()) continue;  // an empty line
    check_runtime(fields.size() == columns.size(), name, ":", line, ": has ", fields.size(),
                  " columns, expected ", columns.size());
    pairs.emplace_back(fields[label], fields[text]);
  }
  return pairs;
}

Pairs read_folders(const std::filesystem::path& path) {
  const auto sorted = [](const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> entries;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
    std::ranges::sort(entries);
    return entries;
  };
  Pairs pairs;
  for (const std::filesystem::path& label : sorted(path))
    if (std::filesystem::is_directory(label))
      for (const std::filesystem::path& text : sorted(label))
        pairs.emplace_back(label.filename().string(), read_text(text));
  return pairs;
}

}  // namespace

Example class_example(const Ids& ids, std::size_t label, std::size_t most) {
  check_ids("class_example", "the text", ids);
  check_argument(most > 0, "class_example: at most 0 ids are to be kept, expected at least 1");
  check_argument(label <= std::numeric_limits<std::int32_t>::max(), "class_example: the label is ",
                 label, ", expected less than 2^31");
  const std::size_t length = std::min(ids.size(), most);
  Example example{{ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length)},
                  std::vector<std::int32_t>(length, kIgnoredTarget)};
  example.targets.back() = static_cast<std::int32_t>(label);
  return example;
}

Example answer_example(const Ids& prompt, const Ids& answer, std::int32_t end) {
  check_ids("answer_example", "the prompt", prompt);
  check_ids("answer_example", "the answer", answer);
  Example example{{prompt.begin(), prompt.end()},
                  std::vector<std::int32_t>(prompt.size() - 1, kIgnoredTarget)};
  example.inputs.insert(example.inputs.end(), answer.begin(), answer.end());
  example.targets.insert(example.targets.end(), answer.begin(), answer.end());
  example.targets.push_back(end);
  return example;
}

TokenWindows padded_windows(std::span<const Example> examples,
                            const ExampleWindowOptions& options) {
  return windows_of("padded_windows", examples, options, false);
}

TokenWindows packed_windows(std::span<const Example> examples,
                            const ExampleWindowOptions& options) {
  return windows_of("packed_windows", examples, options, true);
}

LabelledTexts read_labelled_texts(const std::filesystem::path& path,
                                  const LabelledTextOptions& options) {
  Pairs pairs =
      std::filesystem::is_directory(path) ? read_folders(path) : read_table(path, options);
  check_runtime(!pairs.empty(), path.string(), ": has no texts");
  LabelledTexts result{.texts = {}, .labels = options.labels};
  if (options.labels.empty()) {
    std::set<std::string> labels;
    for (const auto& [label, text] : pairs) labels.insert(label);
    result.labels.assign(labels.begin(), labels.end());
  }
  std::map<std::string_view, std::size_t> numbers;
  for (const std::string& label : result.labels)
    check_argument(numbers.emplace(label, numbers.size()).second,
                   "read_labelled_texts: labels has ", InQuotes(label), " twice");
  for (auto& [label, text] : pairs) {
    const auto found = numbers.find(label);
    check_runtime(found != numbers.end(), path.string(), ": has a text with the label ",
                  InQuotes(label), ", expected one of ",
                  bracketed(std::vector<InQuotes>(result.labels.begin(), result.labels.end())));
    result.texts.push_back({std::move(text), found->second});
  }
  return result;
}

}  // namespace rowgrad
