// Shows which rows of the embedding tables get gradients: trains a next-token model, or a small GPT
// with relative positions, on one or more batches of a text, and reports on each row of its token
// and position tables.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/ops/distance_bias.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
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
};

/// What happened to one row of a table over all steps.
struct RowReport {
  std::int32_t row = 0;
  std::string token;          // its text; empty in a table of positions
  std::string meaning;        // what is printed: the token, the position, or distances
  std::size_t looked_up = 0;  // how many times its id occurred
  std::size_t steps = 0;      // in how many steps it got a gradient
  double gradient_norm = 0;   // the largest over all steps
  double moved = 0;           // distance from its first to its last value
};

using Rows = std::vector<std::int32_t>;

/// Follows one table through all steps.
class TableReport {
 public:
  /// A table of tokens; or one of positions, of which every window looks up the same rows: those of
  /// its positions or, where `relative`, those of the distances from 0 on.
  TableReport(std::string name, const Parameter& table, Rows of_a_window = {},
              bool relative = false)
      : name_(std::move(name)),
        table_(table),
        start_(table.value()),
        of_a_window_(std::move(of_a_window)),
        relative_(relative) {}

  void count(const Batch& batch) {
    for (std::size_t window = 0; window < batch.inputs.shape(0); ++window)
      for (const std::int32_t row : of_a_window_) ++rows_[row].looked_up;
    if (has_tokens())
      for (const std::int32_t id : batch.inputs) ++rows_[id].looked_up;
  }

  void add_gradient() {
    for (const auto [number, values] : table_.gradient().rows()) {
      double squares = 0;
      for (const real value : values) squares += static_cast<double>(value) * value;
      RowReport& report = rows_[number];
      ++report.steps;
      report.gradient_norm = std::max(report.gradient_norm, std::sqrt(squares));
    }
  }

  /// The rows that got a gradient, in increasing order.
  std::vector<RowReport> finish(const Tokenizer& tokenizer) {
    std::vector<RowReport> all;
    for (auto& [row, report] : rows_) {
      if (report.steps == 0) continue;
      report.row = row;
      if (has_tokens()) report.token = tokenizer.token(row);
      report.meaning = has_tokens() ? readable_token(report.token) : places_of(row);
      report.moved = distance(static_cast<std::size_t>(row));
      all.push_back(report);
    }
    return all;
  }

  /// How many rows without a gradient have changed in any bit. It must be 0.
  std::size_t changed_without_gradient() const {
    const std::size_t bytes = width() * sizeof(real);
    std::size_t changed = 0;
    for (std::size_t row = 0; row < size(); ++row)
      if (!has_gradient(static_cast<std::int32_t>(row)) &&
          std::memcmp(start_.data() + row * width(), table_.value().data() + row * width(),
                      bytes) != 0)
        ++changed;
    return changed;
  }

  /// The rows without a gradient: "28 to 31".
  std::string untouched() const {
    Rows rows;
    for (std::int32_t row = 0; row < static_cast<std::int32_t>(size()); ++row)
      if (!has_gradient(row)) rows.push_back(row);
    std::string text;
    for (std::size_t i = 0, last = 0; i < rows.size(); i = last + 1) {
      last = i;
      while (last + 1 < rows.size() && rows[last + 1] == rows[last] + 1) ++last;
      text += (i > 0 ? ", " : "") + range(rows[i], rows[last]);
    }
    return text;
  }

  const std::string& name() const { return name_; }
  bool has_tokens() const { return of_a_window_.empty(); }
  const char* meaning() const {
    return has_tokens() ? "token" : relative_ ? "distance" : "position";
  }
  std::size_t size() const { return table_.shape()[0]; }

 private:
  bool has_gradient(std::int32_t row) const {
    const auto found = rows_.find(row);
    return found != rows_.end() && found->second.steps > 0;
  }

  std::size_t width() const { return table_.shape()[1]; }

  static std::string range(std::size_t first, std::size_t last) {
    return first == last ? concat(first) : concat(first, " to ", last);
  }

  // Its position, or its distances.
  std::string places_of(std::int32_t row) const {
    const auto first = std::find(of_a_window_.begin(), of_a_window_.end(), row);
    const auto last = std::find(of_a_window_.rbegin(), of_a_window_.rend(), row);
    return range(first - of_a_window_.begin(), of_a_window_.rend() - last - 1);
  }

  double distance(std::size_t row) const {
    double squares = 0;
    for (std::size_t i = row * width(); i < (row + 1) * width(); ++i) {
      const double difference = static_cast<double>(table_.value().data()[i]) - start_.data()[i];
      squares += difference * difference;
    }
    return std::sqrt(squares);
  }

  std::string name_;
  const Parameter& table_;
  Tensor start_;
  Rows of_a_window_;
  bool relative_;
  std::map<std::int32_t, RowReport> rows_;
};

void print(const TableReport& table, const std::vector<RowReport>& rows, std::size_t limit) {
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
    std::cout << std::setw(8) << row.row << std::setw(11) << row.looked_up << std::setw(7)
              << row.steps << std::scientific << std::setprecision(4) << std::setw(15)
              << row.gradient_norm << std::setw(11) << std::setprecision(3) << row.moved
              << std::defaultfloat << "  " << row.meaning << '\n';
  }
  if (rows.size() > limit) std::cout << "     … and " << rows.size() - limit << " more (--rows)\n";
}

nlohmann::json to_json(const TableReport& table, const std::vector<RowReport>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RowReport& row : rows) {
    list.push_back({{"row", row.row},
                    {"looked_up", row.looked_up},
                    {"steps", row.steps},
                    {"gradient_norm", row.gradient_norm},
                    {"moved", row.moved}});
    list.back()[table.meaning()] = table.has_tokens() ? row.token : row.meaning;
  }
  return {{"rows", table.size()},
          {"rows_with_gradient", rows.size()},
          {"rows_never_touched", table.size() - rows.size()},
          {"rows_changed_without_gradient", table.changed_without_gradient()},
          {"gradients", list}};
}

// A field in quotes, with quotes in the text doubled (RFC 4180).
std::string quoted(const std::string& text) {
  std::string field = "\"";
  for (const char c : text) field += c == '"' ? std::string("\"\"") : std::string(1, c);
  return field + "\"";
}

void append_csv(std::ostream& csv, const TableReport& table, const std::vector<RowReport>& rows) {
  for (const RowReport& row : rows)
    csv << table.name() << ',' << row.row << (table.has_tokens() ? "," : ",,")
        << quoted(row.meaning) << (table.has_tokens() ? ",," : ",") << row.looked_up << ','
        << row.steps << ',' << row.gradient_norm << ',' << row.moved << '\n';
}

/// The model, and its tables: that of tokens, then those of positions.
struct Inspected {
  std::unique_ptr<LanguageModel> model;
  std::vector<TableReport> tables;
};

Inspected make_model(const ProgramOptions& options, std::size_t vocabulary) {
  Random random(options.seed);
  Rows rows(options.context);  // of positions, or of distances from 0 on
  std::iota(rows.begin(), rows.end(), 0);
  if (options.positions == "learned") {
    auto model = std::make_unique<NextTokenModel>(
        NextTokenOptions{
            .vocabulary = vocabulary, .context = options.context, .width = options.width},
        random);
    std::vector<TableReport> tables{{"token", model->token.weight},
                                    {"position", model->position->weight, rows}};
    return {std::move(model), std::move(tables)};
  }
  const bool t5 = options.positions == "t5";
  auto model =
      std::make_unique<GptModel>(GptOptions{.vocabulary = vocabulary,
                                            .context = options.context,
                                            .width = options.width,
                                            .heads = 1,
                                            .layers = 1,
                                            .positions = t5 ? Positions::kT5 : Positions::kShaw},
                                 random);
  const GptOptions& made = model->options();
  for (std::int32_t& row : rows) {
    const auto distance = static_cast<std::size_t>(row);
    row = static_cast<std::int32_t>(t5 ? t5_bucket(distance, made.t5_buckets, made.t5_max_distance)
                                       : made.shaw_max_distance -
                                             std::min(distance, made.shaw_max_distance));
  }
  std::vector<TableReport> tables{{"token", model->token.weight}};
  if (t5) {
    tables.emplace_back("t5", *model->t5_table, rows, true);
  } else {
    tables.emplace_back("shaw_keys", *model->shaw_keys, rows, true);
    tables.emplace_back("shaw_values", *model->shaw_values, rows, true);
  }
  return {std::move(model), std::move(tables)};
}

void run(const CLI::App& app, const ProgramOptions& options) {
  check_argument(app.count("--vocabulary") == 0 || options.tokenizer == "bpe",
                 "--vocabulary is for --tokenizer bpe; that of ", options.tokenizer,
                 " follows from the text");
  check_outputs({options.json, options.csv}, {options.corpus});
  const DataFile text = find_corpus(options.corpus);
  const auto tokenizer = make_tokenizer(options.tokenizer, text.contents, options.vocabulary);
  DataLoader loader(TokenWindows(tokenizer->encode(text.contents),
                                 {.context = options.context, .stride = options.stride}),
                    {.batch = options.batch});
  auto [model, tables] = make_model(options, tokenizer->size());
  SGD sgd(model->parameters(), {.learning_rate = options.learning_rate});

  double first_loss = 0;
  double last_loss = 0;
  for (std::size_t step = 0; step < options.steps;) {
    for (const Batch& batch : loader) {
      for (TableReport& table : tables) table.count(batch);
      sgd.zero_grad();
      Tape tape;
      const Variable loss = model->loss(tape, batch.inputs, batch.targets);
      check_runtime(std::isfinite(loss.item()), "the loss is not finite at step ", step + 1,
                    "; try a smaller --learning-rate");
      tape.backward(loss);
      for (TableReport& table : tables) table.add_gradient();
      sgd.step();
      last_loss = loss.item();
      if (step == 0) first_loss = last_loss;
      if (++step == options.steps) break;
    }
  }

  std::cout << "Text       " << text.source << '\n'
            << "Tokens     " << options.tokenizer << ", " << tokenizer->size() << " ids\n"
            << "Steps      " << options.steps << " of SGD at rate " << options.learning_rate << ", "
            << options.batch << " windows of " << options.context << " tokens, stride "
            << options.stride << ", no shuffle\n"
            << "Loss       " << first_loss << " before the first update"
            << (options.steps > 1 ? concat(", ", last_loss, " before the last") : "") << '\n';
  nlohmann::json report{{"text", text.source},
                        {"tokenizer", options.tokenizer},
                        {"batch", options.batch},
                        {"context", options.context},
                        {"stride", options.stride},
                        {"steps", options.steps},
                        {"learning_rate", options.learning_rate},
                        {"first_loss", first_loss},
                        {"last_loss", last_loss}};
  std::ostringstream csv;
  csv << "table,row,token," << tables.back().meaning() << ",looked_up,steps,gradient_norm,moved\n";
  std::size_t changed = 0;
  for (TableReport& table : tables) {
    const std::vector<RowReport> rows = table.finish(*tokenizer);
    print(table, rows, options.rows);
    report[table.name()] = to_json(table, rows);
    append_csv(csv, table, rows);
    changed += table.changed_without_gradient();
  }
  std::cout << "\nRows without a gradient that changed: " << changed << '\n';

  if (!options.json.empty())
    write_file(options.json,
               report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!options.csv.empty()) write_file(options.csv, csv.str());
}

int run_with(int argc, char** argv) {
  CLI::App app(
      "Shows which rows of the token and position tables get gradients, how large they are, and "
      "how far the rows move.");
  app.option_defaults()->always_capture_default();
  ProgramOptions options;
  app.add_option("--corpus", options.corpus, "text file to use instead of The Verdict")
      ->check(file_name());
  app.add_option("--tokenizer", options.tokenizer, "what a token is")
      ->check(CLI::IsMember(kTokenizerNames));
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
  CLI11_PARSE(app, argc, argv);
  run(app, options);
  return 0;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("inspect_rows", [&] { return rowgrad::run_with(argc, argv); });
}
