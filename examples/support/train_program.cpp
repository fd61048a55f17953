#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>

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
#include <rowgrad/examples/support/run_description.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_program.hpp>
#include <rowgrad/layers/gpt/gpt2_weights.hpp>
#include <rowgrad/optim/training/row_list.hpp>
#include <rowgrad/version.hpp>

namespace rowgrad {
namespace {

// Called before training, so that a prompt that the tokenizer cannot encode is refused at once.
Ids encode_prompt(const TextRun& training, const TrainProgram& options) {
  if (options.prompt.empty()) return training.first_words();
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
  std::vector<std::string> written{options.metrics,
                                   options.json,
                                   options.row_list,
                                   options.report.page,
                                   options.report.data,
                                   options.gpt2_export,
                                   gpt2_config_path(options.gpt2_export)};
  check_outputs(written, {options.resume});
  written.push_back(options.save);  // it may be the file to be resumed
  for (const std::string& table : options.train.table_paths()) written.push_back(table);
  check_outputs(written, read);
}

void check_ranks(ProcessGroup& ranks, const TextRun& training) {
  TrainOptions options = training.options();
  std::map<std::string, std::string> facts;
  for (const Option& option : option_table_of(options))
    facts[option.name.substr(2)] = json_of(option);
  facts["model"] = std::holds_alternative<GptShape>(options.shape) ? "gpt" : "next-token";
  facts["text"] = training.text_hash();
  facts["tokenizer"] = checksum(training.tokenizer().to_json());
  facts["step"] = concat(training.run.steps());
  facts["version of rowgrad"] = ROWGRAD_VERSION;
  facts["bytes of a number"] = concat(sizeof(real));
  check_same_on_all(ranks, facts);
}

// The run has the bits of this mix of machines.
void tell_other_arithmetic(ProcessGroup& ranks) {
  const std::vector<std::string> all = ranks.gather_texts(TrainingRun::arithmetic());
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      std::cout << "Rank " << rank << " computes with " << all[rank] << ", rank 0 with " << all[0]
                << ": last bits may be others than on machines of one kind\n";
}

// The history of the table of tokens, with which all language models of these programs begin.
const TableHistory& of_tokens(RowHistory& rows, LanguageModel& model) {
  return rows.of(model.named_layers<Embedding>().at(0).second->weight);
}

// What is left to do and to say at the end of a run.
class Results : public RunObserver {
 public:
  Results(const TrainProgram& options, const Corpus& corpus, TextRun& training, Samples& samples,
          RowHistory& rows, std::optional<RunReport>& page)
      : options_(options),
        corpus_(corpus),
        training_(training),
        samples_(samples),
        rows_(rows),
        page_(page),
        first_step_(training.run.steps()) {}

  void at_end(const TrainingRun& run) override {
    RunResults results;
    if (training_.validation_ids() != nullptr) add_validation(results);
    if (options_.sample > 0 && !interrupted()) add_sample(results);
    write(results);
    say(run);
  }

 private:
  void add_validation(RunResults& results) {
    const double baseline = unigram_loss(training_.training_ids(), *training_.validation_ids(),
                                         training_.tokenizer().size());
    results.validation_unigram_loss = baseline;
    if (interrupted()) return;
    const double loss = training_.validation_loss().value();
    results.validation_loss = loss;
    if (page_)
      page_->add(
          {.steps = training_.run.steps(), .training_loss = std::nan(""), .validation_loss = loss});
    std::cout << "\nValidation " << bits(loss)
              << " a token; knowing only how often each token occurs gives " << bits(baseline)
              << '\n';
  }

  void add_sample(RunResults& results) {
    std::cout << "\nSample, continuing '" << training_.tokenizer().decode(samples_.prompt())
              << "':\n";
    results.sample = samples_.write(training_.run);
    std::cout << *results.sample << std::endl;
    training_.samples.push_back({training_.run.steps(), *results.sample});
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
    if (!options_.row_list.empty())
      std::cout << "Rows in    " << options_.row_list << ": of " << listed_.size() << " tokens, "
                << count_of(Learned::kNo) << " were never looked up, and "
                << count_of(Learned::kHardly) << " hardly moved"
                << (first_step_ > 0 ? concat(", since step ", first_step_) : "") << '\n';
    if (options_.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
  }

  const TrainProgram& options_;
  const Corpus& corpus_;
  TextRun& training_;
  Samples& samples_;
  RowHistory& rows_;
  std::optional<RunReport>& page_;
  std::vector<ListedRow> listed_;
  std::size_t first_step_;
};

// A new run, or the one to be resumed, with options that have been checked. Says which of the saved
// ones have `changed`.
std::unique_ptr<TextRun> start_or_resume(const CommandLine& line, const TrainProgram& options,
                                         const Corpus& corpus, ProcessGroup* ranks,
                                         std::string& changed) {
  if (options.resume.empty()) {
    line.check_effects();
    return start(line, options, corpus, ranks);
  }
  auto training = TextRun::resume(options.resume, corpus, ranks);
  TrainOptions resumed = resumed_options(line, options.train, training->options());
  line.check_effects(option_table_of(resumed));
  changed = changed_options(resumed, training->options());
  training->set_options(resumed);
  return training;
}

void check_gpt2_export(const TextRun& training, const std::string& weights, bool writes) {
  const auto* gpt = dynamic_cast<const GptModel*>(&training.model());
  check_argument(gpt != nullptr, "--gpt2-export is for a GPT");
  check_gpt2_layout("--gpt2-export", gpt->options());
  check_argument(gpt->memories.size() == 0, "--gpt2-export: GPT-2 has no memories of --ngrams");
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
  if (options.threads > 0) set_threads(static_cast<int>(options.threads));

  const Corpus corpus = Corpus::find(options.corpus);
  std::string changed;
  const auto training = start_or_resume(line, options, corpus, ranks.get(), changed);
  TrainingRun& run = training->run;
  if (!options.gpt2_export.empty()) check_gpt2_export(*training, options.gpt2_export, leads);
  const Ids prompt = encode_prompt(*training, options);
  if (ranks != nullptr) check_ranks(*ranks, *training);
  print_start(*training, corpus);
  if (!options.resume.empty())
    std::cout << "Going on from " << options.resume << ", step " << run.steps()
              << (changed.empty() ? "" : ", as if never stopped but for " + changed) << '\n';
  if (!run.loaded_arithmetic().empty() && run.loaded_arithmetic() != TrainingRun::arithmetic())
    std::cout
        << "From here on, last bits may be others than those of a run that never stopped: the "
           "checkpoint was computed with "
        << run.loaded_arithmetic() << "; this process computes with " << TrainingRun::arithmetic()
        << '\n';
  if (ranks != nullptr) tell_other_arithmetic(*ranks);

  const HeldInterrupts until_they_stop_it;
  StopsOnInterrupts interrupts;
  run.observe(interrupts);
  if (options.untrained && run.steps() == 0)
    if (const auto losses = training->evaluate_all())
      print_losses(options.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  RowHistory rows(training->model());
  if (leads && (options.report.wanted() || !options.row_list.empty())) run.observe(rows);
  std::optional<RunReport> page;
  ProgressLines progress(
      options.book.empty() ? BookLog() : book_log(options.book, training->options().clip_from));
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
  // All ranks save, as each has its own files of tables; but only the first writes the file.
  RunFile checkpoint(leads || options.save.empty() ? options.save : "/dev/null", options.save_every,
                     [&] { training->save(options.save); });
  RunFile metrics(options.metrics, 0, [&] { write_file(options.metrics, metrics_csv(run)); });
  Results results(options, corpus, *training, samples, rows, page);
  if (leads) run.observe(progress);
  if (leads) run.observe(samples);
  run.observe(checkpoint);
  if (leads) run.observe(metrics);
  if (leads) run.observe(results);
  if (leads && options.report.wanted()) {
    RunReportOptions shown = report_of(*training, options.report, prompt);
    shown.about = about_run(line, *training, corpus);
    shown.rows = &rows;
    page.emplace(run, std::move(shown));
  }
  const std::size_t last_step = options.max_steps > 0 ? options.max_steps : kNoLimit;
  if (run.has_ended() || run.steps() >= last_step)
    std::cout << "Nothing is left to do: the run is at step " << run.steps() << '\n';
  // Tables can go back to the checkpoint before the last one, but not to none: so a new run has one
  // before they change.
  if (run.steps() == 0 && !training->options().table_paths().empty()) checkpoint.rewrite();
  run.train(last_step);
  if (page) announce(*page, options.report);
}

OptionTable option_table_of(TrainProgram& o) {
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
      {"--json", &o.json, "JSON file of the whole run", file_name()},
      {"--row-list", &o.row_list,
       "file with a line for each token: how often it was looked up, how far its row moved; with "
       "commas if it ends in .csv, else with tabs",
       file_name()}};
  const OptionTable after{
      {"--max-steps", &o.max_steps, "stop after so many steps in all; 0 for no limit",
       whole_number(0)},
      {"--rank-patience", &o.rank_patience,
       "seconds for which ranks of mpirun wait for one of them", finite_number(1)},
      {"--threads", &o.threads, "threads to use; as many as there are cores if not given",
       whole_number(1, 1024)}};
  return joined({before, option_table_of(o.report), after, option_table_of(o.train)});
}

}  // namespace rowgrad
