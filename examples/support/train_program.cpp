#include <algorithm>
#include <cmath>
#include <iostream>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/given_options.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/ranks.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/run_results.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_output.hpp>
#include <rowgrad/examples/support/train_program.hpp>
#include <rowgrad/examples/support/training.hpp>
#include <rowgrad/examples/support/training_report.hpp>
#include <rowgrad/layers/gpt2_weights.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

// What a report says about a run before it begins.
nlohmann::json about(const CLI::App& app, const Training& training, const Corpus& corpus,
                     std::size_t ranks) {
  nlohmann::json run = about_run(app, corpus.source(), corpus.bytes(), training.options().tokenizer,
                                 training.tokenizer().size());
  const TokenSequence* validation = training.validation_ids();
  run["tokens"] = {{"training", training.training_ids().size()},
                   {"validation", validation == nullptr ? 0 : validation->size()}};
  if (ranks > 1) run["machine"] = concat(ranks, " ranks, each ", blas::describe());
  return run;
}

// Whether the user has stopped the program: on all ranks at the same points of their work.
class Interrupts {
 public:
  explicit Interrupts(ProcessGroup* ranks) : ranks_(ranks) {}

  /// To be called by all ranks, or with one process.
  bool agree() {
    if (ranks_ != nullptr) return agreed_ = agreed_ || ranks_->any(interrupted());
    return interrupted();
  }
  bool seen() const { return ranks_ != nullptr ? agreed_ : interrupted(); }

 private:
  ProcessGroup* ranks_;
  bool agreed_ = false;
};

// Continues the prompt, and shows and returns what came of it.
std::string sample(Training& training, const Ids& prompt, const TrainProgram& options) {
  Random random(training.options().seed);
  const Ids continuation = generate(training.model(), prompt,
                                    {.count = options.sample,
                                     .temperature = options.temperature,
                                     .top_k = options.top_k,
                                     .on_token = [](std::int32_t) { return !interrupted(); }},
                                    random);
  std::vector<std::int32_t> whole(prompt.begin(), prompt.end());
  whole.insert(whole.end(), continuation.begin(), continuation.end());
  std::string text = training.tokenizer().decode(whole);
  std::cout << text << std::endl;
  return text;
}

// Returns false if training stopped before the end of the run.
bool train(Training& training, const TrainProgram& options, const Ids& prompt, RunFiles& files,
           ReportFiles& report_files, TrainingReport* report, Interrupts& interrupts) {
  Progress progress;
  const auto goes_on = [&] { return !interrupts.agree(); };
  const std::size_t width = std::to_string(training.options().epochs).size();
  const auto stops = [&] {
    return interrupts.seen() ||
           (options.max_steps > 0 && training.run.steps() >= options.max_steps);
  };
  const auto sample_if_due = [&] {
    const std::size_t steps = training.run.steps();
    const auto& history = training.run.history();
    const auto& samples = training.samples();
    const bool ends_epoch = !history.empty() && history.back().steps == steps;
    const bool due = (options.sample_every > 0 && steps % options.sample_every == 0) ||
                     (options.sample_epochs && ends_epoch);
    const bool known = !samples.empty() && samples.back().steps == steps;
    if (!due || known || steps == 0 || options.sample == 0 || training.steps_left() == 0 || stops())
      return;
    progress.clear();
    const std::string text = sample(training, prompt, options);
    if (!interrupted()) training.add_sample(text);
    std::cout << std::endl;
  };
  const auto write_report = [&] {
    if (report != nullptr && !training.finished())
      report_files.write_if_due([&] { return report->so_far(); });
  };
  const auto evaluate = [&] {
    if (const auto evaluation = training.evaluate_if_due(goes_on)) {
      progress.clear();
      print_evaluation(place(training), *evaluation, 3);
    }
  };
  const auto after_step = [&](double loss) {
    interrupts.agree();
    // Processors give NaN a sign.
    check_runtime(std::isfinite(loss), "the loss became ", std::abs(loss), " at step ",
                  training.run.steps(), "; try a smaller --learning-rate");
    if (report != nullptr) report->after_step(loss);
    progress.show(progress_line(training, loss, options.max_steps));
    evaluate();
    sample_if_due();
    if (options.save_every > 0 && training.run.steps() % options.save_every == 0)
      files.save(training);
    write_report();
    return training.steps_left() > 0 && !stops();
  };
  if (training.finished() || stops()) {
    std::cout << "Nothing is left to do: the run is at step " << training.run.steps() << '\n';
    files.write(training);
  }
  if (!stops()) {  // what the run before this one was stopped in
    evaluate();
    sample_if_due();
  }
  while (!training.finished() && !stops()) {
    const std::size_t before = training.run.history().size();
    training.run.run_epoch(after_step, goes_on);
    progress.clear();
    if (training.run.history().size() > before) {
      if (training.options().evaluate_every == 0) print_epoch(training, width);
      sample_if_due();
    }
    files.write(training);
  }
  return training.finished();
}

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const Training& training, const TrainProgram& options) {
  if (options.prompt.empty()) {
    const TokenSequence& ids = training.training_ids();
    return ids.slice(0, std::min<std::uint64_t>({ids.size(), 16, training.options().context}))
        .ids();
  }
  Ids ids = training.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " has no tokens");
  return ids;
}

std::unique_ptr<Training> start(const CLI::App& app, const TrainProgram& options,
                                const Corpus& corpus, ProcessGroup* ranks) {
  TrainOptions train = options.train;
  if (ranks != nullptr && app.count("--shards") == 0) train.shards = ranks->size();
  if (corpus.has_ids() && app.count("--tokenizer") == 0) train.tokenizer = "gpt2";
  const Checkpoint weights =
      options.gpt2.empty() ? Checkpoint() : read_gpt2(app, options.gpt2, train);
  auto tokenizer = corpus.make_tokenizer(train.tokenizer, train.vocabulary);
  if (!weights.empty()) {
    const std::size_t rows = gpt2_options(weights, 1).vocabulary;
    check_argument(tokenizer->size() == rows, "--tokenizer ", train.tokenizer, " has ",
                   tokenizer->size(), " ids, the weights of --gpt2 are for ", rows);
  }
  auto training = std::make_unique<Training>(train, std::move(tokenizer), corpus, ranks);
  if (!weights.empty()) training->start_from(weights);
  return training;
}

// What another rank than the first does not do.
TrainProgram without_output(TrainProgram options) {
  for (std::string* file : {&options.save, &options.metrics, &options.json, &options.gpt2_export,
                            &options.report.page, &options.report.data})
    file->clear();
  options.sample = 0;
  return options;
}

void check_ranks(ProcessGroup& ranks, const Training& training) {
  nlohmann::json facts = training.options();
  facts["text (SHA-256)"] = training.text_hash();
  facts["tokenizer (SHA-256)"] = sha256(training.tokenizer().to_json());
  facts["step"] = training.run.steps();
  facts["version of rowgrad"] = ROWGRAD_VERSION;
  facts["bytes of a number"] = sizeof(real);
  check_same_on_all(ranks, facts);
}

}  // namespace

void run_training_program(const CLI::App& app, const TrainProgram& given) {
  const std::unique_ptr<ProcessGroup> ranks = program_ranks(given.rank_patience);
  const bool leads = ranks == nullptr || ranks->rank() == 0;
  const TrainProgram options = leads ? given : without_output(given);
  std::optional<SilentOutput> silent;
  if (!leads) silent.emplace();
  std::vector<std::string> read = options.corpus;
  read.push_back(tokenizer_file(options.train.tokenizer));
  for (const char* name : {"/model.safetensors", "/config.json"})
    if (!options.gpt2.empty()) read.push_back(options.gpt2 + name);
  const std::filesystem::path config_path = gpt2_config_path(options.gpt2_export);
  std::vector<std::string> written{options.metrics,     options.json,        options.report.page,
                                   options.report.data, options.gpt2_export, config_path};
  check_outputs(written, {options.resume});
  written.push_back(options.save);  // it may be the file to be resumed
  check_outputs(written, read);
  RunFiles files(options);
  ReportFiles report_files(options.report);
  OwnFile config(config_path);
  if (options.threads > 0) set_threads(options.threads);

  const Corpus corpus = Corpus::find(options.corpus);
  const auto check_options = [&](nlohmann::json chosen) {
    chosen["sample"] = given.sample;
    chosen["temperature"] = given.temperature;
    check_options_have_effects(app, chosen);
  };
  std::unique_ptr<Training> training;
  if (options.resume.empty()) {
    check_options(options.train);
    training = start(app, options, corpus, ranks.get());
  } else {
    training = Training::resume(options.resume, corpus, ranks.get());
    const TrainOptions resumed = resumed_options(app, options.train, training->options());
    check_options(resumed);
    training->set_options(resumed);
  }
  auto* gpt = dynamic_cast<GptModel*>(&training->model());
  if (!options.gpt2_export.empty()) {
    check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
    check_gpt2_layout("--gpt2-export", gpt->options());
    check_runtime(
        !file_exists(config_path) || read_file(config_path) == gpt2_config(gpt->options()),
        config_path.string(), ": is there already, for another model");
  }
  const Ids prompt = encode_prompt(*training, options);
  if (ranks != nullptr) check_ranks(*ranks, *training);

  print_start(*training, corpus);
  if (!options.resume.empty())
    std::cout << "Going on from " << options.resume << ", step " << training->run.steps() << '\n';
  const HeldInterrupts held;
  Interrupts interrupts(ranks.get());
  if (options.untrained && training->run.steps() == 0)
    if (const auto losses = training->evaluate_all([&] { return !interrupts.agree(); }))
      print_evaluation(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  std::optional<TrainingReport> page;
  if (options.report.wanted())
    page.emplace(*training, about(app, *training, corpus, ranks == nullptr ? 1 : ranks->size()));
  const std::size_t first = training->run.steps();
  const bool finished =
      train(*training, options, prompt, files, report_files, page ? &*page : nullptr, interrupts);
  if (!leads) return;  // the first does the rest, for which it needs no others

  nlohmann::json report = run_json(*training);
  report["text"] = corpus.source();
  if (const TokenSequence* validation = training->validation_ids()) {
    const double baseline =
        unigram_loss(training->training_ids(), *validation, training->tokenizer().size());
    report["validation_unigram_loss"] = baseline;
    if (!interrupted()) {
      const double loss = *training->validation_loss();
      report["validation_loss"] = loss;
      std::cout << "\nValidation " << bits(loss)
                << " a token; knowing only how often each token occurs gives " << bits(baseline)
                << '\n';
    }
  }
  if (options.sample > 0 && !interrupted()) {
    std::cout << "\nSample, continuing '" << training->tokenizer().decode(prompt) << "':\n";
    const std::string last = sample(*training, prompt, options);
    report["sample"] = last;
    report["samples"].push_back(Sample{training->run.steps(), last});
  }
  files.write_run(report);
  if (!options.gpt2_export.empty()) write_safetensors(options.gpt2_export, gpt2_weights(*gpt));
  if (!config_path.empty())
    config.rewrite([&] { write_file(config_path, gpt2_config(gpt->options())); });

  std::cout << '\n';
  if (interrupted())
    std::cout << "Stopped by " << interruption() << " at step " << training->run.steps() << '\n';
  if (ranks != nullptr) print_exchange(*training, *ranks, training->run.steps() - first);
  if (!options.save.empty())
    std::cout << "Saved to   " << options.save
              << (finished ? "" : "; go on with --resume " + options.save) << '\n';
  if (!options.gpt2_export.empty())
    std::cout << "Weights in " << options.gpt2_export
              << (config_path.empty() ? "" : " and config.json beside it")
              << ", as Hugging Face's GPT-2\n";
  if (!options.metrics.empty()) std::cout << "Losses in  " << options.metrics << '\n';
  if (!options.json.empty()) std::cout << "Run in     " << options.json << '\n';
  if (options.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
  if (!page) return;
  nlohmann::json shown =
      interrupted() ? page->stopped() : page->at_end(prompt, [] { return !interrupted(); });
  shown["samples"] = report["samples"];
  if (report.contains("validation_loss") &&
      (shown["evaluations"].empty() ||
       shown["evaluations"].back()["steps"] != training->run.steps()))
    shown["evaluations"].push_back({{"steps", training->run.steps()},
                                    {"training_loss", nullptr},
                                    {"validation_loss", report["validation_loss"]}});
  report_files.write(shown);
  report_files.announce();
  if (options.report.open && !interrupted()) open_in_browser(options.report.page);
}

void add_program_options(CLI::App& app, TrainProgram& options) {
  app.add_option("--corpus", options.corpus,
                 "text file to train on instead of The Verdict, or files of token ids (.bin), one "
                 "after another")
      ->default_str("")
      ->check(file_name());
  app.add_option("--prompt", options.prompt,
                 "text that samples continue; the corpus's first words if not given");
  app.add_option("--sample", options.sample, "tokens to sample when trained; 0 for none")
      ->check(whole_number(0));
  app.add_option("--sample-every", options.sample_every,
                 "steps after which there is a sample too; 0 for none")
      ->check(whole_number(0));
  app.add_flag("--sample-epochs,!--no-sample-epochs", options.sample_epochs,
               "a sample after each epoch");
  app.add_option("--temperature", options.temperature, "of sampling; 0 takes the likeliest token")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--top-k", options.top_k, "sample among so many likeliest tokens; 0 for all")
      ->check(whole_number(0));
  app.add_flag("--untrained,!--no-untrained", options.untrained,
               "first the losses before training, over the whole text");
  app.add_option("--save", options.save, "checkpoint to write after each epoch, and on Ctrl-C")
      ->check(file_name());
  app.add_option("--save-every", options.save_every,
                 "steps after which it is written too; 0 for none within an epoch")
      ->check(whole_number(0))
      ->needs("--save");
  app.add_option("--resume", options.resume, "checkpoint to go on from, as if never stopped")
      ->check(file_name());
  app.add_option("--metrics", options.metrics, "CSV file of losses by epoch")->check(file_name());
  app.add_option("--json", options.json, "JSON file of the whole run")->check(file_name());
  add_report_options(app, options.report);
  app.add_option("--max-steps", options.max_steps,
                 "stop after so many steps in all; 0 for no limit")
      ->check(whole_number(0));
  app.add_option("--rank-patience", options.rank_patience,
                 "seconds for which ranks of mpirun wait for one of them")
      ->check(finite_number(1, kAnyNumber));
  app.add_option("--threads", options.threads,
                 "threads to use; as many as there are cores if not given")
      ->check(whole_number(1, 1024));
  add_train_options(app, options.train);
}

}  // namespace rowgrad
