// Shows which rows of the embedding tables get gradients: trains a next-token model, or a small GPT
// with relative positions, on one or more batches of a text, and reports on each row of its token
// and position tables.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/report_files.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/why_row.hpp>
#include <rowgrad/layers/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

struct ProgramOptions {
  std::string corpus;
  std::string tokenizer = "word";
  std::string positions = "learned";
  std::size_t vocabulary = 512;
  std::size_t context = 4;
  std::size_t stride = 4;
  std::size_t batch = 8;
  std::size_t width = 256;
  std::size_t steps = 1;
  double learning_rate = 0.1;
  std::uint64_t seed = 123;
  std::size_t rows = 50;
  std::string json;
  std::string csv;
  ReportOptions report;
  WhyOptions why;
};

/// What happened to one row of a table over all steps.
struct RowReport {
  std::int32_t row = 0;
  std::string token = {};    // its text; empty in other tables
  std::string meaning = {};  // what is printed: the token, the position, or distances
  TableHistory::Row what = {};
  double moved = 0;  // distance from its first to its last value
};

std::string range(std::size_t first, std::size_t last) {
  return first == last ? concat(first) : concat(first, " to ", last);
}

/// A table with row gradients after the last step.
class TableReport {
 public:
  TableReport(const TableHistory& history, const Tensor& start, const Tokenizer& tokenizer)
      : history_(history), has_gradient_(size()) {
    const std::vector<double> moved = history.moved();
    for (std::size_t i = 0; i < moved.size(); ++i) {
      const std::int32_t id = history.ids()[i];
      has_gradient_[static_cast<std::size_t>(id)] = true;
      RowReport row{.row = id, .what = history.rows()[i], .moved = moved[i]};
      if (has_tokens()) row.token = tokenizer.token(id);
      row.meaning = has_tokens() ? readable_token(row.token) : places_of(id);
      rows_.push_back(std::move(row));
    }
    std::sort(rows_.begin(), rows_.end(),
              [](const RowReport& a, const RowReport& b) { return a.row < b.row; });
    const std::size_t width = start.shape()[1];
    const Tensor& now = history.table().value();
    for (std::size_t row = 0; row < size(); ++row)
      if (!has_gradient_[row] && std::memcmp(start.data() + row * width, now.data() + row * width,
                                             width * sizeof(real)) != 0)
        ++changed_without_gradient_;
  }

  /// The rows that got a gradient, in increasing order.
  const std::vector<RowReport>& rows() const { return rows_; }

  /// How many rows without a gradient have changed in any bit. It must be 0.
  std::size_t changed_without_gradient() const { return changed_without_gradient_; }

  /// The rows without a gradient: "28 to 31".
  std::string untouched() const {
    std::string text;
    for (std::size_t first = 0, next = 0; first < size(); first = next + 1) {
      for (next = first; next < size() && !has_gradient_[next];) ++next;
      if (next > first) text += (text.empty() ? "" : ", ") + range(first, next - 1);
    }
    return text;
  }

  std::string name() const {  // token.weight, t5_table: token, t5
    const std::string& parameter = history_.table().name();
    return parameter.substr(0, std::min(parameter.find(".weight"), parameter.find("_table")));
  }
  bool has_tokens() const { return history_.kind() == RowKind::kToken; }
  const char* meaning() const { return name_of(history_.kind()); }
  std::size_t size() const { return history_.table().shape()[0]; }

 private:
  // Its position, or its distances.
  std::string places_of(std::int32_t row) const {
    const std::vector<std::int32_t>& window = history_.of_a_window();
    const auto first = std::find(window.begin(), window.end(), row);
    const auto last = std::find(window.rbegin(), window.rend(), row);
    return range(static_cast<std::size_t>(first - window.begin()),
                 static_cast<std::size_t>(window.rend() - last - 1));
  }

  const TableHistory& history_;
  std::vector<bool> has_gradient_;
  std::vector<RowReport> rows_;
  std::size_t changed_without_gradient_ = 0;
};

void print(const TableReport& table, std::size_t limit) {
  const std::vector<RowReport>& rows = table.rows();
  const std::size_t untouched = table.size() - rows.size();
  std::cout << '\n'
            << table.name() << " table: " << rows.size() << " of " << table.size()
            << " rows got a gradient (" << std::setprecision(3)
            << 100.0 * static_cast<double>(rows.size()) / static_cast<double>(table.size())
            << " %), " << untouched << " were never touched"
            << (table.has_tokens() || untouched == 0 ? "" : ": " + table.untouched()) << '\n'
            << "     row  looked up  steps  gradient norm      moved  " << table.meaning() << '\n';
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    const RowReport& row = rows[i];
    std::cout << std::setw(8) << row.row << std::setw(11) << row.what.lookups << std::setw(7)
              << row.what.steps << std::scientific << std::setprecision(4) << std::setw(15)
              << row.what.largest << std::setw(11) << std::setprecision(3) << row.moved
              << std::defaultfloat << "  " << row.meaning << '\n';
  }
  if (rows.size() > limit) std::cout << "     … and " << rows.size() - limit << " more (--rows)\n";
}

nlohmann::json to_json(const TableReport& table) {
  nlohmann::json list = nlohmann::json::array();
  for (const RowReport& row : table.rows()) {
    list.push_back({{"row", row.row},
                    {"looked_up", row.what.lookups},
                    {"steps", row.what.steps},
                    {"gradient_norm", row.what.largest},
                    {"moved", row.moved}});
    list.back()[table.meaning()] = table.has_tokens() ? row.token : row.meaning;
  }
  return {{"rows", table.size()},
          {"rows_with_gradient", table.rows().size()},
          {"rows_never_touched", table.size() - table.rows().size()},
          {"rows_changed_without_gradient", table.changed_without_gradient()},
          {"gradients", list}};
}

// A field in quotes, with quotes in the text doubled (RFC 4180).
std::string quoted(const std::string& text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

void append_csv(std::ostream& csv, const TableReport& table) {
  for (const RowReport& row : table.rows())
    csv << table.name() << ',' << row.row << (table.has_tokens() ? "," : ",,")
        << quoted(row.meaning) << (table.has_tokens() ? ",," : ",") << row.what.lookups << ','
        << row.what.steps << ',' << row.what.largest << ',' << row.moved << '\n';
}

std::unique_ptr<LanguageModel> make_model(const ProgramOptions& options, std::size_t vocabulary,
                                          Random& random) {
  if (options.positions == "learned")
    return std::make_unique<NextTokenModel>(
        NextTokenOptions{
            .vocabulary = vocabulary, .context = options.context, .width = options.width},
        random);
  return std::make_unique<GptModel>(
      GptOptions{.vocabulary = vocabulary,
                 .context = options.context,
                 .width = options.width,
                 .heads = 1,
                 .layers = 1,
                 .positions = options.positions == "t5" ? Positions::kT5 : Positions::kShaw},
      random);
}

// Those of the first and the last step.
struct Losses : RunObserver {
  void after_step(const TrainingRun& run, double loss) override {
    check_runtime(std::isfinite(loss), "the loss is not finite at step ", run.steps(),
                  "; try a smaller --learning-rate");
    if (run.steps() == 1) first = loss;
    last = loss;
  }
  double first = 0, last = 0;
};

void run(const CLI::App& app, const ProgramOptions& options) {
  check_argument(app.count("--vocabulary") == 0 || options.tokenizer == "bpe",
                 "--vocabulary is for --tokenizer bpe; that of ", options.tokenizer,
                 " follows from the text");
  check_outputs({options.json, options.csv, options.report.page, options.report.data},
                {options.corpus, tokenizer_file(options.tokenizer)});
  ReportFiles report_files(options.report);
  const DataFile text = find_corpus(options.corpus);
  const auto tokenizer = make_tokenizer(options.tokenizer, text.contents, options.vocabulary);
  const Ids ids = tokenizer->encode(text.contents);
  DataLoader loader(TokenWindows(ids, {.context = options.context, .stride = options.stride}),
                    {.batch = options.batch});
  Random random(options.seed);
  const auto model = make_model(options, tokenizer->size(), random);
  SGD sgd(model->parameters(), {.learning_rate = options.learning_rate});
  TrainingRun run({.model = *model,
                   .optimizer = sgd,
                   .loader = loader,
                   .random = random,
                   .steps = options.steps});
  RowHistory rows(*model);
  Losses losses;
  run.observe(rows);
  run.observe(losses);
  std::optional<RunReport> page;
  if (options.report.wanted()) {
    RunReportOptions shown = report_files.report_options();
    shown.about = about_run(app, {.source = text.source,
                                  .bytes = text.contents.size(),
                                  .tokenizer = options.tokenizer,
                                  .vocabulary = tokenizer->size(),
                                  .training_tokens = ids.size()});
    shown.tokenizer = tokenizer.get();
    shown.rows = &rows;
    shown.prompt = to_ids(std::span(ids.data(), std::min(ids.size(), options.context)));
    page.emplace(run, std::move(shown));
    run.observe(*page);
  }
  std::vector<Tensor> starts;
  for (const TableHistory& table : rows.tables()) starts.push_back(table.table().value());
  run.train();

  std::cout << "Text       " << text.source << '\n'
            << "Tokens     " << options.tokenizer << ", " << tokenizer->size() << " ids\n"
            << "Steps      " << options.steps << " of SGD at rate " << options.learning_rate << ", "
            << options.batch << " windows of " << options.context << " tokens, stride "
            << options.stride << ", no shuffle\n"
            << "Loss       " << losses.first << " before the first update"
            << (options.steps > 1 ? concat(", ", losses.last, " before the last") : "") << '\n';
  nlohmann::json report{{"text", text.source},
                        {"tokenizer", options.tokenizer},
                        {"batch", options.batch},
                        {"context", options.context},
                        {"stride", options.stride},
                        {"steps", options.steps},
                        {"learning_rate", options.learning_rate},
                        {"first_loss", losses.first},
                        {"last_loss", losses.last}};
  std::ostringstream csv;
  csv << "table,row,token," << name_of(rows.tables().back().kind())
      << ",looked_up,steps,gradient_norm,moved\n";
  std::size_t changed = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const TableReport table(rows.tables()[i], starts[i], *tokenizer);
    print(table, options.rows);
    report[table.name()] = to_json(table);
    append_csv(csv, table);
    changed += table.changed_without_gradient();
  }
  std::cout << "\nRows without a gradient that changed: " << changed << '\n';

  if (!options.json.empty())
    write_file(options.json,
               report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!options.csv.empty()) write_file(options.csv, csv.str());
  if (page) report_files.announce();
}

int run_with(int argc, char** argv) {
  CLI::App app(
      "Shows which rows of the token and position tables get gradients, how large they are, and "
      "how far the rows move.");
  app.option_defaults()->always_capture_default();
  ProgramOptions options;
  app.add_option("--corpus", options.corpus, "text file to use instead of The Verdict")
      ->check(file_name());
  app.add_option("--tokenizer", options.tokenizer,
                 "what a token is; or the JSON file of tokenize --save")
      ->check(tokenizer_choice());
  app.add_option("--positions", options.positions,
                 "learned; t5 and shaw are those of a GPT of one block, by distance")
      ->check(CLI::IsMember({"learned", "t5", "shaw"}));
  app.add_option("--vocabulary", options.vocabulary, "number of ids that bpe trains")
      ->check(whole_number(1));
  app.add_option("--context", options.context, "tokens in a window")->check(whole_number(1));
  app.add_option("--stride", options.stride, "tokens from one window to the next")
      ->check(whole_number(1));
  app.add_option("--batch", options.batch, "windows a step")->check(whole_number(1));
  app.add_option("--width", options.width, "numbers in a row")->check(whole_number(1));
  app.add_option("--steps", options.steps, "batches to train on")->check(whole_number(1));
  app.add_option("--learning-rate", options.learning_rate, "step of SGD")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--seed", options.seed, "of the starting weights")
      ->check(whole_number(0, kAnyWhole));
  app.add_option("--rows", options.rows, "rows to print of each table")->check(whole_number(0));
  app.add_option("--json", options.json, "file for the whole report")->check(file_name());
  app.add_option("--csv", options.csv, "file for a line a row")->check(file_name());
  add_report_options(app, options.report);
  add_why_options(app, options.why);
  CLI11_PARSE(app, argc, argv);
  if (app.count("--why") > 0)
    print_why(options.why, options.corpus);
  else
    run(app, options);
  return 0;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("inspect_rows", [&] { return rowgrad::run_with(argc, argv); });
}
