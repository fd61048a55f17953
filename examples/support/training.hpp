#pragma once

// A training run of the next-token model with the options of a program, and its checkpoints.

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

/// The loss of a model that knows only how often each token occurs: mean −log p over `text`, with
/// the frequencies in `counted`, where each token counts once more than it occurs.
double unigram_loss(const Ids& counted, const Ids& text, std::size_t vocabulary);

class Training {
 public:
  /// Starts a run on a text. Throws std::invalid_argument for options that do not fit it.
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer> tokenizer,
           const std::string& text);

  /// Continues from a checkpoint as if the run had never stopped. Throws std::runtime_error for a
  /// file that is not a checkpoint of a run on this text.
  static std::unique_ptr<Training> resume(const std::filesystem::path& path,
                                          const std::string& text);

  /// Saves everything that resume() needs. Replaces the file, as write_file does.
  void save(const std::filesystem::path& path) const;

  /// Sets the options that may change in a resumed run: --epochs and --learning-rate.
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
  Random random_;  // for the weights, then for dropout

 public:
  NextTokenModel model;  // made after the loaders, which refuse a context longer than the text

 private:
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<LearningRateSchedule> schedule_;

 public:
  TrainingRun run;
};

}  // namespace rowgrad
