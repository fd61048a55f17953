// Trains a model on Edith Wharton's The Verdict, or any other text: a next-token model or a GPT.
// With --book, it is the run of chapter 5 or of appendix D of Raschka's "Build a Large Language
// Model (From Scratch)", number by number.

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/options/train_settings.hpp>
#include <rowgrad/examples/rowgrad/output/first_rank.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
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

using Options = TrainSettings;

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

// Returns the step of the run whose file will be replaced; nullopt if the file has no run.
std::optional<std::uint64_t> replaced_step(const Options& options) {
  std::error_code none;
  const std::string& path = options.save;
  if (path == options.resume || !std::filesystem::is_regular_file(path, none)) return std::nullopt;
  try {
    const Checkpoint file = read_safetensors(path, [](const std::string& name, const Shape& shape) {
      return name == "steps" && shape.empty();
    });
    return file.contains("steps") ? std::optional(file.count("steps")) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Begins a run, or resumes the saved one.
std::unique_ptr<Session> make_session(const CommandLine& line, const Options& options,
                                      const Corpus& corpus, const Checkpoint& saved,
                                      ProcessGroup* ranks) {
  if (!options.resume.empty()) {
    auto session = Session::resume(saved, options.resume, corpus, ranks);
    session->set_options(options.train);
    return session;
  }
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
  auto session = Session::create(train, std::move(tokenizer), corpus, ranks);
  if (!weights.empty()) load_gpt2_weights(dynamic_cast<GptModel&>(session->model()), weights);
  return session;
}

void check_gpt2_export(const Session& session, const Options& options, bool writes) {
  const auto* gpt = dynamic_cast<const GptModel*>(&session.model());
  check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
  check_gpt2_layout("--gpt2-export", gpt->options());
  check_argument(gpt->memories.size() == 0, "--gpt2-export: GPT-2 has no memories of --ngrams");
  const std::filesystem::path config = gpt2_config_path(options.gpt2_export);
  check_runtime(!writes || options.force || !file_exists(config) ||
                    read_file(config) == gpt2_config(gpt->options()),
                config.string(), ": is there already, for another model; --force replaces it");
}

bool shows_text(const Options& options) {
  return options.sample.count > 0 || is_wanted(options.report);
}

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const Session& session, const Options& options) {
  if (!shows_text(options) || options.prompt.empty()) return session.first_words();
  Ids ids = session.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " has no tokens");
  return ids;
}

void check_ranks(ProcessGroup& ranks, const Session& session) {
  TrainOptions options = session.options();
  std::map<std::string, std::string> facts;
  for (const Option& option : option_table_of(options))
    facts[option.name.substr(2)] = json_of(option);
  facts["text"] = session.text_hash();
  facts["tokenizer"] = checksum(session.tokenizer().to_json());
  facts["step"] = concat(session.run().steps());
  facts["version of rowgrad"] = ROWGRAD_VERSION;
  facts["bytes of a number"] = concat(sizeof(real));
  check_same_on_all(ranks, facts);
}

// Trains up to the last step. All ranks save, as each has its own files of tables, but only the
// first one writes the file.
void train(const Options& options, Session& session, std::optional<FirstRank>& first) {
  TrainingRun& run = session.run();
  RunFile checkpoint(
      options.save,
      [&](const std::string& path) { session.save(path, first ? first->watched() : Checkpoint()); },
      options.save_every, {.all_ranks = true});
  run.add(checkpoint);
  if (first) run.add(*first);
  const std::size_t last_step = options.stop_after > 0 ? options.stop_after : kNoLimit;
  if (run.has_ended() || run.steps() >= last_step)
    std::cout << "Nothing is left to do: the run is at step " << run.steps() << '\n';
  // Tables can go back to the checkpoint before the last one, but not to none: so a new run has one
  // before they change.
  if (run.steps() == 0 && !session.options().table_paths().empty()) checkpoint.rewrite();
  const auto train_all = [&] { run.train(last_step); };
  first ? first->train(train_all) : train_all();
}

void run(const CommandLine& line, const Options& options, const std::string& changed,
         Checkpoint saved) {
  const std::unique_ptr<ProcessGroup> ranks = program_ranks(options.rank_patience);
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  std::optional<SilentOutput> silent;
  if (!leads) silent.emplace();
  leads ? check_files(options) : check_files_of_rank(options, ranks->rank());
  const std::optional<std::uint64_t> replaced = replaced_step(options);
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));
  check_argument(shows_text(options) || !line.was_given("--prompt"),
                 "--prompt is for --sample above 0 and --report, not for 0");

  const Corpus corpus = Corpus::find(options.corpus);
  const auto session = make_session(line, options, corpus, saved, ranks.get());
  const Checkpoint watched = saved.part("watched");
  saved = Checkpoint();
  if (!options.gpt2_export.empty()) check_gpt2_export(*session, options, leads);
  const Ids prompt = encode_prompt(*session, options);
  if (options.sample.past_context == PastContext::kSlide)
    session->model().sliding_reader();  // throws now rather than after training
  if (ranks != nullptr) check_ranks(*ranks, *session);

  print_start(*session, corpus);
  if (replaced) std::cout << "Replaces " << options.save << ", a run at step " << *replaced << '\n';
  if (!options.resume.empty()) print_resumed(session->run(), options.resume, changed);
  if (ranks != nullptr) print_other_arithmetic(*ranks);

  const HeldInterrupts until_they_stop_it;
  StopsOnInterrupts interrupts;
  session->run().add(interrupts);
  if (options.evaluate_first && session->run().steps() == 0)
    if (const auto losses = session->evaluate_all())
      print_losses(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  std::optional<FirstRank> first;
  if (leads) first.emplace(line, options, corpus, *session, prompt, watched);
  train(options, *session, first);
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
