#include <algorithm>
#include <cmath>
#include <ctime>
#include <iomanip>
#include <iostream>

#include <CLI/CLI.hpp>

#include <rowgrad/core/blas/openblas.hpp>
#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/core/tensor/utf8.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/given_options.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/report.hpp>
#include <rowgrad/examples/support/run_files.hpp>
#include <rowgrad/examples/support/run_report.hpp>
#include <rowgrad/examples/support/train_program.hpp>
#include <rowgrad/examples/support/training.hpp>
#include <rowgrad/layers/gpt2_weights.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kMostInTable = 24;  // tensors of a model

std::string bits(double nats) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(3) << nats << " nats (" << std::setprecision(2)
       << nats / std::log(2.0) << " bits)";
  return text.str();
}

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

bool runs_out(const Training& training) {
  return training.options().tokenizer == "bpe" &&
         training.tokenizer().size() < training.options().vocabulary;
}

void print_start(const Training& training, const Corpus& corpus) {
  const TokenSource* validation = training.validation_ids();
  std::cout << "Text       " << corpus.source() << ", " << corpus.bytes() << " bytes\n"
            << "Tokens     " << training.options().tokenizer << ", " << training.tokenizer().size()
            << (runs_out(training) ? " ids, for the text has no more pairs; " : " ids; ")
            << training.training_ids().size() << " tokens to train on, "
            << (validation == nullptr ? 0 : validation->size()) << " for validation\n"
            << "Batches    " << training.batches_per_epoch() << " an epoch, each of "
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

void print_epoch(const Training& training, std::size_t width) {
  const EpochRecord& record = training.run.history().back();
  std::cout << "epoch " << std::setw(static_cast<int>(width)) << record.epoch << '/'
            << training.options().epochs << std::fixed << std::setprecision(4) << "  training loss "
            << record.training_loss;
  if (record.validation_loss) std::cout << "  validation loss " << *record.validation_loss;
  std::cout << "  " << readable_count(record.tokens_per_second) << " tokens/s" << std::endl;
}

// Where a run is. Steps are numbered from 0: this is the last one.
std::string place(const Training& training) {
  const std::size_t step = std::max<std::size_t>(training.run.steps(), 1) - 1;
  std::ostringstream text;
  const TrainOptions& options = training.options();
  if (options.steps == 0)
    text << "epoch " << step / training.run.steps_per_epoch() + 1 << '/' << options.epochs << "  ";
  text << "step " << std::setw(4) << step;
  if (options.steps > 0) text << '/' << options.steps;
  return text.str();
}

void print_evaluation(const std::string& where, const Evaluation& evaluation, int digits) {
  std::cout << where << std::fixed << std::setprecision(digits) << "  training loss "
            << evaluation.training_loss;
  if (evaluation.validation_loss) std::cout << "  validation loss " << *evaluation.validation_loss;
  std::cout << std::endl;
}

std::string progress_line(const Training& training, double loss, std::size_t max_steps) {
  std::ostringstream line;
  const double rate = training.run.tokens_per_second();
  line << place(training) << "  loss " << std::fixed << std::setprecision(4) << loss << "  "
       << readable_count(rate) << " tokens/s  "
       << readable_seconds(static_cast<double>(training.tokens_left(max_steps)) / rate) << " left";
  return line.str();
}

// What a report says about a run before it begins.
nlohmann::json about(const CLI::App& app, const Training& training, const Corpus& corpus) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  const TokenSource* validation = training.validation_ids();
  return {{"program", std::filesystem::path(app.get_name()).filename().string()},
          {"command", command_line(app)},
          {"started", started.str()},
          {"machine", blas::describe()},
          {"text", {{"source", corpus.source()}, {"bytes", corpus.bytes()}}},
          {"tokenizer",
           {{"name", training.options().tokenizer}, {"size", training.tokenizer().size()}}},
          {"tokens",
           {{"training", training.training_ids().size()},
            {"validation", validation == nullptr ? 0 : validation->size()}}},
          {"options", option_values(app)}};
}

bool not_interrupted() { return !interrupted(); }

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
           RunReport* report) {
  Progress progress;
  const std::size_t width = std::to_string(training.options().epochs).size();
  const auto stops = [&] {
    return interrupted() || (options.max_steps > 0 && training.run.steps() >= options.max_steps);
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
    if (report != nullptr && report->is_due() && !training.finished())
      files.write_report(report->so_far());
  };
  const auto evaluate = [&] {
    if (const auto evaluation = training.evaluate_if_due(not_interrupted)) {
      progress.clear();
      print_evaluation(place(training), *evaluation, 3);
      write_report();
    }
  };
  const auto after_step = [&](double loss) {
    check_runtime(std::isfinite(loss), "the loss became ", loss, " at step ", training.run.steps(),
                  "; try a smaller --learning-rate");
    if (report != nullptr) report->after_step(loss);
    progress.show(progress_line(training, loss, options.max_steps));
    evaluate();
    sample_if_due();
    if (options.save_every > 0 && training.run.steps() % options.save_every == 0)
      files.save(training);
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
    training.run.run_epoch(after_step, not_interrupted);
    progress.clear();
    if (training.run.history().size() > before) {
      if (training.options().evaluate_every == 0) print_epoch(training, width);
      sample_if_due();
      write_report();
    }
    files.write(training);
  }
  return training.finished();
}

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const Training& training, const TrainProgram& options) {
  if (options.prompt.empty()) {
    const TokenSource& ids = training.training_ids();
    return ids.part(0, std::min<std::uint64_t>({ids.size(), 16, training.options().context})).ids();
  }
  Ids ids = training.tokenizer().encode(options.prompt);
  check_argument(ids.size() > 0, "--prompt: ", in_quotes(options.prompt), " has no tokens");
  return ids;
}

std::unique_ptr<Training> start(const CLI::App& app, const TrainProgram& options,
                                const Corpus& corpus) {
  TrainOptions train = options.train;
  if (corpus.has_ids() && app.count("--tokenizer") == 0) train.tokenizer = "gpt2";
  const Checkpoint weights =
      options.gpt2.empty() ? Checkpoint() : read_gpt2(app, options.gpt2, train);
  auto tokenizer = corpus.make_tokenizer(train.tokenizer, train.vocabulary);
  if (!weights.empty()) {
    const std::size_t rows = gpt2_options(weights, 1).vocabulary;
    check_argument(tokenizer->size() == rows, "--tokenizer ", train.tokenizer, " has ",
                   tokenizer->size(), " ids, the weights of --gpt2 are for ", rows);
  }
  auto training = std::make_unique<Training>(train, std::move(tokenizer), corpus);
  if (!weights.empty()) training->start_from(weights);
  return training;
}

}  // namespace

void run_training_program(const CLI::App& app, const TrainProgram& options) {
  std::vector<std::string> read{options.corpus};
  for (const char* name : {"/model.safetensors", "/config.json"})
    if (!options.gpt2.empty()) read.push_back(options.gpt2 + name);
  const std::filesystem::path config_path = gpt2_config_path(options.gpt2_export);
  std::vector<std::string> written{options.metrics,     options.json,        options.report,
                                   options.report_data, options.gpt2_export, config_path};
  check_outputs(written, {options.resume});
  written.push_back(options.save);  // it may be the file to be resumed
  check_outputs(written, read);
  if (!options.report.empty()) check_report_page();
  RunFiles files(options);
  OwnFile config(config_path);
  if (options.threads > 0) blas::set_threads(options.threads);

  const Corpus corpus = Corpus::find(options.corpus);
  const auto check_options = [&](nlohmann::json chosen) {
    chosen["sample"] = options.sample;
    chosen["temperature"] = options.temperature;
    check_options_have_effects(app, chosen);
  };
  std::unique_ptr<Training> training;
  if (options.resume.empty()) {
    check_options(options.train);
    training = start(app, options, corpus);
  } else {
    training = Training::resume(options.resume, corpus);
    const TrainOptions resumed = resumed_options(app, options.train, training->options());
    check_options(resumed);
    training->set_options(resumed);
  }
  auto* gpt = dynamic_cast<GptModel*>(&training->model());
  if (!options.gpt2_export.empty()) {
    check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
    check_gpt2_layout("--gpt2-export", gpt->options());
    check_runtime(!std::filesystem::exists(config_path) ||
                      read_file(config_path) == gpt2_config(gpt->options()),
                  config_path.string(), ": is there already, for another model");
  }
  const Ids prompt = encode_prompt(*training, options);

  print_start(*training, corpus);
  if (!options.resume.empty())
    std::cout << "Going on from " << options.resume << ", step " << training->run.steps() << '\n';
  const HeldInterrupts held;
  if (options.untrained && training->run.steps() == 0)
    if (const auto losses = training->evaluate_all(not_interrupted))
      print_evaluation(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  std::optional<RunReport> page;
  if (!options.report.empty() || !options.report_data.empty())
    page.emplace(*training, about(app, *training, corpus));
  const bool finished = train(*training, options, prompt, files, page ? &*page : nullptr);

  nlohmann::json report = run_json(*training);
  report["text"] = corpus.source();
  if (const TokenSource* validation = training->validation_ids()) {
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
  if (page) {
    nlohmann::json shown = interrupted() ? page->so_far() : page->at_end(prompt);
    shown["samples"] = report["samples"];
    files.write_report(shown);
  }
  files.write_run(report);
  if (!options.gpt2_export.empty()) write_safetensors(options.gpt2_export, gpt2_weights(*gpt));
  if (!config_path.empty())
    config.rewrite([&] { write_file(config_path, gpt2_config(gpt->options())); });

  std::cout << '\n';
  if (interrupted())
    std::cout << "Stopped by " << interruption() << " at step " << training->run.steps() << '\n';
  if (!options.save.empty())
    std::cout << "Saved to   " << options.save
              << (finished ? "" : "; go on with --resume " + options.save) << '\n';
  if (!options.gpt2_export.empty())
    std::cout << "Weights in " << options.gpt2_export
              << (config_path.empty() ? "" : " and config.json beside it")
              << ", as Hugging Face's GPT-2\n";
  if (!options.metrics.empty()) std::cout << "Losses in  " << options.metrics << '\n';
  if (!options.json.empty()) std::cout << "Run in     " << options.json << '\n';
  if (!options.report.empty()) std::cout << "Report in  " << options.report << '\n';
  if (!options.report_data.empty()) std::cout << "Its data in " << options.report_data << '\n';
  if (options.open && !interrupted()) open_in_browser(options.report);
  if (options.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
}

void add_program_options(CLI::App& app, TrainProgram& options) {
  app.add_option("--corpus", options.corpus,
                 "text file to train on instead of The Verdict, or FILE.bin with token ids")
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
  app.add_option("--report", options.report,
                 "page to look at: HTML file, written as the run goes on")
      ->check(file_name());
  app.add_flag("--open", options.open, "shows that page in a browser when the run is over")
      ->needs("--report");
  app.add_option("--report-data", options.report_data, "JSON file of what the page shows")
      ->check(file_name());
  app.add_option("--max-steps", options.max_steps,
                 "stop after so many steps in all; 0 for no limit")
      ->check(whole_number(0));
  app.add_option("--threads", options.threads,
                 "threads to use; as many as there are cores if not given")
      ->check(whole_number(1, 1024));
  add_train_options(app, options.train);
}

}  // namespace rowgrad
