// Shows which rows of the embedding tables get gradients: trains a next-token model, or a small GPT
// with relative positions, on one or more batches of a text, and reports on each row of its token
// and position tables.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/run_description.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/why_row.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::vector<std::string> corpus;
  std::size_t rows = 50;
  std::string json;
  std::string csv;
  ReportOptions report;
  WhyOptions why;
  TrainOptions train{.tokenizer = "word",
                     .validation = 0,
                     .context = 4,
                     .stride = 4,
                     .batch = 8,
                     .shuffle = false,
                     .width = 256,
                     .dropout = 0,
                     .steps = 1,
                     .learning_rate = 0.1,
                     .shape = NextTokenShape{.look_back = 1, .hidden = {0}}};
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

// Quotes in a text are doubled (RFC 4180).
void append_csv(std::ostream& csv, const TableReport& table) {
  for (const RowReport& row : table.rows())
    csv << table.name() << ',' << row.row << (table.has_tokens() ? "," : ",,")
        << std::quoted(row.meaning, '"', '"') << (table.has_tokens() ? ",," : ",")
        << row.what.lookups << ',' << row.what.steps << ',' << row.what.largest << ',' << row.moved
        << '\n';
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

void inspect(const CommandLine& line, const Options& options) {
  TrainOptions train = options.train;
  if (train.positions != "learned") train.shape = GptShape{.heads = 1, .layers = 1};
  std::vector<std::string> read = options.corpus;
  read.push_back(tokenizer_file(train.tokenizer));
  check_outputs({options.json, options.csv, options.report.page, options.report.data}, read);
  ReportFiles report_files(options.report);
  const Corpus corpus = Corpus::find(options.corpus);
  TextRun training(train, corpus.make_tokenizer(train.tokenizer, train.vocabulary), corpus);
  TrainingRun& run = training.run;
  RowHistory rows(training.model());
  Losses losses;
  run.observe(rows);
  run.observe(losses);
  std::optional<RunReport> page;
  if (options.report.wanted()) {
    RunReportOptions shown =
        report_files.options_for(training, training.first_words(train.context));
    shown.about = about_run(line, training, corpus);
    shown.rows = &rows;
    shown.samples = nullptr;  // it makes none
    page.emplace(run, std::move(shown));
    run.observe(*page);
  }
  std::vector<Tensor> starts;
  for (const TableHistory& table : rows.tables()) starts.push_back(table.table().value());
  run.train();

  std::cout << "Text       " << corpus.source() << '\n'
            << "Tokens     " << train.tokenizer << ", " << training.tokenizer().size() << " ids\n"
            << "Steps      " << train.steps << " of SGD at rate " << train.learning_rate << ", "
            << train.batch << " windows of " << train.context << " tokens, stride " << train.stride
            << ", no shuffle\n"
            << "Loss       " << losses.first << " before the first update"
            << (train.steps > 1 ? concat(", ", losses.last, " before the last") : "") << '\n';
  nlohmann::json report{{"text", corpus.source()},
                        {"tokenizer", train.tokenizer},
                        {"batch", train.batch},
                        {"context", train.context},
                        {"stride", train.stride},
                        {"steps", train.steps},
                        {"learning_rate", train.learning_rate},
                        {"first_loss", losses.first},
                        {"last_loss", losses.last}};
  std::ostringstream csv;
  csv << "table,row,token," << name_of(rows.tables().back().kind())
      << ",looked_up,steps,gradient_norm,moved\n";
  std::size_t changed = 0;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const TableReport table(rows.tables()[i], starts[i], training.tokenizer());
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

OptionTable table_of(Options& o) {
  const OptionTable own{
      {"--corpus", &o.corpus,
       "text file to use instead of The Verdict, or files of token ids (.bin), one after another",
       file_name()},
      {"--positions", &o.train.positions,
       "learned; t5 and shaw are those of a GPT of one block, by distance",
       one_of({"learned", "t5", "shaw"})},
      {"--steps", &o.train.steps, "batches to train on", whole_number(1)},
      {"--learning-rate", &o.train.learning_rate, "step of SGD", finite_number(0)},
      {"--rows", &o.rows, "rows to print of each table", whole_number(0)},
      {"--json", &o.json, "file for the whole report", file_name()},
      {"--csv", &o.csv, "file for a line a row", file_name()}};
  const OptionTable run = selected(table_of(o.train), {"--tokenizer", "--vocabulary", "--context",
                                                       "--stride", "--batch", "--width", "--seed"});
  const OptionTable all = joined({own, run, table_of(o.report)});
  return joined({all, table_of(o.why, all)});
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("inspect_rows", [&] {
    Options options;
    CommandLine line(
        "Shows which rows of the token and position tables get gradients, how large they are, and "
        "how far the rows move.",
        table_of(options));
    line.parse(argc, argv);
    line.check_effects();
    line.was_given("--why") ? print_why(options.why, options.corpus) : inspect(line, options);
    return 0;
  });
}
