#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/ranks.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/text_run.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_program.hpp>
#include <rowgrad/layers/gpt2_weights.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMostInTable = 24;  // tensors of a model

std::string describe_updates(const TrainOptions& options) {
  std::ostringstream text;
  text << options.optimizer << ", learning rate " << options.learning_rate;
  if (options.schedule != "constant") text << " (" << options.schedule << " schedule)";
  if (options.warmup > 0) text << ", " << options.warmup << " steps of warm-up";
  if (options.accumulate > 1) text << ", " << options.accumulate << " batches a step";
  if (options.momentum != 0) text << ", momentum " << options.momentum;
  if (options.weight_decay != 0)
    text << ", weight decay " << options.weight_decay
         << (options.decay == "matrices" ? " of matrices" : "");
  if (options.clip > 0) text << ", gradients clipped at norm " << options.clip;
  if (options.tie) text << "; the head is tied to the token table";
  return text.str();
}

bool runs_out(const TextRun& training) {
  return training.options().tokenizer == "bpe" &&
         training.tokenizer().size() < training.options().vocabulary;
}

// Text, tokens, batches and model, before training.
void print_start(const TextRun& training, const Corpus& corpus) {
  std::cout << "Text       " << corpus.source() << ", " << corpus.bytes() << " bytes"
            << (!corpus.has_checksums() ? "\n"
                : corpus.is_verified()  ? ", verified\n"
                                        : ", not verified; tokenize --verify does that\n")
            << "Tokens     " << training.options().tokenizer << ", " << training.tokenizer().size()
            << (runs_out(training) ? " ids, for the text has no more pairs; " : " ids; ")
            << training.training_ids().size() << " tokens to train on, "
            << training.validation_tokens() << " for validation\n"
            << "Batches    " << training.run.parts().loader.size() << " an epoch, each of "
            << training.options().batch << " windows of " << training.options().context
            << " tokens, stride " << training.options().stride << '\n'
            << "Computing  " << blas::describe() << '\n';
  std::cout << "Training   " << describe_updates(training.options()) << '\n';
  const std::size_t tensors = training.model().parameters().size();
  if (tensors <= kMostInTable) {
    std::cout << '\n' << training.model().summary();
  } else {
    std::cout << "Model      " << training.model().parameter_count() << " parameters in " << tensors
              << " tensors\n";
  }
  std::cout << '\n';
}

// How gradients went between ranks in the last `steps` steps.
void print_exchange(const TextRun& training, const ProcessGroup& ranks, std::size_t steps) {
  std::cout << "Exchanged  "
            << readable_count(static_cast<double>(ranks.bytes_sent()) /
                              static_cast<double>(std::max<std::size_t>(steps, 1)))
            << "B a step sent by each of " << ranks.size() << " ranks";
  const std::vector<Parameter*> parameters = training.model().parameters();
  const auto& ways = training.run.exchange().ways();
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i] == "gathered" || ways[i] == "owners")
      std::cout << "; rows of " << parameters[i]->name()
                << (ways[i] == "owners" ? " by owners" : " gathered");
  std::cout << '\n';
}

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const TextRun& training, const TrainProgram& options) {
  if (options.prompt.empty()) {
    const TokenSequence& ids = training.training_ids();
    return ids.slice(0, std::min<std::uint64_t>({ids.size(), 16, training.options().context}))
        .ids();
  }
  Ids ids = training.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " has no tokens");
  return ids;
}

std::unique_ptr<TextRun> start(const CommandLine& line, const TrainProgram& options,
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
  auto training = std::make_unique<TextRun>(train, std::move(tokenizer), corpus, ranks);
  if (!weights.empty()) training->start_from(weights);
  return training;
}

// Throws std::runtime_error for files that cannot be written, or are read, too.
void check_files(const TrainProgram& options) {
  std::vector<std::string> read = options.corpus;
  read.push_back(tokenizer_file(options.train.tokenizer));
  for (const char* name : {"/model.safetensors", "/config.json"})
    if (!options.gpt2.empty()) read.push_back(options.gpt2 + name);
  std::vector<std::string> written{options.metrics,     options.json,
                                   options.report.page, options.report.data,
                                   options.gpt2_export, gpt2_config_path(options.gpt2_export)};
  check_outputs(written, {options.resume});
  written.push_back(options.save);  // it may be the file to be resumed
  check_outputs(written, read);
}

void check_ranks(ProcessGroup& ranks, const TextRun& training) {
  nlohmann::json facts = nlohmann::json::parse(to_json(training.options()));
  facts["text (SHA-256)"] = training.text_hash();
  facts["tokenizer (SHA-256)"] = sha256(training.tokenizer().to_json());
  facts["step"] = training.run.steps();
  facts["version of rowgrad"] = ROWGRAD_VERSION;
  facts["bytes of a number"] = sizeof(real);
  check_same_on_all(ranks, facts);
}

// Options, sizes and history.
nlohmann::json run_json(const TextRun& training, const Corpus& corpus) {
  nlohmann::json history = nlohmann::json::array();
  const auto loss_json = [](std::optional<double> loss) {
    return loss ? nlohmann::json(*loss) : nlohmann::json();
  };
  for (const EpochRecord& record : training.run.history())
    history.push_back({{"epoch", record.epoch},
                       {"steps", record.steps},
                       {"training_loss", record.training_loss},
                       {"validation_loss", loss_json(record.validation_loss)},
                       {"tokens_per_second", record.tokens_per_second}});
  nlohmann::json evaluations = nlohmann::json::array();
  for (const Evaluation& evaluation : training.run.evaluations())
    evaluations.push_back({{"steps", evaluation.steps},
                           {"training_loss", evaluation.training_loss},
                           {"validation_loss", loss_json(evaluation.validation_loss)}});
  return {{"options", nlohmann::json::parse(to_json(training.options()))},
          {"text", corpus.source()},
          {"vocabulary_size", training.tokenizer().size()},
          {"training_tokens", training.training_ids().size()},
          {"validation_tokens", training.validation_tokens()},
          {"parameters", training.model().parameter_count()},
          {"blas", blas::describe()},
          {"history", history},
          {"evaluations", evaluations}};
}

// What is left to do and to say at the end of a run.
class Results : public RunObserver {
 public:
  Results(const TrainProgram& options, const Corpus& corpus, TextRun& training, Samples& samples,
          RunReport* page)
      : options_(options),
        corpus_(corpus),
        training_(training),
        samples_(samples),
        page_(page),
        json_(options.json),
        config_(gpt2_config_path(options.gpt2_export)),
        first_step_(training.run.steps()) {}

  bool is_for_first_rank() const override { return true; }
  void at_end(const TrainingRun& run) override {
    nlohmann::json results = run_json(training_, corpus_);
    if (training_.validation_ids() != nullptr) add_validation(results);
    if (options_.sample > 0 && !interrupted()) add_sample(results);
    results["samples"] = nlohmann::json::parse(training_.samples_json());
    write(results);
    say(run);
  }

 private:
  void add_validation(nlohmann::json& results) {
    const double baseline = unigram_loss(training_.training_ids(), *training_.validation_ids(),
                                         training_.tokenizer().size());
    results["validation_unigram_loss"] = baseline;
    if (interrupted()) return;
    const double loss = *training_.validation_loss();
    results["validation_loss"] = loss;
    if (page_ != nullptr) page_->add({training_.run.steps(), std::nan(""), loss});
    std::cout << "\nValidation " << bits(loss)
              << " a token; knowing only how often each token occurs gives " << bits(baseline)
              << '\n';
  }

  void add_sample(nlohmann::json& results) {
    std::cout << "\nSample, continuing '" << training_.tokenizer().decode(samples_.prompt())
              << "':\n";
    const std::string text = samples_.write(training_.run);
    std::cout << text << std::endl;
    results["sample"] = text;
    training_.samples.push_back({training_.run.steps(), text});
  }

  void write(const nlohmann::json& results) {
    if (!options_.json.empty())
      json_.rewrite([&] {
        write_file(options_.json,
                   results.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
      });
    if (options_.gpt2_export.empty()) return;
    auto& gpt = dynamic_cast<GptModel&>(training_.model());
    write_safetensors(options_.gpt2_export, gpt2_weights(gpt));
    const std::filesystem::path config = gpt2_config_path(options_.gpt2_export);
    if (!config.empty()) config_.rewrite([&] { write_file(config, gpt2_config(gpt.options())); });
  }

  void say(const TrainingRun& run) const {
    std::cout << '\n';
    if (interrupted())
      std::cout << "Stopped by " << interruption() << " at step " << run.steps() << '\n';
    if (run.parts().ranks != nullptr)
      print_exchange(training_, *run.parts().ranks, run.steps() - first_step_);
    if (!options_.save.empty())
      std::cout << "Saved to   " << options_.save
                << (run.has_ended() ? "" : "; go on with --resume " + options_.save) << '\n';
    if (!options_.gpt2_export.empty())
      std::cout << "Weights in " << options_.gpt2_export
                << (gpt2_config_path(options_.gpt2_export).empty() ? ""
                                                                   : " and config.json beside it")
                << ", as Hugging Face's GPT-2\n";
    if (!options_.metrics.empty()) std::cout << "Losses in  " << options_.metrics << '\n';
    if (!options_.json.empty()) std::cout << "Run in     " << options_.json << '\n';
    if (options_.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
  }

  const TrainProgram& options_;
  const Corpus& corpus_;
  TextRun& training_;
  Samples& samples_;
  RunReport* page_;
  OwnFile json_;
  OwnFile config_;
  std::size_t first_step_;
};

// A new run, or the one to be resumed, with options that have been checked.
std::unique_ptr<TextRun> start_or_resume(const CommandLine& line, const TrainProgram& options,
                                         const Corpus& corpus, ProcessGroup* ranks) {
  if (options.resume.empty()) {
    line.check_effects();
    return start(line, options, corpus, ranks);
  }
  auto training = TextRun::resume(options.resume, corpus, ranks);
  TrainOptions resumed = resumed_options(line, options.train, training->options());
  line.check_effects(table_of(resumed));
  training->set_options(resumed);
  return training;
}

void check_gpt2_export(const TextRun& training, const std::string& weights, bool writes) {
  const auto* gpt = dynamic_cast<const GptModel*>(&training.model());
  check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
  check_gpt2_layout("--gpt2-export", gpt->options());
  const std::filesystem::path config = gpt2_config_path(weights);
  check_runtime(!writes || !file_exists(config) || read_file(config) == gpt2_config(gpt->options()),
                config.string(), ": is there already, for another model");
}

}  // namespace

void run_training_program(const CommandLine& line, const TrainProgram& options) {
  const std::unique_ptr<ProcessGroup> ranks = program_ranks(options.rank_patience);
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  std::optional<SilentOutput> silent;
  if (!leads) silent.emplace();
  if (leads) check_files(options);
  ReportFiles report_files(options.report);
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));

  const Corpus corpus = Corpus::find(options.corpus);
  const auto training = start_or_resume(line, options, corpus, ranks.get());
  TrainingRun& run = training->run;
  if (!options.gpt2_export.empty()) check_gpt2_export(*training, options.gpt2_export, leads);
  const Ids prompt = encode_prompt(*training, options);
  if (ranks != nullptr) check_ranks(*ranks, *training);
  print_start(*training, corpus);
  if (!options.resume.empty())
    std::cout << "Going on from " << options.resume << ", step " << run.steps() << '\n';

  const HeldInterrupts held;
  StopsOnInterrupts interrupts;
  run.observe(interrupts);
  if (options.untrained && run.steps() == 0)
    if (const auto losses = training->evaluate_all())
      print_evaluation(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  std::optional<RunReport> page;
  if (options.report.wanted()) {
    RunReportOptions shown = report_files.report_options();
    shown.about = about_run(line, *training, corpus);
    shown.tokenizer = &training->tokenizer();
    shown.samples = &training->samples;
    shown.prompt = prompt;
    page.emplace(run, std::move(shown));
  }
  ProgressLines progress;
  Samples samples(training->samples, training->tokenizer(),
                  {.prompt = prompt,
                   .generate = {.count = options.sample,
                                .temperature = options.temperature,
                                .top_k = options.top_k,
                                .on_token = [](std::int32_t) { return !interrupted(); }},
                   .seed = training->options().seed,
                   .every = options.sample_every,
                   .epochs = options.sample_epochs,
                   .show = [&](const std::string& text) {
                     progress.clear();
                     std::cout << text << '\n' << std::endl;
                   }});
  RunFile checkpoint(options.save, options.save_every, [&] { training->save(options.save); });
  RunFile metrics(options.metrics, 0, [&] { write_file(options.metrics, metrics_csv(run)); });
  Results results(options, corpus, *training, samples, page ? &*page : nullptr);
  run.observe(progress);
  run.observe(samples);
  run.observe(checkpoint);
  run.observe(metrics);
  run.observe(results);
  if (page) run.observe(*page);
  run.train(options.max_steps > 0 ? options.max_steps : kNoLimit);
  if (leads) report_files.announce();
}

OptionTable table_of(TrainProgram& o) {
  const OptionTable before{
      {"--corpus", &o.corpus,
       "text file to train on instead of The Verdict, or files of token ids (.bin), one after "
       "another",
       file_name()},
      {"--prompt", &o.prompt, "text that samples continue; the corpus's first words if not given"},
      {"--sample", &o.sample, "tokens to sample when trained; 0 for none", whole_number(0)},
      {"--sample-every", &o.sample_every, "steps after which there is a sample too; 0 for none",
       whole_number(0), is_for("--sample")},
      {"--sample-epochs", &o.sample_epochs, "a sample after each epoch", on_or_off(),
       is_for("--sample")},
      {"--temperature", &o.temperature, "of sampling; 0 takes the likeliest token",
       finite_number(0), is_for("--sample")},
      {"--top-k",
       &o.top_k,
       "sample among so many likeliest tokens; 0 for all",
       whole_number(0),
       {.is_for = {{"--sample"}, {"--temperature"}}}},
      {"--untrained", &o.untrained, "first the losses before training, over the whole text",
       on_or_off()},
      {"--save", &o.save, "checkpoint to write after each epoch, and on Ctrl-C", file_name()},
      {"--save-every", &o.save_every,
       "steps after which it is written too; 0 for none within an epoch", whole_number(0),
       needs("--save")},
      {"--resume", &o.resume, "checkpoint to go on from, as if never stopped", file_name()},
      {"--metrics", &o.metrics, "CSV file of losses by epoch", file_name()},
      {"--json", &o.json, "JSON file of the whole run", file_name()}};
  const OptionTable after{
      {"--max-steps", &o.max_steps, "stop after so many steps in all; 0 for no limit",
       whole_number(0)},
      {"--rank-patience", &o.rank_patience,
       "seconds for which ranks of mpirun wait for one of them", finite_number(1)},
      {"--threads", &o.threads, "threads to use; as many as there are cores if not given",
       whole_number(1, 1024)}};
  return joined({before, table_of(o.report), after, table_of(o.train)});
}

}  // namespace rowgrad
