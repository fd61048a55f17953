#pragma once

// A training run of the next-token model, from the options of a program, and its checkpoint.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/tokenizer.hpp>
#include <rowgrad/examples/support/train_options.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

nlohmann::json to_json(const EpochRecord& record);

/// What a model could reach that knows how often each token occurs and nothing else: mean −log p of
/// `text` under the frequencies in `counted`, each token counted once more than it occurs.
double unigram_loss(const Ids& counted, const Ids& text, std::size_t vocabulary);

class Training {
 public:
  /// Starts a run on a text. Throws std::invalid_argument for options that do not fit it.
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
           const std::string& text);

  /// Goes on where a checkpoint was written, as if never stopped. Throws std::runtime_error for a
  /// file that is no checkpoint of a run on this text.
  static std::unique_ptr<Training> resume(const std::filesystem::path& path,
                                          const std::string& text);

  /// Everything that resume() needs, written beside and renamed.
  void save(const std::filesystem::path& path) const;

  /// Sets what may change in a resumed run: --epochs and --learning-rate.
  void set_options(const TrainOptions& options);

  const TrainOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const Ids& training_ids() const { return loader_.windows().ids(); }
  const Ids* validation_ids() const {
    return validation_ ? &validation_->windows().ids() : nullptr;
  }
  std::size_t steps_per_epoch() const { return loader_.size(); }
  std::size_t steps_left() const;
  double learning_rate() const { return optimizer_->learning_rate(); }

 private:
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
           std::string text_hash, Split ids);
  void start_schedule(std::uint64_t step);

  TrainOptions options_;
  std::string text_hash_;
  std::unique_ptr<Tokenizer> tokenizer_;
  DataLoader loader_;
  std::optional<DataLoader> validation_;
  Random random_;  // of weights, then of dropout

 public:
  NextTokenModel model;  // made after the loaders, which refuse a context longer than the text

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;

 public:
  TrainingRun run;
};

}  // namespace rowgrad
