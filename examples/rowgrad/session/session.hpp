#pragma once

// A training run on a text, with all parts that options of a program describe, as one file.

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/parallel/parallel_training.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>
#include <rowgrad/examples/rowgrad/session/corpus.hpp>
#include <rowgrad/optim/callbacks/samples.hpp>

namespace rowgrad {

class Session {
 public:
  /// Starts a run, with `ranks` that share the work or, if null, alone. Throws
  /// std::invalid_argument for options that do not fit the corpus.
  Session(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer, const Corpus& corpus,
          ProcessGroup* ranks = nullptr);

  /// Continues from a file as if the run had never stopped. Throws std::runtime_error for one that
  /// is not of a run on this corpus. A file that was read already goes with its name.
  static std::unique_ptr<Session> resume(const std::filesystem::path& path, const Corpus& corpus,
                                         ProcessGroup* ranks = nullptr);
  static std::unique_ptr<Session> resume(const Checkpoint& file, const std::string& name,
                                         const Corpus& corpus, ProcessGroup* ranks = nullptr);

  /// The run of a file before its first step, to be trained again; tables in files become new ones
  /// in the folder `tables`. Throws as resume().
  static std::unique_ptr<Session> begin_again(const Checkpoint& file, const std::string& name,
                                              const Corpus& corpus,
                                              const std::filesystem::path& tables);

  /// Saves everything that resume() needs, tables in files too. Replaces the file, as write_file
  /// does. Throws std::runtime_error, and leaves the file, for a run that has diverged.
  /// On several ranks, all call it, and the first writes the file. The part "watched" is the state
  /// of what watched the run; resume() does not read it.
  void save(const std::filesystem::path& path, const Checkpoint& watched = {}) const;

  /// Sets the options that may change in a resumed run: --epochs, --steps and --learning-rate.
  void set_options(const TrainOptions& options);

  /// The losses of the whole text. They draw no random numbers of the run.
  std::optional<TrainingRecord> evaluate_all();

  /// The loss of the validation text, or of the batches of it that evaluations use, which this
  /// process computes alone.
  std::optional<double> validation_loss();

  /// The samples so far as a JSON array, in ASCII.
  std::string samples_json() const;

  const TrainOptions& options() const { return options_; }
  const std::string& text_hash() const { return text_hash_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  LanguageModel& model() { return *model_; }
  const LanguageModel& model() const { return *model_; }
  const TokenSequence& training_ids() const;
  const TokenSequence* validation_ids() const;
  TokenSequence evaluated_ids() const;  // the part of the validation text in validation_loss()

  /// The first tokens of the text, to continue: a window, but not more than `most`.
  Ids first_words(std::uint64_t most = 16) const;

  std::uint64_t validation_tokens() const { return validation_ ? validation_ids()->size() : 0; }

 private:
  Session(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer, const Corpus& corpus,
          const Split& parts, ProcessGroup* ranks, bool resumed);
  void start_schedule(std::uint64_t step);

  TrainOptions options_;
  std::string text_hash_;
  std::vector<std::string> text_files_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Random random_;  // for the weights, then for dropout
  DataLoader training_;
  std::optional<DataLoader> validation_;
  // What --evaluate-every evaluates, in an order of its own.
  DataLoader training_sample_;
  std::optional<DataLoader> validation_sample_;
  mutable ModelTables tables_;  // saving makes their checkpoint
  std::optional<ParallelTraining> ranks_;
  std::unique_ptr<LanguageModel> model_;  // after the loaders, which refuse a text without a window
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;

 public:
  TrainingRun run;
  std::vector<Sample> samples;  // of the model, in the course of the run
};

/// The files of the text that the run in a file was trained on, as Corpus::find() takes them;
/// `name` is that of the file. Throws std::runtime_error as resume(), and for a file that is not
/// there any more.
std::vector<std::string> saved_corpus(const Checkpoint& file, const std::string& name);

/// A model that was saved, with what it needs to write.
struct SavedModel {
  std::unique_ptr<Tokenizer> tokenizer = {};
  ModelTables tables = {};
  std::unique_ptr<Optimizer> optimizer = {};  // has deferred updates of rows in files
  std::unique_ptr<LanguageModel> model = {};
};

/// The model in the file of a run, without the text of the run, or in one of save_gpt(). Throws
/// std::runtime_error as resume(), and where a table in a file is not as it was when this was
/// saved, but later.
SavedModel load_model(const std::filesystem::path& path);

/// The options in the file of a run, whose name is `name`. A table that is not where it was is
/// taken from the folder of that file, so that both can be moved. Throws std::runtime_error, which
/// says that it cannot be `purpose`, for what is no such file.
TrainOptions saved_options(const Checkpoint& file, const std::string& name,
                           const char* purpose = "read");

}  // namespace rowgrad
