#pragma once

// A training run on a text, with all parts that the options of a program describe.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/parallel/parallel_training.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>
#include <rowgrad/examples/rowgrad/session/corpus.hpp>
#include <rowgrad/examples/rowgrad/session/saved_run.hpp>
#include <rowgrad/optim/callbacks/samples.hpp>

namespace rowgrad {

/// Owns the parts of a run, and saves and resumes them as one file.
class Session {
 public:
  /// Begins a run, with `ranks` that share the work, or alone if null. Throws std::invalid_argument
  /// for options that do not fit the corpus.
  static std::unique_ptr<Session> create(const TrainOptions& options,
                                         std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
                                         ProcessGroup* ranks = nullptr);

  /// Continues the run of a checkpoint as if it had never stopped. `name` is the name of its file.
  /// Throws std::runtime_error for a checkpoint that is not of a run on this corpus.
  static std::unique_ptr<Session> resume(const StateDict& file, const std::string& name,
                                         const Corpus& corpus, ProcessGroup* ranks = nullptr);

  /// Begins the run of a checkpoint once more, before its first step. Tables in files become new
  /// ones in the folder `tables`. Throws like resume().
  static std::unique_ptr<Session> replay(const StateDict& file, const std::string& name,
                                         const Corpus& corpus, const std::filesystem::path& tables);

  /// Writes everything that resume() needs, and makes a checkpoint of the tables in files. Replaces
  /// the file, as write_file does. Throws std::runtime_error, and leaves the file, for a run that
  /// has diverged. On several ranks, all call it, and the first one writes the file. The part
  /// "watched" is the state of the callbacks that watched the run; resume() does not read it.
  void save(const std::filesystem::path& path, const StateDict& watched = {});

  /// Sets the options that may change in a resumed run: --epochs, --steps and --learning-rate.
  void set_options(const TrainOptions& options);

  /// Returns the losses of the whole text. Draws no random numbers of the run.
  std::optional<TrainingRecord> evaluate_all();

  /// Returns the loss of evaluated_ids(), which this process computes alone.
  std::optional<double> validation_loss();

  /// Returns the samples so far as a JSON array, in ASCII.
  std::string samples_json() const;

  TrainingRun& run() { return run_; }
  const TrainingRun& run() const { return run_; }
  LanguageModel& model() { return *model_; }
  const LanguageModel& model() const { return *model_; }
  std::vector<Sample>& samples() { return samples_; }  // of the model, in the course of the run
  const TrainOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& text_hash() const { return text_hash_; }

  const TokenSequence& training_ids() const;
  const TokenSequence* validation_ids() const;  // null without validation
  std::uint64_t validation_tokens() const;
  /// Returns the part of the validation text that evaluations read.
  TokenSequence evaluated_ids() const;
  /// Returns the first tokens of the text, to continue: a window, but at most `most`.
  Ids first_words(std::uint64_t most = 16) const;

 private:
  // Batches of both texts. Samples are what evaluations during epochs read.
  struct Loaders {
    Loaders(const TrainOptions& options, const Split& text);

    DataLoader training;
    std::optional<DataLoader> validation;
    DataLoader training_sample;
    std::optional<DataLoader> validation_sample;
  };

  Session(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
          ProcessGroup* ranks, bool resumed);
  void load(StateDict state, const std::string& name);
  TrainingRunOptions parts();
  void start_schedule(std::uint64_t step);

  TrainOptions options_;
  std::string text_hash_;
  std::vector<std::string> text_files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Random random_;  // for the weights, then for dropout
  Loaders loaders_;
  TableFileSet tables_;
  std::optional<ParallelTraining> ranks_;
  std::unique_ptr<LanguageModel> model_;  // after the loaders, which refuse a text without a window
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;
  TrainingRun run_;
  std::vector<Sample> samples_;
};

}  // namespace rowgrad
