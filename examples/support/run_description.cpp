#include <algorithm>
#include <ctime>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <sstream>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/run_description.hpp>

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
  if (options.clip_from > 0) text << " from step " << options.clip_from << " on";
  if (options.tie) text << "; the head is tied to the token table";
  return text.str();
}

bool runs_out(const TextRun& training) {
  return training.options().tokenizer == "bpe" &&
         training.tokenizer().size() < training.options().vocabulary;
}

}  // namespace

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

void print_exchange(const TextRun& training, const ProcessGroup& ranks, std::size_t steps) {
  std::cout << "Exchanged  "
            << readable_count(static_cast<double>(ranks.bytes_sent()) /
                              static_cast<double>(std::max<std::size_t>(steps, 1)))
            << "B a step sent by each of " << ranks.size() << " ranks";
  const std::vector<Parameter*>& parameters = training.run.parts().optimizer.parameters();
  const auto& ways = training.run.exchange().ways();
  for (std::size_t i = 0; i < ways.size(); ++i)
    if (ways[i] == "gathered" || ways[i] == "owners")
      std::cout << "; rows of " << parameters[i]->name()
                << (ways[i] == "owners" ? " by owners" : " gathered");
  std::cout << '\n';
}

std::string about_run(const CommandLine& line, const TextRun& training, const Corpus& corpus) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::ostringstream started;
  started << std::put_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  const ProcessGroup* ranks = training.run.parts().ranks;
  const std::string each = ranks != nullptr ? concat(ranks->size(), " ranks, each ") : "";
  TrainOptions train = training.options();  // if it was resumed, those of its checkpoint
  std::map<std::string, std::string> options = texts_of(option_table_of(train));
  options.merge(texts_of(line.options()));
  Json all{{"program", std::filesystem::path(line.program()).filename().string()},
           {"command", line.repeated()},
           {"started", started.str()},
           {"machine", each + blas::describe()},
           {"text", {{"source", corpus.source()}, {"bytes", corpus.bytes()}}},
           {"tokenizer", {{"name", train.tokenizer}, {"size", training.tokenizer().size()}}},
           {"tokens",
            {{"training", training.training_ids().size()},
             {"validation", training.validation_tokens()}}}};
  for (const auto& [name, text] : options) all["options"][name] = text;
  return all.dump();
}

std::string run_json(const TextRun& training, const Corpus& corpus, const RunResults& results) {
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

}  // namespace rowgrad
