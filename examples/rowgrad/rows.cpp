// Shows which rows of the embedding tables get gradients, and how far they move, in the first steps
// of a small model or in a saved run. The small model is a next-token model, or a GPT if it has
// relative positions or n-gram memories. For a saved run, also explains why a row moved.

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/row_explanation.hpp>
#include <rowgrad/examples/rowgrad/output/table_report.hpp>
#include <rowgrad/examples/rowgrad/output/text_report.hpp>
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>
#include <rowgrad/examples/rowgrad/report/run_analysis.hpp>
#include <rowgrad/examples/rowgrad/session/replayed_run.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::vector<std::string> corpus;
  std::string run;  // a checkpoint; "" for the first steps of a new model
  std::string from;
  std::size_t rows = 50;
  std::string json;
  std::string csv;
  ReportFiles report;
  bool force = false;
  ExplainOptions explained;
  std::string near;
  std::string vectors;
  TrainOptions train{.tokenizer = "word",
                     .validation = 0,
                     .stride = 4,
                     .loader = {.batch = 8},
                     .gpt = {.context = 4,
                             .width = 256,
                             .heads = 1,
                             .layers = 1,
                             .memories = {.blocks = {0}, .ngrams = {.orders = {}, .rows = 1000}}},
                     .window = 1,
                     .hidden = {0},
                     .ngram_rate = 1,
                     .steps = 1,
                     .learning_rate = 0.1};
};

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void print(const MemoryGates& gate, const TokenSequence& text, const Tokenizer& tokenizer) {
  constexpr std::size_t kShown = 5;
  constexpr std::size_t kAround = 16;  // tokens
  const std::vector<double>& values = gate.values;
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return values[i]; });
  std::cout << "\nGate before block " << gate.block
            << formatted(": mean %.3g over %zu", mean_of(gate.values), values.size())
            << " tokens; highest and lowest at:\n";
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i >= kShown && i + kShown < order.size()) continue;
    const std::size_t first = order[i] - std::min(order[i], kAround);
    const Ids ids = text.slice(first, std::min(2 * kAround, values.size() - first)).ids();
    std::cout << formatted("%8.3g  ", values[order[i]])
              << readable_token(
                     text_around({{ids.begin(), ids.end()}, {order[i] - first}}, tokenizer))
              << '\n';
  }
}

// A callback that records the losses of the first and the last step.
struct Losses : TrainingCallback {
  void after_step(const TrainingRun&, const StepResult& result) override {
    if (!first) first = result.loss;
    if (result.loss) last = result.loss;
  }
  std::optional<double> first, last;
};

// Creates the run of a small model.
std::unique_ptr<Session> first_steps(TrainOptions train, const Corpus& corpus) {
  const bool has_ngrams = !train.gpt.memories.ngrams.orders.empty();
  if (train.gpt.positions != Positions::kLearned || has_ngrams) train.model = "gpt";
  return Session::create(train, corpus.make_tokenizer(train.tokenizer, train.vocabulary), corpus);
}

void check_files(const Options& options, std::vector<std::string> read) {
  read.insert(read.end(), {tokenizer_file(options.train.tokenizer), options.run, options.from});
  std::vector<Output> outputs{{"--json", options.json, kRowsJson},
                              {"--csv", options.csv, kRowsCsv}};
  for (Output& output : outputs_of(options.report)) outputs.push_back(std::move(output));
  check_outputs(outputs, read, options.force);
}

// Returns copies of all parameters with two axes, which include the tables.
std::map<const Parameter*, Tensor> values_of(const Model& model) {
  std::map<const Parameter*, Tensor> values;
  for (const Parameter* parameter : model.parameters())
    if (parameter->shape().size() == 2) values.emplace(parameter, parameter->value());
  return values;
}

std::string steps_text(const TrainOptions& train) {
  return concat(train.steps, " of SGD at rate ", train.learning_rate, ", ", train.loader.batch,
                " windows of ", train.gpt.context, " tokens, stride ", train.stride,
                ", no shuffle");
}

std::string steps_text(const ReplayedRun& replayed, const std::string& run, bool trained) {
  return concat(replayed.first() + 1, " to ", replayed.last(), " of ", run,
                trained ? "; " + replayed.outcome() : ", as recorded by the run");
}

void print_steps(const Corpus& corpus, const Session& session, const Losses& losses,
                 const std::string& steps) {
  std::cout << "Text       " << corpus.source() << '\n'
            << "Tokens     " << session.options().tokenizer << ", " << session.tokenizer().size()
            << " ids\n"
            << "Steps      " << steps << '\n';
  if (losses.first)
    std::cout << "Loss       " << *losses.first << " before the first update"
              << (session.run().steps() > 1 ? concat(", ", *losses.last, " before the last") : "")
              << '\n';
}

void write_to(const std::string& file, const std::string& contents, const char* what) {
  if (file.empty()) return;
  write_file(file, contents);
  std::cout << what << file << '\n';
}

using TableValues = std::map<const Parameter*, Tensor>;

// A record of the rows of a run, and a report of how the rows moved.
class Inspection {
 public:
  Inspection(const CommandLine& line, const Options& options, const Corpus& corpus,
             Session& session)
      : options_(options), corpus_(corpus), session_(session), rows_(session.model()) {
    session.run().add(rows_);
    session.run().add(losses_);
    if (is_wanted(options.report))
      page_.emplace(line, session, corpus, options.report, rows_,
                    session.first_words(session.options().gpt.context), StateDict(), options.force);
  }

  RowHistory& rows() { return rows_; }

  void train(const std::function<void()>& steps) { page_ ? page_->train(steps) : steps(); }

  // Prints and writes the results. `starts` has the tables before the first steps; null for a saved
  // run.
  void finish(const std::string& steps, const TableValues* starts) {
    print_steps(corpus_, session_, losses_, steps);
    const TrainOptions& train = session_.options();
    Json report{{"text", corpus_.source()},
                {"tokenizer", train.tokenizer},
                {"batch", train.loader.batch},
                {"context", train.gpt.context},
                {"stride", train.stride},
                {"steps", session_.run().steps()},
                {"learning_rate", train.learning_rate},
                {"first_loss", losses_.first},
                {"last_loss", losses_.last}};
    add_tables(report, starts);
    add_gates(report);
    if (starts != nullptr)
      std::cout << "\nRows without a gradient that changed: " << changed_ << '\n';
    write_to(options_.json, report.dump(2) + "\n", "JSON in    ");
    write_to(options_.csv, csv_.str(), "Rows in    ");
    if (page_) page_->finish();
  }

 private:
  void add_tables(Json& report, const TableValues* starts) {
    csv_ << TableReport::kCsvTitles;
    for (const TableHistory& history : rows_.tables()) {
      const TableReport table(history, session_.tokenizer());
      table.print(options_.rows, starts == nullptr);
      table.append_csv(csv_);
      Json& entry = report[table.name()] = table.to_json();
      if (starts == nullptr) continue;
      const std::size_t here = table.changed_without_gradient(starts->at(&history.table()));
      entry["rows_changed_without_gradient"] = here;
      changed_ += here;
    }
  }

  void add_gates(Json& report) const {
    for (const MemoryGates& gate : read_gates(session_.model(), session_.training_ids())) {
      print(gate, session_.training_ids(), session_.tokenizer());
      report["gates"].push_back(
          {{"block", gate.block}, {"mean", mean_of(gate.values)}, {"values", gate.values}});
    }
  }

  const Options& options_;
  const Corpus& corpus_;
  Session& session_;
  RowHistory rows_;
  Losses losses_;
  std::optional<TextReport> page_;
  std::ostringstream csv_;
  std::size_t changed_ = 0;  // rows that changed without a gradient
};

void inspect_first_steps(const CommandLine& line, const Options& options) {
  const Corpus corpus = Corpus::find(options.corpus);
  const auto session = first_steps(options.train, corpus);
  check_files(options, corpus.files());
  Inspection inspection(line, options, corpus, *session);
  const TableValues starts = values_of(session->model());
  inspection.train([&] { session->run().train(); });
  inspection.finish(steps_text(session->options()), &starts);
}

void inspect_run(const CommandLine& line, const Options& options) {
  ReplayedRun replayed(options.run, options.from, options.corpus);
  if (!options.explained.row.empty()) return explain_row(replayed, options.explained);
  std::vector<std::string> read = replayed.corpus().files();
  for (const std::string& table : replayed.table_files()) read.push_back(table);
  check_files(options, read);
  Inspection inspection(line, options, replayed.corpus(), replayed.session());
  const bool trains = is_wanted(options.report) || !replayed.has_history();
  if (trains)
    inspection.train([&] { replayed.train(); });
  else
    replayed.load(inspection.rows());
  inspection.finish(steps_text(replayed, options.run, trains), nullptr);
}

void show_words(const CommandLine& line, const Options& options) {
  constexpr std::size_t kNearest = 10;
  std::vector<Output> outputs = outputs_of_vectors(options.vectors);
  outputs.push_back({"--json", options.json, kNearestJson});
  check_outputs(outputs, {options.run}, options.force);
  const WordVectorsOfRun run = read_word_vectors(options.run);
  if (!options.near.empty())
    return show_nearest(run, options.near, line.was_given("--rows") ? options.rows : kNearest,
                        options.json);
  write_word_vectors(options.vectors, *run.tokenizer, run.vectors);
  std::cout << "Vectors in " << options.vectors << '\n';
}

OptionTable option_table_of(Options& o) {
  OptionTable first_steps{
      {"--positions",
       choice(
           o.train.gpt.positions,
           {{"learned", Positions::kLearned}, {"t5", Positions::kT5}, {"shaw", Positions::kShaw}}),
       "position encoding; t5 and shaw train a GPT of one block and show its distance tables"},
      {"--steps", &o.train.steps, "training steps", whole_number(1)},
      {"--learning-rate", &o.train.learning_rate, "learning rate of SGD", finite_number(0)}};
  const OptionTable of_runs = option_table_of(o.train);
  for (const char* name :
       {"--tokenizer", "--vocabulary", "--context", "--stride", "--batch", "--width", "--layers",
        "--seed", "--ngrams", "--ngram-rows", "--ngram-heads", "--ngram-width", "--ngram-layers",
        "--ngram-rate", "--ngram-kernel", "--ngram-seed", "--ngram-fold", "--ngram-zero-init"}) {
    Option& option = first_steps.emplace_back(*find(of_runs, name));
    option.rules.common = false;
    if (option.name == "--layers") option.rules.applies_when = {{"--ngrams"}};
  }
  first_steps = under("First steps of a small model (without RUN)", std::move(first_steps));
  const OptionTable listed =
      joined({{{"--rows", &o.rows, "rows to print per table", whole_number(0)},
               {"--json", &o.json, "write the whole report to this JSON file", file_name()},
               {"--csv", &o.csv, "write a line for each row to this CSV file", file_name()}},
              option_table_of(o.report),
              {force_option(o.force)}});
  const auto names = [](const OptionTable& table) {
    std::vector<std::string> all;
    for (const Option& option : table) all.push_back(option.name);
    return all;
  };
  const OptionTable run{
      {"--corpus", &o.corpus,
       "text file, or .bin files of token ids (default: The Verdict); with RUN, the new location "
       "of its corpus",
       file_name()},
      {"RUN", &o.run,
       "checkpoint of the run to show; the run is trained again for --report and --explain, and if "
       "train did not record its rows",
       file_name() + excludes(names(first_steps))},
      {"--from", &o.from, "earlier checkpoint of RUN to train again from (default: its start)",
       file_name() + needs("RUN")},
      {"--explain", &o.explained.row,
       "explain why this row of RUN moved: an index, or a token (\"'3'\" is the token 3)",
       not_empty("TEXT", "an index or a token") + needs("RUN") + excludes(names(listed))},
      {"--table", &o.explained.table, "table of the row to explain (default: the table of tokens)",
       needs("--explain")},
      {"--explain-steps", &o.explained.steps, "steps to show with --explain",
       whole_number(1) + needs("--explain")}};
  const OptionRules of_words = needs("RUN") + excludes({"--explain", "--from", "--corpus", "--csv",
                                                        "--report", "--report-data", "--log"});
  const OptionTable words{
      {"--near", &o.near, "show the tokens of RUN nearest to this token, by cosine",
       not_empty("TEXT", "an index or a token") + of_words},
      {"--vectors", &o.vectors,
       "write the vectors of all tokens of RUN to this file, in NumPy's format if its name ends in "
       ".npy, otherwise in word2vec's text format",
       file_name() + of_words + excludes({"--near", "--rows", "--json"})}};
  return joined({run, words, listed, first_steps});
}

}  // namespace

int rows_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad rows",
      "Show what embedding rows learn: which rows of the token, position and n-gram tables get "
      "gradients, how large the gradients are, and how far the rows move, in the first steps of a "
      "small model or in a saved run.",
      option_table_of(options));
  line.parse(argc, argv);
  if (!options.near.empty() || !options.vectors.empty())
    show_words(line, options);
  else
    options.run.empty() ? inspect_first_steps(line, options) : inspect_run(line, options);
  return 0;
}

}  // namespace rowgrad
