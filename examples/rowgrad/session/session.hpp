#pragma once

// A training run on a corpus, described by program options.

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

/// The parts of a training run, saved and resumed together.
class Session {
 public:
  /// Starts a run. `ranks`, if not null, share the work. Throws std::invalid_argument if the
  /// options do not fit the corpus.
  static std::unique_ptr<Session> create(const TrainOptions& options,
                                         std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
                                         ProcessGroup* ranks = nullptr);

  /// Resumes the run of a checkpoint as if it had never stopped. `name` is the checkpoint's file.
  /// Throws std::runtime_error unless the file is a checkpoint of a run on this corpus.
  static std::unique_ptr<Session> resume(const StateDict& file, const std::string& name,
                                         const Corpus& corpus, ProcessGroup* ranks = nullptr);

  /// Starts the run of a checkpoint again, before its first step. Creates new table files in the
  /// folder `tables`. Throws like resume().
  static std::unique_ptr<Session> replay(const StateDict& file, const std::string& name,
                                         const Corpus& corpus, const std::filesystem::path& tables);

  /// Writes everything that resume() needs, and checkpoints the table files. Replaces the file like
  /// write_file. Throws std::runtime_error, and keeps the old file, if a parameter is not finite.
  /// All ranks must call save(); the first writes the file, all write shards. `watched`, which
  /// resume() does not read, is the state of callbacks that recorded the run.
  void save(const std::filesystem::path& path, const StateDict& watched = {});

  /// Sets options that may change in a resumed run: --epochs, --steps and --learning-rate.
  void set_options(const TrainOptions& options);

  /// Returns the losses on the whole corpus. Draws no random numbers of the run.
  std::optional<TrainingRecord> evaluate_all();

  /// Returns the loss on evaluated_ids(), computed by this process alone; nullopt without
  /// validation.
  std::optional<double> validation_loss();

  /// Returns all samples as a JSON array in ASCII.
  std::string samples_json() const;

  TrainingRun& run() { return run_; }
  const TrainingRun& run() const { return run_; }
  Model& model() { return *model_; }
  const Model& model() const { return *model_; }
  /// Returns the samples of the run.
  std::vector<Sample>& samples() { return samples_; }
  const TrainOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::string& text_hash() const { return text_hash_; }

  /// Returns the learning rate of each target of word vectors (TrainOptions::target_rate).
  double target_rate() const {
    return options_.has_target_rate() ? options_.target_rate(pairs_) : options_.learning_rate;
  }

  const TokenSequence& training_ids() const { return text_.train; }
  /// Returns the validation tokens; null without validation.
  const TokenSequence* validation_ids() const;
  std::uint64_t validation_tokens() const;
  /// Returns the part of the validation tokens that evaluations read.
  TokenSequence evaluated_ids() const;
  /// Returns the first tokens of the corpus as a prompt, at most a window and `most` tokens.
  Ids first_words(std::uint64_t most = 16) const;

 private:
  // Loaders for training and validation. Evaluations during epochs read the …_sample loaders.
  struct Loaders {
    Loaders(const TrainOptions& options, const Split& text,
            const std::vector<std::uint64_t>& counts, const Vocabulary& vocabulary);

    DataLoader training;
    std::optional<DataLoader> validation;
    DataLoader training_sample;
    std::optional<DataLoader> validation_sample;
  };

  Session(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
          ProcessGroup* ranks, bool resumed);
  void load(StateDict state, const std::string& name);
  TrainingRunOptions parts();
  void sample_loss();  // applies --sampled-softmax
  void start_schedule(std::uint64_t step);

  TrainOptions options_;
  std::string text_hash_;
  std::vector<std::string> text_files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Split text_;
  std::vector<std::uint64_t> counts_;  // of ids in the training text, if the model draws negatives
  Random random_;                      // draws the weights, then dropout masks
  Loaders loaders_;
  PairsPerStep pairs_;
  TableFileSet tables_;
  std::optional<ParallelTraining> ranks_;
  std::unique_ptr<Model> model_;  // after the loaders, which reject short texts
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;
  TrainingRun run_;
  std::vector<Sample> samples_;
};

}  // namespace rowgrad
