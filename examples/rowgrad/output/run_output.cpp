#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <utility>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/output/run_output.hpp>

namespace rowgrad {

namespace {

constexpr std::size_t kMaxInTable = 24;  // maximum number of tensors in a printed summary

// Returns the options that differ from their defaults.
std::string chosen_options(const Session& session) {
  TrainOptions options = session.options();
  TrainOptions defaults = default_options(options.model);
  const std::map<std::string, std::string> texts = texts_of(table_of_model(defaults));
  std::string chosen;
  for (const auto& [name, text] : texts_of(table_of_model(options)))
    if (const auto found = texts.find(name); found == texts.end() || found->second != text)
      chosen += ' ' + name + ' ' + text;
  return chosen.empty() ? " defaults" : chosen;
}

bool runs_out(const Session& session) {
  return session.options().tokenizer == "bpe" &&
         session.tokenizer().size() < session.options().vocabulary;
}

}  // namespace

void print_start(const Session& session, const Corpus& corpus) {
  const bool pairs = session.options().has_word_vectors();
  std::cout << "Text       " << corpus.source() << ", " << corpus.bytes() << " bytes"
            << (!corpus.has_checksums() ? "\n"
                : corpus.is_verified()  ? ", verified\n"
                                        : ", not verified (see tokenize --verify)\n")
            << "Tokens     " << session.options().tokenizer << ", " << session.tokenizer().size()
            << (runs_out(session) ? " ids (the text has no more pairs); " : " ids; ")
            << session.training_ids().size() << " tokens to train on, "
            << session.validation_tokens() << " for validation\n"
            << "Batches    " << session.run().options().loader.batches() << " an epoch, each of "
            << session.options().loader.batch << (pairs ? " blocks of " : " windows of ")
            << session.options().gpt.context << " tokens"
            << (pairs ? "" : concat(", stride ", session.options().stride)) << '\n'
            << "Computing  " << blas::describe() << '\n';
  std::cout << "Options   " << chosen_options(session) << '\n';
  if (const double rate = session.target_rate(); rate < session.options().learning_rate)
    std::cout << "Rate       " << rate << " per target instead of --learning-rate "
              << session.options().learning_rate
              << (session.options().momentum > 0 ? ", because of --momentum or" : ", because of")
              << " the gradients of frequent words in a step\n";
  const std::size_t tensors = session.model().parameters().size();
  if (tensors <= kMaxInTable) {
    std::cout << '\n' << session.model().summary();
  } else {
    std::cout << "Model      " << session.model().parameter_count() << " parameters in " << tensors
              << " tensors\n";
  }
  std::cout << '\n';
}

void print_resumed(const TrainingRun& run, const std::string& file, const std::string& changes) {
  std::cout << "Resuming " << file << " at step " << run.steps()
            << (changes.empty() ? "" : ", with " + changes) << '\n';
  if (!run.loaded_arithmetic().empty() && run.loaded_arithmetic() != TrainingRun::arithmetic())
    std::cout
        << "Results may differ in the last bits from an uninterrupted run: the checkpoint was "
           "computed with "
        << run.loaded_arithmetic() << "; this process computes with " << TrainingRun::arithmetic()
        << '\n';
}

std::vector<std::string> other_arithmetic(ProcessGroup* ranks) {
  if (ranks == nullptr) return {};
  const std::vector<std::string> all = ranks->all_gather_lists(TrainingRun::arithmetic());
  std::vector<std::string> others;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      others.push_back(concat("R", ranks->name_of(rank).substr(1), " computes with ", all[rank],
                              ", ", ranks->name_of(0), " with ", all[0]));
  return others;
}

void print_exchange(const Session& session, const ProcessGroup& ranks, std::size_t steps) {
  std::cout << "Exchanged  "
            << readable_count(static_cast<double>(ranks.bytes_sent()) /
                              static_cast<double>(std::max<std::size_t>(steps, 1)))
            << "B per step, sent by each of " << ranks.size() << " ranks";
  const std::vector<Parameter*>& parameters = session.run().options().optimizer.parameters();
  const auto& ways = session.run().gradient_sum()->ways();
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i] == "gathered" || ways[i] == "owners")
      std::cout << "; rows of " << parameters[i]->name()
                << (ways[i] == "owners" ? " summed by their owners" : " gathered");
  std::cout << '\n';
}

std::string run_json(const Session& session, const Corpus& corpus, const RunResults& results) {
  Json history = Json::array();
  Json evaluations = Json::array();  // during epochs
  for (const TrainingRecord& record : session.run().history()) {
    Json entry{{"steps", record.steps},
               {"training_loss", record.training_loss},
               {"validation_loss", record.validation_loss}};
    if (record.ends_epoch()) {
      entry["epoch"] = record.epoch;
      entry["tokens_per_second"] = record.speed;
    }
    (record.ends_epoch() ? history : evaluations).push_back(std::move(entry));
  }
  Json all{{"options", Json(to_json(session.options()), "options")},
           {"text", corpus.source()},
           {"vocabulary_size", session.tokenizer().size()},
           {"training_tokens", session.training_ids().size()},
           {"validation_tokens", session.validation_tokens()},
           {"parameters", session.model().parameter_count()},
           {"blas", blas::describe()},
           {"history", std::move(history)},
           {"evaluations", std::move(evaluations)},
           {"samples", Json(session.samples_json(), "samples")}};
  if (session.options().has_target_rate()) all["target_rate"] = session.target_rate();
  if (results.validation_loss) all["validation_loss"] = *results.validation_loss;
  if (results.validation_unigram_loss)
    all["validation_unigram_loss"] = *results.validation_unigram_loss;
  if (results.sample) all["sample"] = *results.sample;
  return all.dump(2) + "\n";
}

RunFile::RunFile(std::string path, Write write, std::size_t every, CallbackNeeds needs)
    : path_(std::move(path)), write_(std::move(write)), every_(every), needs_(needs) {}

void RunFile::after_step(const TrainingRun& run, const StepResult& result) {
  has_news_ = true;
  const bool ends_epoch = std::ranges::any_of(result.records, &TrainingRecord::ends_epoch);
  if (ends_epoch || (every_ > 0 && run.steps() % every_ == 0)) rewrite();
}

// Writes the last state unless it was already written, so that a pipe does not receive it twice.
void RunFile::at_end(const TrainingRun&) {
  if (has_news_ || !has_written_) rewrite();
}

void RunFile::rewrite() {
  if (!path_.empty()) write_(path_);
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
