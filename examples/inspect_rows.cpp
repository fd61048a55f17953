// Shows which rows of the embedding tables get gradients: trains a next-token model on one or more
// batches of a text, and reports on each row of its token and position tables.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

struct ProgramOptions {
  std::string corpus;
  std::string tokenizer = "word";
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
  std::string text;           // of its token; empty for a position
  std::size_t looked_up = 0;  // how many times its id occurred
  std::size_t steps = 0;      // in how many steps it got a gradient
  double gradient_norm = 0;   // the largest over all steps
  double moved = 0;           // distance from its first to its last value
};

/// Follows one table through all steps.
class TableReport {
 public:
  TableReport(std::string name, const Parameter& table)
      : name_(std::move(name)), table_(table), start_(table.value()) {}

  void count(std::int32_t id) { ++rows_[id].looked_up; }

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
  std::vector<RowReport> finish(const Tokenizer* tokenizer) {
    std::vector<RowReport> all;
    for (auto& [row, report] : rows_) {
      if (report.steps == 0) continue;
      report.row = row;
      if (tokenizer != nullptr) report.text = tokenizer->token(row);
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

  const std::string& name() const { return name_; }
  std::size_t size() const { return table_.shape()[0]; }

 private:
  bool has_gradient(std::int32_t row) const {
    const auto found = rows_.find(row);
    return found != rows_.end() && found->second.steps > 0;
  }

  std::size_t width() const { return table_.shape()[1]; }

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
  std::map<std::int32_t, RowReport> rows_;
};

void print(const TableReport& table, const std::vector<RowReport>& rows, std::size_t limit) {
  const std::size_t untouched = table.size() - rows.size();
  std::cout << '\n'
            << table.name() << " table: " << rows.size() << " of " << table.size()
            << " rows got a gradient (" << std::setprecision(3)
            << 100.0 * static_cast<double>(rows.size()) / static_cast<double>(table.size())
            << " %), " << untouched << " were never touched\n"
            << "     row  looked up  steps  gradient norm      moved  token\n";
  for (std::size_t i = 0; i < std::min(limit, rows.size()); ++i) {
    const RowReport& row = rows[i];
    std::cout << std::setw(8) << row.row << std::setw(11) << row.looked_up << std::setw(7)
              << row.steps << std::scientific << std::setprecision(4) << std::setw(15)
              << row.gradient_norm << std::setw(11) << std::setprecision(3) << row.moved
              << std::defaultfloat << "  " << (row.text.empty() ? "" : readable_token(row.text))
              << '\n';
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
    if (!row.text.empty()) list.back()["token"] = row.text;
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
    csv << table.name() << ',' << row.row << ','
        << (row.text.empty() ? "" : quoted(readable_token(row.text))) << ',' << row.looked_up << ','
        << row.steps << ',' << row.gradient_norm << ',' << row.moved << '\n';
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
  NextTokenModel model(
      {.vocabulary = tokenizer->size(), .context = options.context, .width = options.width},
      Random(options.seed));
  SGD sgd(model.parameters(), {.learning_rate = options.learning_rate});
  TableReport tokens("token", model.token.weight);
  TableReport positions("position", model.position->weight);

  double first_loss = 0;
  double last_loss = 0;
  for (std::size_t step = 0; step < options.steps;) {
    for (const Batch& batch : loader) {
      for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
        tokens.count(batch.inputs.data()[i]);
        positions.count(static_cast<std::int32_t>(i % options.context));
      }
      sgd.zero_grad();
      Tape tape;
      const Variable loss = model.loss(tape, batch.inputs, batch.targets);
      check_runtime(std::isfinite(loss.item()), "the loss is not finite at step ", step + 1,
                    "; try a smaller --learning-rate");
      tape.backward(loss);
      tokens.add_gradient();
      positions.add_gradient();
      sgd.step();
      last_loss = loss.item();
      if (step == 0) first_loss = last_loss;
      if (++step == options.steps) break;
    }
  }

  const auto token_rows = tokens.finish(tokenizer.get());
  const auto position_rows = positions.finish(nullptr);
  std::cout << "Text       " << text.source << '\n'
            << "Tokens     " << options.tokenizer << ", " << tokenizer->size() << " ids\n"
            << "Steps      " << options.steps << " of SGD at rate " << options.learning_rate << ", "
            << options.batch << " windows of " << options.context << " tokens, stride "
            << options.stride << ", no shuffle\n"
            << "Loss       " << first_loss << " before the first update"
            << (options.steps > 1 ? concat(", ", last_loss, " before the last") : "") << '\n';
  print(tokens, token_rows, options.rows);
  print(positions, position_rows, options.rows);
  const std::size_t changed =
      tokens.changed_without_gradient() + positions.changed_without_gradient();
  std::cout << "\nRows without a gradient that changed: " << changed << '\n';

  if (!options.json.empty()) {
    const nlohmann::json report{{"text", text.source},
                                {"tokenizer", options.tokenizer},
                                {"batch", options.batch},
                                {"context", options.context},
                                {"stride", options.stride},
                                {"steps", options.steps},
                                {"learning_rate", options.learning_rate},
                                {"first_loss", first_loss},
                                {"last_loss", last_loss},
                                {"token", to_json(tokens, token_rows)},
                                {"position", to_json(positions, position_rows)}};
    write_file(options.json,
               report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  }
  if (!options.csv.empty()) {
    std::ostringstream csv;
    csv << "table,row,token,looked_up,steps,gradient_norm,moved\n";
    append_csv(csv, tokens, token_rows);
    append_csv(csv, positions, position_rows);
    write_file(options.csv, csv.str());
  }
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
