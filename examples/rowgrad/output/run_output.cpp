#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/run_output.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>

namespace rowgrad {

namespace {

constexpr std::size_t kMostInTable = 24;  // tensors of a model

// The options that are not as they are by default.
std::string chosen_options(const Session& training) {
  TrainOptions options = training.options();
  TrainOptions defaults = default_options(options.model);
  const std::map<std::string, std::string> texts = texts_of(table_of_model(defaults));
  std::string chosen;
  for (const auto& [name, text] : texts_of(table_of_model(options)))
    if (const auto found = texts.find(name); found == texts.end() || found->second != text)
      chosen += ' ' + name + ' ' + text;
  return chosen.empty() ? " as by default" : chosen;
}

bool runs_out(const Session& training) {
  return training.options().tokenizer == "bpe" &&
         training.tokenizer().size() < training.options().vocabulary;
}

}  // namespace

void print_start(const Session& training, const Corpus& corpus) {
  std::cout << "Text       " << corpus.source() << ", " << corpus.bytes() << " bytes"
            << (!corpus.has_checksums() ? "\n"
                : corpus.is_verified()  ? ", verified\n"
                                        : ", not verified; tokenize --verify does that\n")
            << "Tokens     " << training.options().tokenizer << ", " << training.tokenizer().size()
            << (runs_out(training) ? " ids, for the text has no more pairs; " : " ids; ")
            << training.training_ids().size() << " tokens to train on, "
            << training.validation_tokens() << " for validation\n"
            << "Batches    " << training.run.parts().loader.batches() << " an epoch, each of "
            << training.options().loader.batch << " windows of " << training.options().gpt.context
            << " tokens, stride " << training.options().stride << '\n'
            << "Computing  " << blas::describe() << '\n';
  std::cout << "Options   " << chosen_options(training) << '\n';
  const std::size_t tensors = training.model().parameters().size();
  if (tensors <= kMostInTable) {
    std::cout << '\n' << training.model().summary();
  } else {
    std::cout << "Model      " << training.model().parameter_count() << " parameters in " << tensors
              << " tensors\n";
  }
  std::cout << '\n';
}

void print_exchange(const Session& training, const ProcessGroup& ranks, std::size_t steps) {
  std::cout << "Exchanged  "
            << readable_count(static_cast<double>(ranks.bytes_sent()) /
                              static_cast<double>(std::max<std::size_t>(steps, 1)))
            << "B a step sent by each of " << ranks.size() << " ranks";
  const std::vector<Parameter*>& parameters = training.run.parts().optimizer.parameters();
  const auto& ways = training.run.gradient_sum()->ways();
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i] == "gathered" || ways[i] == "owners")
      std::cout << "; rows of " << parameters[i]->name()
                << (ways[i] == "owners" ? " by owners" : " gathered");
  std::cout << '\n';
}

std::string run_json(const Session& training, const Corpus& corpus, const RunResults& results) {
  Json history = Json::array();
  Json evaluations = Json::array();  // in the course of epochs
  for (const TrainingRecord& record : training.run.history()) {
    Json entry{{"steps", record.steps},
               {"training_loss", record.training_loss},
               {"validation_loss", record.validation_loss}};
    if (record.ends_epoch()) {
      entry["epoch"] = record.epoch;
      entry["tokens_per_second"] = record.speed;
    }
    (record.ends_epoch() ? history : evaluations).push_back(std::move(entry));
  }
  Json all{{"options", Json(to_json(training.options()), "options")},
           {"text", corpus.source()},
           {"vocabulary_size", training.tokenizer().size()},
           {"training_tokens", training.training_ids().size()},
           {"validation_tokens", training.validation_tokens()},
           {"parameters", training.model().parameter_count()},
           {"blas", blas::describe()},
           {"history", std::move(history)},
           {"evaluations", std::move(evaluations)},
           {"samples", Json(training.samples_json(), "samples")}};
  if (results.validation_loss) all["validation_loss"] = *results.validation_loss;
  if (results.validation_unigram_loss)
    all["validation_unigram_loss"] = *results.validation_unigram_loss;
  if (results.sample) all["sample"] = *results.sample;
  return all.dump(2) + "\n";
}

RunFile::RunFile(std::function<void()> write, std::size_t every, CallbackNeeds needs)
    : write_(std::move(write)), every_(every), needs_(needs) {}

void RunFile::after_step(const TrainingRun& run, const StepResult& result) {
  has_news_ = true;
  const bool ends_epoch = std::ranges::any_of(result.records, &TrainingRecord::ends_epoch);
  if (ends_epoch || (every_ > 0 && run.steps() % every_ == 0)) rewrite();
}

// A pipe gets nothing twice.
void RunFile::at_end(const TrainingRun&) {
  if (has_news_ || !has_written_) rewrite();
}

void RunFile::rewrite() {
  if (write_) write_();
  has_written_ = true;
  has_news_ = false;
}

std::string metrics_csv(const TrainingRun& run) {
  std::ostringstream csv;
  csv << "epoch,steps,training_loss,validation_loss," << run.unit().name << "_per_second\n"
      << std::setprecision(9);
  for (const TrainingRecord& record : run.history()) {
    if (!record.ends_epoch()) continue;
    csv << record.epoch << ',' << record.steps << ',' << record.training_loss << ',';
    if (record.validation_loss) csv << *record.validation_loss;
    csv << ',' << record.speed << '\n';
  }
  return std::move(csv).str();
}

}  // namespace rowgrad
