// Trains a language model or word vectors on text, by default Edith Wharton's The Verdict.

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/options/train_settings.hpp>
#include <rowgrad/examples/rowgrad/output/first_rank.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>
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

// Returns true if the run saves to the file that it resumes.
bool continues_file(const Options& options) {
  std::error_code none;
  return std::filesystem::equivalent(options.save, options.resume, none);
}

// Checks the output files of the first rank. Throws std::runtime_error if a file cannot be written
// or is also an input.
void check_files(const Options& options) {
  std::vector<std::string> read = options.corpus;
  read.insert(read.end(), {options.file, tokenizer_file(options.train.tokenizer)});
  for (const char* name : {"/model.safetensors", "/config.json"})
    if (!options.gpt2.empty()) read.push_back(options.gpt2 + name);
  if (!continues_file(options)) read.push_back(options.resume);
  std::vector<Output> outputs{
      {"--metrics", options.metrics, kLossesCsv},
      {"--json", options.json, kRunJson},
      {"--row-list", options.row_list, kRowList},
      {"--gpt2-export", options.gpt2_export, kGpt2Weights},
      {"--gpt2-export", gpt2_config_path(options.gpt2_export), kCheckedLater},
      {"--save", options.save, kRunFile}};
  for (const std::string& table : options.train.table_paths())
    outputs.push_back({"--ngram-file", table, kCheckedLater});
  for (Output& output : outputs_of_vectors(options.vectors)) outputs.push_back(std::move(output));
  for (Output& output : outputs_of(options.report)) outputs.push_back(std::move(output));
  check_outputs(outputs, read, options.force);
}

// Checks the output files of another rank.
void check_files_of_rank(const Options& options, std::size_t rank) {
  std::vector<Output> outputs;
  if (options.train.shard_tables) outputs.push_back({"--save", options.save, kRunFile});
  for (const std::string& table : options.train.table_paths(rank))
    outputs.push_back({"--ngram-file", table, kCheckedLater});
  check_outputs(outputs, {}, options.force);
}

// Returns the step of the run that --save will overwrite, or nullopt if there is none.
std::optional<std::uint64_t> replaced_step(const Options& options) {
  std::error_code none;
  const std::string& path = options.save;
  if (continues_file(options) || !std::filesystem::is_regular_file(path, none)) return std::nullopt;
  try {
    const StateDict file = read_safetensors(path, [](const std::string& name, const Shape& shape) {
      return name == "steps" && shape.empty();
    });
    return file.contains("steps") ? std::optional(file.count("steps")) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// Starts a new run, or resumes a saved one.
std::unique_ptr<Session> make_session(const CommandLine& line, const Options& options,
                                      const Corpus& corpus, const StateDict& saved,
                                      ProcessGroup* ranks) {
  if (!options.resume.empty()) {
    auto session = Session::resume(saved, options.resume, corpus, ranks);
    session->set_options(options.train);
    return session;
  }
  TrainOptions train = options.train;
  if (ranks != nullptr && !line.was_given("--slices")) train.slices = ranks->size();
  if (corpus.has_ids() && !line.was_given("--tokenizer")) train.tokenizer = "gpt2";
  const StateDict weights =
      options.gpt2.empty() ? StateDict() : read_gpt2(line, options.gpt2, train);
  auto tokenizer = corpus.make_tokenizer(train.tokenizer, train.vocabulary, train.words);
  if (!weights.empty()) {
    const std::size_t rows = gpt2_options(weights, 1).vocabulary;
    check_argument(tokenizer->size() == rows, "--tokenizer ", train.tokenizer, " has ",
                   tokenizer->size(), " ids, but the weights of --gpt2 have ", rows);
  }
  auto session = Session::create(train, std::move(tokenizer), corpus, ranks);
  if (!weights.empty()) load_gpt2_weights(dynamic_cast<GptModel&>(session->model()), weights);
  return session;
}

bool shows_text(const Options& options) {
  return options.sample.max_new_tokens > 0 || is_wanted(options.report);
}

// Encodes the prompt before training, so that an invalid prompt is reported at once.
Ids encode_prompt(const Session& session, const Options& options) {
  if (!shows_text(options) || options.prompt.empty()) return session.first_words();
  Ids ids = session.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " encodes to no tokens");
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
  facts["bytes per element"] = concat(sizeof(real));
  check_same_on_all(ranks, facts);
}

// Stops a run of word vectors whose mean loss since the last check exceeds the loss of untrained
// vectors by more than a tenth. Checks after each epoch and at the end, before files are written.
class StopsOnDivergence : public TrainingCallback {
 public:
  explicit StopsOnDivergence(const TrainOptions& options)
      : untrained_((1 + static_cast<double>(options.negatives)) * std::numbers::ln2) {}

  void after_step(const TrainingRun& run, const StepResult& result) override {
    sum_ += result.loss.value_or(0);
    steps_ += result.loss ? 1 : 0;
    if (std::ranges::any_of(result.records, &TrainingRecord::ends_epoch)) at_end(run);
  }
  void at_end(const TrainingRun& run) override {
    const double loss = std::exchange(sum_, 0) / std::max(std::exchange(steps_, 0), 1.0);
    check_runtime(loss <= 1.1 * untrained_, "the run has diverged: the mean training loss is ",
                  loss, " at step ", run.steps(), ", expected less than ", untrained_,
                  ", the loss of untrained vectors; try a lower --learning-rate or --batch, or a "
                  "--subsample such as 1e-4");
  }

 private:
  double untrained_, sum_ = 0, steps_ = 0;
};

// Trains up to the last step. All ranks save their table files and shards, but only the first rank
// writes the checkpoint.
void train(const Options& options, Session& session, std::optional<FirstRank>& first) {
  TrainingRun& run = session.run();
  StopsOnDivergence diverged(session.options());
  if (session.options().has_word_vectors()) run.add(diverged);
  RunFile checkpoint(
      options.save,
      [&](const std::string& path) { session.save(path, first ? first->watched() : StateDict()); },
      options.save_every, {.all_ranks = true});
  run.add(checkpoint);
  const std::size_t last_step = options.stop_after > 0 ? options.stop_after : kNoLimit;
  // Table files can only be restored to a checkpoint, so a new run writes a checkpoint before its
  // first step.
  if (run.steps() == 0 && !session.options().table_paths().empty()) checkpoint.rewrite();
  if (first)
    first->train(last_step);
  else
    run.train(last_step);
}

void run(const CommandLine& line, const Options& options, const std::string& changed,
         StateDict saved) {
  const std::unique_ptr<ProcessGroup> ranks = program_ranks(options.rank_timeout);
  const std::size_t rank = ranks == nullptr ? 0 : ranks->rank();
  rank == 0 ? check_files(options) : check_files_of_rank(options, rank);
  const std::optional<std::uint64_t> replaced = replaced_step(options);
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));
  const Corpus corpus = Corpus::find(options.corpus);
  const auto session = make_session(line, options, corpus, saved, ranks.get());
  const StateDict watched = saved.part("watched");
  saved = StateDict();
  std::optional<FirstRank> first;
  const Ids prompt = encode_prompt(*session, options);
  if (rank == 0) first.emplace(options, corpus, *session, prompt);
  if (options.sample.past_context == PastContext::kSlidingWindow)
    as_language_model(session->model(), "--past-context slide")
        .sliding_decoder();  // throws before training if the model cannot slide
  if (ranks != nullptr) check_ranks(*ranks, *session);
  const std::vector<std::string> others = other_arithmetic(ranks.get());
  if (first) first->start(replaced, changed, others);

  const HeldInterrupts until_they_stop_it;
  StopsOnInterrupts interrupts;
  session->run().add(interrupts);
  std::optional<TrainingRecord> losses;
  if (options.evaluate_first && session->run().steps() == 0) losses = session->evaluate_all();
  if (first) first->watch(line, losses, watched);
  train(options, *session, first);
}

}  // namespace

int train_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad train",
      "Train a language model on text: a next-token model (embeddings of the last tokens, hidden "
      "layers, linear head) or, with --model gpt, a GPT. Or train word vectors, with --model "
      "skip-gram or cbow. The default is a next-token model of the "
      "characters in Edith Wharton's The Verdict, which trains in less than a minute.",
      option_table_of(options));
  StateDict saved;
  std::string changed;
  const TrainFiles files{
      .options_text =
          [](const std::string& path) { return without_byte_order_mark(read_file(path), path); },
      .saved_run =
          [&](const std::string& path) {
            saved = read_safetensors(path);
            return saved_options(saved, path, "resumed");
          }};
  line.parse(argc, argv, [&](Settings& settings, bool reads_files) {
    complete(settings, reads_files ? &files : nullptr, changed);
  });
  if (!options.resume.empty() && options.corpus.empty())
    options.corpus = saved_corpus(saved, options.resume);
  run(line, options, changed, std::move(saved));
  return 0;
}

}  // namespace rowgrad
