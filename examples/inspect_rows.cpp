// Shows which rows of the embedding tables get gradients: trains a next-token model, or a small GPT
// with relative positions or memories of n-grams, on one or more batches of a text, and reports on
// each row of its token, position and n-gram tables.

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/run_output.hpp>
#include <rowgrad/examples/support/table_report.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/why_row.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::vector<std::string> corpus;
  std::size_t rows = 50;
  std::string json;
  std::string csv;
  RunReportOptions report;
  WhyOptions why;
  TrainOptions train{.tokenizer = "word",
                     .validation = 0,
                     .stride = 4,
                     .loader = {.batch = 8},
                     .gpt = {.context = 4,
                             .width = 256,
                             .heads = 1,
                             .layers = 1,
                             .memories = {.blocks = {0}, .ngrams = {.orders = {}, .rows = 1000}}},
                     .look_back = 1,
                     .hidden = {0},
                     .ngram_rate = 1,
                     .steps = 1,
                     .learning_rate = 0.1};
};

// The gates of a memory on a text.
struct GateReport {
  std::size_t block = 0;
  std::vector<double> values = {};  // at each token

  double mean() const {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
};

// Of the first tokens of the text, in windows as long as the model can read.
std::vector<GateReport> read_gates(LanguageModel& model, const TokenSequence& text) {
  constexpr std::uint64_t kMostTokens = 24'000;
  auto* gpt = dynamic_cast<GptModel*>(&model);
  if (gpt == nullptr) return {};
  std::vector<GateReport> gates;
  for (const std::size_t block : gpt->options().memories.blocks) gates.push_back({.block = block});
  std::ranges::sort(gates, {}, &GateReport::block);
  const std::uint64_t tokens = std::min(text.size(), kMostTokens);
  for (std::uint64_t first = 0; !gates.empty() && first < tokens; first += gpt->context()) {
    const auto length = std::min<std::uint64_t>(gpt->context(), tokens - first);
    const std::vector<Tensor> here = gpt->memory_gates(text.slice(first, length).ids());
    for (std::size_t i = 0; i < gates.size(); ++i)
      gates[i].values.insert(gates[i].values.end(), here[i].begin(), here[i].end());
  }
  return gates;
}

void print(const GateReport& gate, const TokenSequence& text, const Tokenizer& tokenizer) {
  constexpr std::size_t kShown = 5;
  constexpr std::size_t kAround = 16;  // tokens
  const std::vector<double>& values = gate.values;
  std::vector<std::size_t> places(values.size());
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater<>(), [&](std::size_t i) { return values[i]; });
  std::cout << "\nGate in front of block " << gate.block << ": " << std::setprecision(3)
            << gate.mean() << " on average over " << values.size()
            << " tokens; where it is highest, and lowest:\n";
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i >= kShown && i + kShown < places.size()) continue;
    const std::size_t first = places[i] - std::min(places[i], kAround);
    const Ids ids = text.slice(first, std::min(2 * kAround, values.size() - first)).ids();
    std::cout << std::setw(8) << values[places[i]] << "  "
              << readable_token(
                     text_around({{ids.begin(), ids.end()}, {places[i] - first}}, tokenizer))
              << '\n';
  }
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
  const bool has_ngrams = !train.gpt.memories.ngrams.orders.empty();
  if (train.gpt.positions != Positions::kLearned || has_ngrams) train.model = "gpt";
  std::vector<std::string> read = options.corpus;
  read.push_back(tokenizer_file(train.tokenizer));
  check_outputs({options.json, options.csv, options.report.page, options.report.data}, read);
  const Corpus corpus = Corpus::find(options.corpus);
  TextRun training(train, corpus.make_tokenizer(train.tokenizer, train.vocabulary), corpus);
  TrainingRun& run = training.run;
  RowHistory rows(training.model());
  Losses losses;
  run.observe(rows);
  run.observe(losses);
  std::optional<RunReport> page;
  if (is_wanted(options.report)) {
    RunReportOptions shown =
        report_of(line, training, corpus, options.report, training.first_words(train.gpt.context));
    shown.rows = &rows;
    shown.samples = nullptr;  // it makes none
    page.emplace(run, std::move(shown));
  }
  std::map<const Parameter*, std::vector<std::uint64_t>> starts;
  for (const Parameter* parameter : training.model().parameters())
    if (parameter->shape().size() == 2) starts[parameter] = fingerprints(*parameter);
  run.train();

  std::cout << "Text       " << corpus.source() << '\n'
            << "Tokens     " << train.tokenizer << ", " << training.tokenizer().size() << " ids\n"
            << "Steps      " << train.steps << " of SGD at rate " << train.learning_rate << ", "
            << train.loader.batch << " windows of " << train.gpt.context << " tokens, stride "
            << train.stride << ", no shuffle\n"
            << "Loss       " << losses.first << " before the first update"
            << (train.steps > 1 ? concat(", ", losses.last, " before the last") : "") << '\n';
  Json report{{"text", corpus.source()},
              {"tokenizer", train.tokenizer},
              {"batch", train.loader.batch},
              {"context", train.gpt.context},
              {"stride", train.stride},
              {"steps", train.steps},
              {"learning_rate", train.learning_rate},
              {"first_loss", losses.first},
              {"last_loss", losses.last}};
  std::ostringstream csv;
  const std::vector<std::string> columns = meanings(rows.tables());
  csv << "table,row,";
  for (const std::string& column : columns) csv << column << ',';
  csv << "looked_up,steps,gradient_norm,moved\n";
  std::size_t changed = 0;
  for (const TableHistory& history : rows.tables()) {
    const TableReport table(history, starts.at(&history.table()), training.tokenizer());
    table.print(options.rows);
    report[table.name()] = table.to_json();
    table.append_csv(csv, columns);
    changed += table.changed_without_gradient();
  }
  for (const GateReport& gate : read_gates(training.model(), training.training_ids())) {
    print(gate, training.training_ids(), training.tokenizer());
    report["gates"].push_back(
        {{"block", gate.block}, {"mean", gate.mean()}, {"values", gate.values}});
  }
  std::cout << "\nRows without a gradient that changed: " << changed << '\n';

  if (!options.json.empty()) write_file(options.json, report.dump(2) + "\n");
  if (!options.csv.empty()) write_file(options.csv, csv.str());
  if (page) announce(*page, options.report);
}

OptionTable option_table_of(Options& o) {
  const OptionTable own{
      {"--corpus", &o.corpus,
       "text file to use instead of The Verdict, or files of token ids (.bin), one after another",
       file_name()},
      {"--positions",
       choice(
           o.train.gpt.positions,
           {{"learned", Positions::kLearned}, {"t5", Positions::kT5}, {"shaw", Positions::kShaw}}),
       "learned; t5 and shaw are those of a GPT of one block, by distance"},
      {"--steps", &o.train.steps, "batches to train on", whole_number(1)},
      {"--learning-rate", &o.train.learning_rate, "step of SGD", finite_number(0)},
      {"--rows", &o.rows, "rows to print of each table", whole_number(0)},
      {"--json", &o.json, "file for the whole report", file_name()},
      {"--csv", &o.csv, "file for a line a row", file_name()}};
  OptionTable run = selected(option_table_of(o.train),
                             {"--tokenizer", "--vocabulary", "--context", "--stride", "--batch",
                              "--width", "--layers", "--ngrams", "--ngram-rows", "--ngram-heads",
                              "--ngram-width", "--ngram-layers", "--ngram-rate", "--ngram-kernel",
                              "--ngram-seed", "--ngram-fold", "--ngram-silent", "--seed"});
  for (Option& option : run)
    if (option.name == "--layers") option.rules = is_for("--ngrams");
  const OptionTable all = joined({own, run, option_table_of(o.report)});
  return under("", joined({all, option_table_of(o.why, all)}));
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("inspect_rows", [&] {
    Options options;
    CommandLine line(
        "Shows which rows of the token, position and n-gram tables get gradients, how large they "
        "are, and how far the rows move.",
        option_table_of(options));
    line.parse(argc, argv);
    line.check_effects();
    line.was_given("--why") ? print_why(options.why, options.corpus) : inspect(line, options);
    return 0;
  });
}
