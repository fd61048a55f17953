#pragma once

// A training run with the options of a program, and its checkpoints.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/train_options.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

nlohmann::json to_json(const EpochRecord& record);

/// Losses in the course of an epoch, in nats per token.
struct Evaluation {
  std::size_t steps = 0;  // since the start of the run
  double training_loss = 0;
  std::optional<double> validation_loss = std::nullopt;
};
nlohmann::json to_json(const Evaluation& evaluation);

/// A text that the model wrote.
struct Sample {
  std::size_t steps = 0;  // after which it was made
  std::string text;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Sample, steps, text)

/// The loss of a model that knows only how often each token occurs: mean −log p over `text`, with
/// the frequencies in `counted`, where each token counts once more than it occurs. Of a very
/// long text, the first 2^24 tokens stand for all.
double unigram_loss(const TokenSequence& counted, const TokenSequence& text,
                    std::size_t vocabulary);

class Training {
 public:
  /// Starts a run, with `ranks` that share the work or, if null, alone. Throws
  /// std::invalid_argument for options that do not fit the corpus.
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
           ProcessGroup* ranks = nullptr);

  /// Continues from a checkpoint as if the run had never stopped. Throws std::runtime_error for a
  /// file that is not a checkpoint of a run on this corpus.
  static std::unique_ptr<Training> resume(const std::filesystem::path& path, const Corpus& corpus,
                                          ProcessGroup* ranks = nullptr);

  /// Saves everything that resume() needs. Replaces the file, as write_file does. Throws
  /// std::runtime_error, and leaves the file, for a run that has diverged.
  void save(const std::filesystem::path& path) const;

  /// Replaces the weights of a GPT that has not been trained yet: see load_gpt2_weights.
  void start_from(const Checkpoint& gpt2_weights);

  /// Sets the options that may change in a resumed run: --epochs, --steps and --learning-rate.
  void set_options(const TrainOptions& options);

  /// To be called after each step: the losses, where --evaluate-every asks for them and they are
  /// not known yet. `goes_on` is called after each batch; if it returns false, there is no result,
  /// and the run is as before.
  std::optional<Evaluation> evaluate_if_due(const std::function<bool()>& goes_on = {});

  /// Keeps a sample made after the last step.
  void add_sample(const std::string& text) { samples_.push_back({run.steps(), text}); }

  /// The losses of the whole text. They draw no random numbers of the run.
  std::optional<Evaluation> evaluate_all(const std::function<bool()>& goes_on = {});

  /// The loss of the validation text, which this process computes alone.
  std::optional<double> validation_loss();

  const TrainOptions& options() const { return options_; }
  const std::string& text_hash() const { return text_hash_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  LanguageModel& model() { return *model_; }
  const LanguageModel& model() const { return *model_; }
  const std::vector<Evaluation>& evaluations() const { return evaluations_; }
  const std::vector<Sample>& samples() const { return samples_; }
  const TokenSequence& training_ids() const { return training_.windows().text(); }
  const TokenSequence* validation_ids() const {
    return validation_ ? &validation_->windows().text() : nullptr;
  }
  std::size_t batches_per_epoch() const { return training_.size(); }
  std::size_t steps_in_all() const;
  std::size_t steps_left() const;

  /// The tokens of the steps that are left until the end or, unless it is 0, until `last_step`.
  std::size_t tokens_left(std::size_t last_step) const;

  /// Whether nothing is left to be trained and evaluated.
  bool finished() const;
  double learning_rate() const { return optimizer_->learning_rate(); }

 private:
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
           const Corpus& corpus, const Split& parts, ProcessGroup* ranks);
  std::optional<double> loss(DataLoader& loader, const EvaluateOptions& options);
  std::optional<Evaluation> evaluated(DataLoader& training, std::optional<DataLoader>& validation,
                                      const EvaluateOptions& options);
  void start_schedule(std::uint64_t step);

  TrainOptions options_;
  ProcessGroup* ranks_;
  std::string text_hash_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Random random_;  // for the weights, then for dropout
  DataLoader training_;
  std::optional<DataLoader> validation_;
  // What --evaluate-every evaluates, in an order of its own.
  DataLoader training_sample_;
  std::optional<DataLoader> validation_sample_;
  std::vector<Evaluation> evaluations_;
  std::vector<Sample> samples_;
  std::unique_ptr<LanguageModel> model_;  // after the loaders, which refuse a text without a window
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;

 public:
  TrainingRun run;
};

}  // namespace rowgrad
