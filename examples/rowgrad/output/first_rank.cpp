#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/tensor/safetensors.hpp>
#include <rowgrad/examples/rowgrad/output/first_rank.hpp>
#include <rowgrad/examples/rowgrad/output/row_list_text.hpp>
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>
#include <rowgrad/examples/rowgrad/session/gpt2_folder.hpp>
#include <rowgrad/examples/rowgrad/session/truncation.hpp>
#include <rowgrad/layers/gpt/gpt2_weights.hpp>

namespace rowgrad {
namespace {

// Prints the path of a file, if it is not "".
void print_file(const char* what, const std::string& file, const std::string& more = "") {
  if (!file.empty()) std::cout << what << file << more << '\n';
}

}  // namespace

FirstRank::FirstRank(const TrainSettings& settings, const Corpus& corpus, Session& session,
                     const Ids& prompt)
    : settings_(settings),
      corpus_(corpus),
      session_(session),
      first_step_(session.run().steps()),
      rows_(session.model(), session.run().tables()),
      samples_(session.samples(), session.tokenizer(), sample_options(prompt)),
      metrics_(settings.metrics, [&session](const std::string& path) {
        write_file(path, metrics_csv(session.run()));
      }) {
  if (!settings.gpt2_export.empty()) check_gpt2_export();
}

void FirstRank::check_gpt2_export() const {
  const auto* gpt = dynamic_cast<const GptModel*>(&session_.model());
  check_argument(gpt != nullptr, "--gpt2-export: the model is not a GPT, expected --model gpt");
  check_gpt2_layout("--gpt2-export", gpt->options());
  check_argument(gpt->memories.size() == 0,
                 "--gpt2-export: the model has n-gram memories (--ngrams), expected none");
  const std::filesystem::path config = gpt2_config_path(settings_.gpt2_export);
  check_runtime(
      settings_.force || !file_exists(config) || read_file(config) == gpt2_config(gpt->options()),
      config.string(), ": exists and describes another model; --force replaces it");
}

void FirstRank::start(std::optional<std::uint64_t> replaced, const std::string& changes,
                      const std::vector<std::string>& others) const {
  const std::size_t context = session_.options().gpt.context, prompt = samples_.prompt().size();
  if (prompt > context) warn_of_cut(concat("the prompt has ", prompt, " tokens"), "last", context);
  print_start(session_, corpus_);
  if (replaced)
    std::cout << "Replaces " << settings_.save << ", a run at step " << *replaced << '\n';
  if (!settings_.resume.empty()) print_resumed(session_.run(), settings_.resume, changes);
  for (const std::string& rank : others)
    std::cout << rank << ": results may differ in the last bits from a homogeneous cluster\n";
}

void FirstRank::watch(const CommandLine& line, const std::optional<TrainingRecord>& losses,
                      const StateDict& watched) {
  if (losses) print_losses(settings_.gpt2.empty() ? "untrained" : "before training", *losses, 6);
  TrainingRun& run = session_.run();
  if (keeps_rows()) {
    rows_.load_state_dict(watched.part("rows"));
    run.add(rows_);
  }
  if (is_wanted(settings_.report))
    report_.emplace(line, session_, corpus_, settings_.report, rows_, samples_.prompt(),
                    watched.part("log"), settings_.force);
  run.add(progress_);
  run.add(samples_);
}

bool FirstRank::keeps_rows() const {
  return is_wanted(settings_.report) || !settings_.row_list.empty();
}

SampleOptions FirstRank::sample_options(const Ids& prompt) {
  GenerateOptions generate = settings_.sample;
  generate.on_token = [](std::int32_t) { return !interrupted(); };
  return {.prompt = prompt,
          .generate = generate,
          .seed = session_.options().seed,
          .every = settings_.sample_every,
          .epochs = settings_.sample_epochs,
          .show = [this](const std::string& text) { show_sample(text); }};
}

void FirstRank::show_sample(const std::string& text) {
  progress_.clear();
  std::cout << text << '\n' << std::endl;
  if (report_ && !interrupted()) report_->log().add("sample", {{"text", text}});
}

StateDict FirstRank::watched() {
  StateDict state;
  if (keeps_rows()) state.put("rows", rows_.state_dict());
  if (report_) state.put("log", report_->log().state_dict());
  return state;
}

void FirstRank::train(std::size_t last_step) {
  TrainingRun& run = session_.run();
  run.add(metrics_);
  run.add(*this);
  if (run.has_ended() || run.steps() >= last_step)
    std::cout << "Nothing is left to do: the run is at step " << run.steps() << '\n';
  const auto train = [&] { run.train(last_step); };
  if (!report_) return train();
  report_->train(train);
  report_->finish();
}

void FirstRank::at_end(const TrainingRun&) {
  RunResults results;
  if (session_.validation_ids() != nullptr) add_validation(results);
  if (settings_.sample.max_new_tokens > 0 && !interrupted()) add_sample(results);
  if (!settings_.json.empty()) write_file(settings_.json, run_json(session_, corpus_, results));
  const std::string rows = settings_.row_list.empty() ? "" : write_rows();
  if (!settings_.vectors.empty())
    write_word_vectors(settings_.vectors, session_.tokenizer(),
                       word_table(session_.model()).value());
  if (!settings_.gpt2_export.empty()) export_gpt2();
  print_end(rows);
}

void FirstRank::add_validation(RunResults& results) {
  const TrainingRunOptions& options = session_.run().options();
  if (dynamic_cast<const LanguageModel*>(&session_.model()) != nullptr)
    results.validation_unigram_loss = unigram_loss(
        session_.training_ids(), session_.evaluated_ids(), session_.tokenizer().size());
  const std::size_t batches = options.evaluation.batches;
  const bool is_part = batches > 0 && batches < options.validation->batches();
  if (interrupted()) return;
  const std::vector<TrainingRecord>& history = session_.run().history();
  const bool is_known = !history.empty() && history.back().steps == session_.run().steps() &&
                        history.back().validation_loss;
  const double loss =
      is_known ? *history.back().validation_loss : session_.validation_loss().value();
  check_runtime(std::isfinite(loss), "the validation loss became ", std::abs(loss),
                ", expected a finite value; try a lower --learning-rate or --clip");
  results.validation_loss = loss;
  if (report_)
    report_->log().add("evaluation", {{"training_loss", Json()}, {"validation_loss", loss}});
  const auto& baseline = results.validation_unigram_loss;
  std::cout << "\nValidation " << bits(loss) << (baseline ? " a token" : " a target")
            << (is_part ? concat(" in ", batches, " batches") : "")
            << (baseline ? "; token frequencies alone give " + bits(*baseline) : "") << '\n';
}

void FirstRank::add_sample(RunResults& results) {
  std::cout << "\nSample, continuing '" << session_.tokenizer().decode(samples_.prompt()) << "':\n";
  results.sample = samples_.write(session_.run());
  std::cout << *results.sample << std::endl;
  session_.samples().push_back({session_.run().steps(), *results.sample});
  if (report_) report_->log().add("sample", {{"text", *results.sample}});
}

// Writes the list of rows and returns a summary of it.
std::string FirstRank::write_rows() {
  const char separator = settings_.row_list.ends_with(".csv") ? ',' : '\t';
  const TableHistory& tokens = rows_.of(word_table(session_.model()));
  const std::vector<ListedRow> listed = list_rows(tokens);
  write_file(settings_.row_list, rows_text(tokens, listed, &session_.tokenizer(), separator));
  const auto count = [&](Learned learned) {
    return std::ranges::count(listed, learned, &ListedRow::learned);
  };
  const std::uint64_t since = rows_.first_step().value_or(session_.run().steps());
  return concat(": of ", listed.size(), " tokens, ", count(Learned::kNo),
                " were never looked up, and ", count(Learned::kHardly), " hardly moved",
                since > 0 ? concat(", since step ", since) : "");
}

void FirstRank::export_gpt2() {
  auto& gpt = dynamic_cast<GptModel&>(session_.model());
  write_safetensors(settings_.gpt2_export, gpt2_weights(gpt));
  const std::filesystem::path config = gpt2_config_path(settings_.gpt2_export);
  if (!config.empty()) write_file(config, gpt2_config(gpt.options()));
}

void FirstRank::print_end(const std::string& rows) const {
  const TrainingRun& run = session_.run();
  std::cout << '\n';
  if (interrupted())
    std::cout << "Stopped by " << interruption() << " at step " << run.steps() << '\n';
  if (run.options().ranks != nullptr)
    print_exchange(session_, run.options().ranks->group(), run.steps() - first_step_);
  const bool has_config = !gpt2_config_path(settings_.gpt2_export).empty();
  print_file("Saved to   ", settings_.save,
             run.has_ended()
                 ? ""
                 : "; continue with: rowgrad train --resume " + shell_word(settings_.save));
  print_file("Weights in ", settings_.gpt2_export,
             concat(has_config ? " and config.json next to it" : "",
                    ", in the format of Hugging Face's GPT-2"));
  print_file("Losses in  ", settings_.metrics);
  print_file("Run in     ", settings_.json);
  print_file("Rows in    ", settings_.row_list, rows);
  print_file("Vectors in ", settings_.vectors);
  if (settings_.save.empty()) std::cout << "Not saved; --save FILE keeps the model.\n";
}

}  // namespace rowgrad
