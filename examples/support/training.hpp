#pragma once

// A training run of the next-token model: what it needs, a step, an epoch's end, and its
// checkpoint.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/tokenizer.hpp>
#include <rowgrad/core/io/safetensors.hpp>
#include <rowgrad/examples/support/train_options.hpp>

namespace rowgrad {

/// Losses are in nats a token.
struct EpochRecord {
  std::size_t epoch = 0;  // from 1
  std::size_t steps = 0;  // since the start of the run
  double training_loss = 0;
  std::optional<double> validation_loss = std::nullopt;
  double tokens_per_second = 0;
};

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

  /// Trains one epoch, or what is left of it, and adds its record. `after_step` is called with the
  /// loss of each step; when it returns false, training stops there, without a record unless the
  /// epoch was at its end. Nor is there a record when the validation at its end was interrupted;
  /// that is then what is left of the epoch. Returns whether it was not stopped.
  template <class AfterStep>
  bool run_epoch(const AfterStep& after_step) {
    bool goes_on = true;
    if (!awaits_validation()) {
      for (const Batch& batch : loader_) {
        goes_on = after_step(step(batch));
        if (!goes_on && loader_.position().batch != 0) return false;
      }
    }
    return finish_epoch() && goes_on;
  }

  /// Sets what may change in a resumed run: --epochs and --learning-rate.
  void set_options(const TrainOptions& options);

  const TrainOptions& options() const { return options_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::vector<EpochRecord>& history() const { return history_; }
  const Ids& training_ids() const { return loader_.windows().ids(); }
  const Ids* validation_ids() const {
    return validation_ ? &validation_->windows().ids() : nullptr;
  }
  std::size_t steps() const { return steps_; }
  std::size_t steps_per_epoch() const { return loader_.size(); }
  std::size_t steps_left() const;
  double tokens_per_second() const;
  double learning_rate() const { return optimizer_->learning_rate(); }

 private:
  Training(const TrainOptions& options, std::unique_ptr<Tokenizer>&& tokenizer,
           std::string text_hash, Split ids);
  nlohmann::json progress() const;
  void restore(const SafetensorsFile& file);
  void check_progress() const;
  void start_schedule(LearningRateSchedule::State state);

  double step(const Batch& batch);
  bool finish_epoch();
  bool awaits_validation() const { return loader_.position().epoch > history_.size(); }

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
  std::unique_ptr<LearningRateSchedule> schedule_;
  std::vector<EpochRecord> history_;
  std::size_t steps_ = 0;
  double loss_sum_ = 0;     // of the epoch so far, over its tokens
  std::size_t tokens_ = 0;  // of the epoch so far
  double seconds_ = 0;      // spent on the steps of the epoch since the start or the resumption
  std::size_t timed_tokens_ = 0;
};

}  // namespace rowgrad
