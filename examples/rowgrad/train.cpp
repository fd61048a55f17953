// Trains a model on Edith Wharton's The Verdict, or any other text: a next-token model or a GPT.
// With --book, it is the run of chapter 5 or of appendix D of Raschka's "Build a Large Language
// Model (From Scratch)", number by number.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/row_list_text.hpp>
#include <rowgrad/examples/rowgrad/output/run_output.hpp>
#include <rowgrad/examples/rowgrad/output/text_report.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/gpt2_folder.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/ranks.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>
#include <rowgrad/layers/gpt/gpt2_weights.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

// The options of the run, and of the program's other work.
struct Options {
  std::string file = "";  // of options
  std::vector<std::string> corpus = {};
  std::string prompt = "";
  GenerateOptions sample{.count = 200, .temperature = 0.8};
  std::size_t sample_every = 0;
  bool sample_epochs = false;
  bool evaluate_first = false;
  std::string book = "";         // the book's run to compare with: "5" or "d"
  std::string gpt2 = "";         // folder of weights to start from
  std::string gpt2_export = "";  // file for the trained weights, in the same layout
  std::string save = "";
  std::size_t save_every = 0;
  std::string resume = "";
  std::string metrics = "";
  std::string json = "";
  std::string row_list = "";
  ReportFiles report = {};
  bool force = false;
  std::size_t stop_after = 0;
  std::size_t threads = 0;
  double rank_patience = 50;  // seconds

  TrainOptions train = {};
};

// Values that --book and --gpt2 give to options that are not on the command line.
constexpr const char* kChapter5 = R"({
    "tokenizer": "gpt2", "context": 256, "stride": 256, "batch": 2, "draw_as_pytorch": true,
    "width": 768, "heads": 12, "layers": 12, "bias": true, "initialization": "pytorch",
    "dropout": 0.1, "tie": false, "steps": 0, "epochs": 10, "learning_rate": 4e-4, "beta2": 0.999,
    "weight_decay_for": "all", "schedule": "constant", "warmup": 0, "floor": 0, "clip": 0,
    "evaluate_every": 5, "evaluate_batches": 5, "evaluate_first": true,
    "prompt": "Every effort moves you", "sample": 50, "sample_every": 0, "sample_epochs": true,
    "temperature": 0
})";

// Changes for appendix D. The printed book clips from step 28 on.
constexpr const char* kAppendixD = R"({
    "epochs": 15, "learning_rate": 1e-3, "schedule": "cosine", "warmup": 27, "warmup_start": 0.01,
    "floor": 0.01, "clip": 1, "clip_from": 27, "evaluate_batches": 1, "evaluate_first": false
})";

// For a model that can already write. The context is at most the one of the weights, and the stride
// is the context.
constexpr const char* kGpt2 = R"({
    "tokenizer": "gpt2", "context": 256, "batch": 2, "steps": 0, "epochs": 1,
    "learning_rate": 5e-5, "warmup": 0, "evaluate_every": 0, "evaluate_first": true,
    "prompt": "Every effort moves", "sample": 30, "sample_every": 0, "temperature": 0
})";

// Sets options that are not given, from the saved run or, for a new run, by its model. Returns the
// differences to the saved run, for people.
std::string complete(CommandLine& line, Options& options, Checkpoint& saved) {
  if (!options.file.empty())
    line.take_file(without_byte_order_mark(read_file(options.file), options.file), options.file);
  std::string& table = options.train.ngram_file;
  if (!table.empty())
    table = std::filesystem::absolute(table);  // so that it is found from other folders
  const bool resumes = !options.resume.empty();
  if (resumes) saved = read_safetensors(options.resume);
  const TrainOptions of_run =
      resumes ? saved_options(saved, options.resume, "resumed") : TrainOptions();
  if (of_run.is_gpt() || !options.book.empty() || !options.gpt2.empty())
    line.set_if_not_given(R"({"model": "gpt"})");
  if (options.train.is_gpt()) line.set_if_not_given(kGptDefaults);
  if (options.train.is_gpt()) line.set_if_not_given(R"({"sample_every": 500})");
  if (!options.book.empty()) line.set_if_not_given(kChapter5);
  if (options.book == "d") line.set_if_not_given(kAppendixD);
  if (!options.gpt2.empty()) line.set_if_not_given(kGpt2);
  if (resumes && options.corpus.empty()) options.corpus = saved_corpus(saved, options.resume);
  if (resumes) return take_saved(line, options.train, of_run);
  complete(line, options.train);
  return "";
}

void check_gpt2(const CommandLine& line, Options& options) {
  for (const char* name : {"--width", "--heads", "--layers", "--positions", "--tie", "--qkv-bias",
                           "--bias", "--gelu", "--norm-epsilon", "--initialization"})
    check_argument(!line.was_given(name), name, " follows from the weights of --gpt2");
  // Another tokenizer may have no tokens for the prompt.
  if (line.was_given("--tokenizer") && !line.was_given("--prompt")) options.prompt = "";
}

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const Session& training, const Options& options) {
  if (options.prompt.empty()) return training.first_words();
  Ids ids = training.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " has no tokens");
  return ids;
}

std::unique_ptr<Session> start(const CommandLine& line, const Options& options,
                               const Corpus& corpus, ProcessGroup* ranks) {
  TrainOptions train = options.train;
  if (ranks != nullptr && !line.was_given("--shards")) train.shards = ranks->size();
  if (corpus.has_ids() && !line.was_given("--tokenizer")) train.tokenizer = "gpt2";
  const Checkpoint weights =
      options.gpt2.empty() ? Checkpoint() : read_gpt2(line, options.gpt2, train);
  auto tokenizer = corpus.make_tokenizer(train.tokenizer, train.vocabulary);
  if (!weights.empty()) {
    const std::size_t rows = gpt2_options(weights, 1).vocabulary;
    check_argument(tokenizer->size() == rows, "--tokenizer ", train.tokenizer, " has ",
                   tokenizer->size(), " ids, the weights of --gpt2 are for ", rows);
  }
  auto training = std::make_unique<Session>(train, std::move(tokenizer), corpus, ranks);
  if (!weights.empty()) load_gpt2_weights(dynamic_cast<GptModel&>(training->model()), weights);
  return training;
}

// Throws std::runtime_error for files that cannot be written, or are also read.
void check_files(const Options& options) {
  std::vector<std::string> read = options.corpus;
  read.insert(read.end(), {options.file, tokenizer_file(options.train.tokenizer)});
  for (const char* name : {"/model.safetensors", "/config.json"})
    if (!options.gpt2.empty()) read.push_back(options.gpt2 + name);
  std::error_code none;
  const bool continues_file = std::filesystem::equivalent(options.save, options.resume, none);
  if (!continues_file) read.push_back(options.resume);
  std::vector<Output> outputs{
      {"--metrics", options.metrics, kLossesCsv},
      {"--json", options.json, kRunJson},
      {"--row-list", options.row_list, kRowList},
      {"--gpt2-export", options.gpt2_export, kGpt2Weights},
      {"--gpt2-export", gpt2_config_path(options.gpt2_export), kCheckedLater},
      {"--save", options.save, kRunFile}};
  for (const std::string& table : options.train.table_paths())
    outputs.push_back({"--ngram-file", table, kCheckedLater});
  for (Output& output : outputs_of(options.report)) outputs.push_back(std::move(output));
  check_outputs(outputs, read, options.force);
}

// Checks the files that a rank other than the first writes.
void check_files_of_rank(const Options& options, std::size_t rank) {
  std::vector<Output> outputs;
  if (options.train.split_tables) outputs.push_back({"--save", options.save, kRunFile});
  for (const std::string& table : options.train.table_paths(rank))
    outputs.push_back({"--ngram-file", table, kCheckedLater});
  check_outputs(outputs, {}, options.force);
}

// Returns the step of the run whose file will be replaced; nullopt if the file has no whole run.
std::optional<std::uint64_t> replaced_step(const Options& options) {
  std::error_code none;
  const std::string& path = options.save;
  if (path == options.resume || !std::filesystem::is_regular_file(path, none)) return std::nullopt;
  try {
    const Checkpoint file = read_safetensors(path);
    return file.contains("steps") ? std::optional(file.count("steps")) : std::nullopt;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

void check_ranks(ProcessGroup& ranks, const Session& training) {
  TrainOptions options = training.options();
  std::map<std::string, std::string> facts;
  for (const Option& option : option_table_of(options))
    facts[option.name.substr(2)] = json_of(option);
  facts["text"] = training.text_hash();
  facts["tokenizer"] = checksum(training.tokenizer().to_json());
  facts["step"] = concat(training.run.steps());
  facts["version of rowgrad"] = ROWGRAD_VERSION;
  facts["bytes of a number"] = concat(sizeof(real));
  check_same_on_all(ranks, facts);
}

// The run has the bits of this mix of machines.
void tell_other_arithmetic(ProcessGroup& ranks) {
  const std::vector<std::string> all = ranks.gather_lists(TrainingRun::arithmetic());
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      std::cout << "R" << ranks.name_of(rank).substr(1) << " computes with " << all[rank] << ", "
                << ranks.name_of(0) << " with " << all[0]
                << ": last bits may be others than on machines of one kind\n";
}

// The history of the table of tokens, with which all language models of these programs begin.
const TableHistory& of_tokens(RowHistory& rows, LanguageModel& model) {
  return rows.of(model.named_layers<Embedding>().at(0).second->table());
}

// Writes and prints the results at the end of a run.
class Results : public TrainingCallback {
 public:
  Results(const Options& options, const Corpus& corpus, Session& training, Samples& samples,
          RowHistory& rows, std::optional<TextReport>& report)
      : options_(options),
        corpus_(corpus),
        training_(training),
        samples_(samples),
        rows_(rows),
        report_(report),
        first_step_(training.run.steps()) {}

  void at_end(const TrainingRun& run) override {
    RunResults results;
    if (training_.validation_ids() != nullptr) add_validation(results);
    if (options_.sample.count > 0 && !interrupted()) add_sample(results);
    write(results);
    say(run);
  }

 private:
  void add_validation(RunResults& results) {
    const double baseline = unigram_loss(training_.training_ids(), training_.evaluated_ids(),
                                         training_.tokenizer().size());
    const std::size_t batches = training_.run.parts().evaluation.batches;
    const bool is_part = batches > 0 && batches < training_.run.parts().validation->batches();
    results.validation_unigram_loss = baseline;
    if (interrupted()) return;
    const double loss = training_.validation_loss().value();
    check_runtime(std::isfinite(loss), "the validation loss became ", std::abs(loss),
                  "; try a smaller --learning-rate or --clip");
    results.validation_loss = loss;
    if (report_)
      report_->log().add("evaluation", {{"training_loss", Json()}, {"validation_loss", loss}});
    std::cout << "\nValidation " << bits(loss) << " a token"
              << (is_part ? concat(" of ", batches, " batches") : "")
              << "; knowing only how often each token occurs gives " << bits(baseline) << '\n';
  }

  void add_sample(RunResults& results) {
    std::cout << "\nSample, continuing '" << training_.tokenizer().decode(samples_.prompt())
              << "':\n";
    results.sample = samples_.write(training_.run);
    std::cout << *results.sample << std::endl;
    training_.samples.push_back({training_.run.steps(), *results.sample});
    if (report_) report_->log().add("sample", {{"text", *results.sample}});
  }

  void write(const RunResults& results) {
    if (!options_.json.empty()) write_file(options_.json, run_json(training_, corpus_, results));
    if (!options_.row_list.empty()) write_rows();
    if (options_.gpt2_export.empty()) return;
    auto& gpt = dynamic_cast<GptModel&>(training_.model());
    write_safetensors(options_.gpt2_export, gpt2_weights(gpt));
    const std::filesystem::path config = gpt2_config_path(options_.gpt2_export);
    if (!config.empty()) write_file(config, gpt2_config(gpt.options()));
  }

  void write_rows() {
    const char separator = options_.row_list.ends_with(".csv") ? ',' : '\t';
    const TableHistory& tokens = of_tokens(rows_, training_.model());
    listed_ = list_rows(tokens);
    write_file(options_.row_list, rows_text(tokens, listed_, &training_.tokenizer(), separator));
  }

  std::ptrdiff_t count_of(Learned learned) const {
    return std::ranges::count(listed_, learned, &ListedRow::learned);
  }

  static void say_where(const char* what, const std::string& file, const std::string& more = "") {
    if (!file.empty()) std::cout << what << file << more << '\n';
  }

  void say(const TrainingRun& run) const {
    std::cout << '\n';
    if (interrupted())
      std::cout << "Stopped by " << interruption() << " at step " << run.steps() << '\n';
    if (run.parts().ranks != nullptr)
      print_exchange(training_, run.parts().ranks->group(), run.steps() - first_step_);
    const bool has_config = !gpt2_config_path(options_.gpt2_export).empty();
    const std::string rest = run.has_ended() ? "" : "; go on with --resume " + options_.save;
    say_where("Saved to   ", options_.save, rest);
    say_where("Weights in ", options_.gpt2_export,
              concat(has_config ? " and config.json beside it" : "", ", as Hugging Face's GPT-2"));
    say_where("Losses in  ", options_.metrics);
    say_where("Run in     ", options_.json);
    const std::uint64_t since = rows_.first_step().value_or(run.steps());
    say_where("Rows in    ", options_.row_list,
              concat(": of ", listed_.size(), " tokens, ", count_of(Learned::kNo),
                     " were never looked up, and ", count_of(Learned::kHardly), " hardly moved",
                     since > 0 ? concat(", since step ", since) : ""));
    if (options_.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
  }

  const Options& options_;
  const Corpus& corpus_;
  Session& training_;
  Samples& samples_;
  RowHistory& rows_;
  std::optional<TextReport>& report_;
  std::vector<ListedRow> listed_;
  std::size_t first_step_;
};

void check_gpt2_export(const Session& training, const Options& options, bool writes) {
  const auto* gpt = dynamic_cast<const GptModel*>(&training.model());
  check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
  check_gpt2_layout("--gpt2-export", gpt->options());
  check_argument(gpt->memories.size() == 0, "--gpt2-export: GPT-2 has no memories of --ngrams");
  const std::filesystem::path config = gpt2_config_path(options.gpt2_export);
  check_runtime(!writes || options.force || !file_exists(config) ||
                    read_file(config) == gpt2_config(gpt->options()),
                config.string(), ": is there already, for another model; --force replaces it");
}

// Prints where a run goes on, and with which changes.
void print_resumed(const TrainingRun& run, const std::string& file, const std::string& changed) {
  std::cout << "Going on from " << file << ", step " << run.steps()
            << (changed.empty() ? "" : ", with " + changed) << '\n';
  if (!run.loaded_arithmetic().empty() && run.loaded_arithmetic() != TrainingRun::arithmetic())
    std::cout
        << "From here on, last bits may be others than those of a run that never stopped: the "
           "checkpoint was computed with "
        << run.loaded_arithmetic() << "; this process computes with " << TrainingRun::arithmetic()
        << '\n';
}

void run(const CommandLine& line, const Options& options, const std::string& changed,
         Checkpoint saved) {
  const std::unique_ptr<ProcessGroup> ranks = program_ranks(options.rank_patience);
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  std::optional<SilentOutput> silent;
  if (!leads) silent.emplace();
  leads ? check_files(options) : check_files_of_rank(options, ranks->rank());
  const std::optional<std::uint64_t> replaced = leads ? replaced_step(options) : std::nullopt;
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));

  const bool shows_text = options.sample.count > 0 || is_wanted(options.report);
  check_argument(shows_text || !line.was_given("--prompt"),
                 "--prompt is for --sample above 0 and --report, not for 0");
  const Corpus corpus = Corpus::find(options.corpus);
  const auto training = options.resume.empty()
                            ? start(line, options, corpus, ranks.get())
                            : Session::resume(saved, options.resume, corpus, ranks.get());
  if (!options.resume.empty()) training->set_options(options.train);
  const Checkpoint watched = saved.part("watched");
  saved = Checkpoint();
  TrainingRun& run = training->run;
  if (!options.gpt2_export.empty()) check_gpt2_export(*training, options, leads);
  const Ids prompt = shows_text ? encode_prompt(*training, options) : training->first_words();
  if (options.sample.past_context == PastContext::kSlide)
    training->model().sliding_reader();  // throws now rather than after training
  if (ranks != nullptr) check_ranks(*ranks, *training);
  print_start(*training, corpus);
  if (replaced) std::cout << "Replaces " << options.save << ", a run at step " << *replaced << '\n';
  if (!options.resume.empty()) print_resumed(run, options.resume, changed);
  if (ranks != nullptr) tell_other_arithmetic(*ranks);

  const HeldInterrupts until_they_stop_it;
  StopsOnInterrupts interrupts;
  run.add(interrupts);
  if (options.evaluate_first && run.steps() == 0)
    if (const auto losses = training->evaluate_all())
      print_losses(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  RowHistory rows(training->model(), run.tables());
  const bool watches = leads && (is_wanted(options.report) || !options.row_list.empty());
  if (watches) rows.load_state_dict(watched.part("rows"));
  if (watches) run.add(rows);
  std::optional<TextReport> report;
  if (leads && is_wanted(options.report))
    report.emplace(line, *training, corpus, options.report, rows, prompt, watched.part("log"),
                   options.force);
  ProgressLines progress(
      options.book.empty() ? BookLog() : book_log(options.book, training->options().clip_from));
  GenerateOptions sample = options.sample;
  sample.on_token = [](std::int32_t) { return !interrupted(); };
  Samples samples(training->samples, training->tokenizer(),
                  {.prompt = prompt,
                   .generate = sample,
                   .seed = training->options().seed,
                   .every = options.sample_every,
                   .epochs = options.sample_epochs,
                   .show = [&](const std::string& text) {
                     progress.clear();
                     std::cout << text << '\n' << std::endl;
                     if (report && !interrupted()) report->log().add("sample", {{"text", text}});
                   }});
  // All ranks save, as each has its own files of tables; but only the first writes the file.
  std::function<void()> save, write_metrics;
  if (!options.save.empty())
    save = [&] {
      Checkpoint watching;
      if (watches) watching.put("rows", rows.state_dict());
      if (report) watching.put("log", report->log().state_dict());
      training->save(options.save, watching);
    };
  if (!options.metrics.empty())
    write_metrics = [&] { write_file(options.metrics, metrics_csv(run)); };
  RunFile checkpoint(save, options.save_every, {.all_ranks = true});
  RunFile metrics(write_metrics);
  Results results(options, corpus, *training, samples, rows, report);
  if (leads) run.add(progress);
  if (leads) run.add(samples);
  run.add(checkpoint);
  if (leads) run.add(metrics);
  if (leads) run.add(results);
  const std::size_t last_step = options.stop_after > 0 ? options.stop_after : kNoLimit;
  if (run.has_ended() || run.steps() >= last_step)
    std::cout << "Nothing is left to do: the run is at step " << run.steps() << '\n';
  // Tables can go back to the checkpoint before the last one, but not to none: so a new run has one
  // before they change.
  if (run.steps() == 0 && !training->options().table_paths().empty()) checkpoint.rewrite();
  const auto train = [&] { run.train(last_step); };
  report ? report->train(train) : train();
  if (report) report->finish();
}

OptionTable own_table(Options& o) {
  const OptionRules samples = is_for("--sample"), gpt = is_for("--model", {"gpt"});
  const OptionTable text{
      {"--prompt", &o.prompt, "text that samples continue; the corpus's first words if not given"},
      {"--sample", &o.sample.count,
       "tokens to sample when trained; 0 for none; tokens past --context are slow, as each one "
       "reads the whole context again, unless --past-context is slide",
       whole_number(0)},
      {"--sample-every", &o.sample_every, "steps between samples; 0 for none",
       whole_number(0) + samples},
      {"--sample-epochs", &o.sample_epochs, "a sample after each epoch", samples},
      past_context_option(o.sample.past_context, samples + gpt),
      {"--temperature", &o.sample.temperature, "of sampling; 0 takes the likeliest token",
       finite_number(0) + samples},
      {"--top-k", &o.sample.top_k, "sample among the N likeliest tokens; 0 for all",
       whole_number(0) + samples + is_for("--temperature")},
      {"--evaluate-first", &o.evaluate_first,
       "first the losses before training, over the whole text"}};
  const OptionTable files{
      {"--save", &o.save,
       "file to keep the run in, written after each epoch and on Ctrl-C; with --report or "
       "--row-list also the history of rows: for each with a gradient, some 500 bytes and twice "
       "its values",
       file_name()},
      {"--save-every", &o.save_every,
       "steps after which it is also written; 0 for none within an epoch",
       whole_number(0) + needs("--save")},
      {"--resume", &o.resume,
       "file of --save to go on from, with the same result as a run that never stopped",
       file_name()},
      {"--options", &o.file,
       "JSON file of options, as a run saves them; the command line goes before it", file_name()},
      {"--metrics", &o.metrics, "CSV file of losses by epoch", file_name()},
      {"--json", &o.json, "JSON file of the whole run", file_name()},
      {"--row-list", &o.row_list,
       "file with a line for each token: how often it was looked up, how far its row moved; with "
       "commas if it ends in .csv, else with tabs",
       file_name()},
      force_option(o.force)};
  const OptionTable models{
      {"--book", &o.book,
       "a run of \"Build a Large Language Model (From Scratch)\", and its log beside this one's; "
       "other options change it. 5: chapter 5, GPT-2's tokens and sizes, 10 epochs; d: "
       "appendix D, with warm-up, cosine decay and, from step 27 on, clipping (the printed "
       "book has --clip-from 28), 15 epochs",
       one_of({"5", "d"}) + excludes({"--resume"}) + gpt},
      {"--gpt2", &o.gpt2, "folder with GPT-2's model.safetensors, whose weights to start from",
       file_name("FOLDER") + excludes({"--book", "--resume"}) + gpt},
      {"--gpt2-export", &o.gpt2_export,
       "file for the trained weights as Hugging Face's GPT-2 has them", file_name()}};
  const OptionTable machine{
      {"--stop-after", &o.stop_after,
       "stop when the run has made N steps, for --resume to go on; 0 for its end", whole_number(0)},
      {"--rank-patience", &o.rank_patience,
       "seconds for which ranks of mpirun wait for one of them", finite_number(1)},
      {"--threads", &o.threads, "threads to use; one for each core if not given",
       whole_number(1, 1024)}};
  return joined({under("Samples", text), under("Files", joined({files, option_table_of(o.report)})),
                 under("GPT-2 and the book", models), under("Stopping and processes", machine)});
}

// All options. --help lists some of them, and those that few ask for are in no help.
OptionTable option_table_of(Options& o) {
  const OptionTable text{
      {"--corpus", &o.corpus,
       "text file to train on instead of The Verdict, or files of token ids (.bin), one after "
       "another",
       file_name()}};
  const OptionTable all =
      under("", joined({text, option_table_of(o.train), own_table(o)}),
            {"--corpus", "--model",     "--tokenizer",     "--context",  "--batch",
             "--width",  "--layers",    "--heads",         "--dropout",  "--epochs",
             "--steps",  "--optimizer", "--learning-rate", "--schedule", "--seed",
             "--prompt", "--sample",    "--save",          "--resume",   "--report"});
  return under(kHidden, all,
               {"--beta2",         "--clip-from",       "--draw-as-pytorch", "--evaluate-first",
                "--gelu",          "--initialization",  "--ngram-decay",     "--ngram-fold",
                "--ngram-kernel",  "--ngram-seed",      "--ngram-silent",    "--ngram-updates",
                "--norm-epsilon",  "--qkv-bias",        "--rank-patience",   "--rotary-base",
                "--rotary-layout", "--sample-epochs",   "--shards",          "--shaw-max-distance",
                "--t5-buckets",    "--t5-max-distance", "--warmup-start"});
}

}  // namespace
int train_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad train",
      "Trains a model on a text: a next-token model (token embedding + positions, look-back, "
      "hidden\nlayers, linear head), or with --model gpt a GPT. Without options, on the "
      "characters of Edith\nWharton's The Verdict, in under a minute.",
      option_table_of(options));
  Checkpoint saved;
  std::string changed;
  line.parse(argc, argv, [&] { changed = complete(line, options, saved); });
  if (!options.gpt2.empty()) check_gpt2(line, options);
  run(line, options, changed, std::move(saved));
  return 0;
}

}  // namespace rowgrad
