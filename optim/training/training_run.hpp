#pragma once

// Training a language model on a text, epoch by epoch:
//
//   TrainingRun run({.model = model, .optimizer = optimizer, .loader = loader, .random = random});
//   while (run.history().size() < 10) run.run_epoch();
//   write_safetensors("run.safetensors", run.state_dict());

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>

namespace rowgrad {

/// What a run works with. It borrows all of it; nobody else should use the loaders meanwhile.
struct TrainingParts {
  LanguageModel& model;
  Optimizer& optimizer;
  DataLoader& loader;  // at its beginning
  /// What dropout draws from.
  Random& random;
  /// Steps after each step of the optimizer; none for a constant learning rate.
  LearningRateSchedule* schedule = nullptr;
  /// What the model is evaluated on after each epoch, if anything.
  DataLoader* validation = nullptr;
  /// The largest norm of all gradients of a step (clip_grad_norm); 0 for no limit.
  double clip_norm = 0;
};

/// Losses are in nats a token.
struct EpochRecord {
  std::size_t epoch = 0;  // from 1
  std::size_t steps = 0;  // since the start of the run
  double training_loss = 0;
  std::optional<double> validation_loss = std::nullopt;
  double tokens_per_second = 0;
};

class TrainingRun {
 public:
  /// Throws std::invalid_argument for a loader that is not at its beginning.
  explicit TrainingRun(const TrainingParts& parts);

  /// Trains one epoch, or what is left of it, evaluates, and adds a record to the history.
  /// `after_step` is called with each step's loss: when it returns false, training stops, and only
  /// the last step of an epoch is still followed by the evaluation and the record. When
  /// `keep_evaluating`, which is called after each batch, returns false, the evaluation is broken
  /// off; the next call repeats it. Returns whether nothing stopped the epoch.
  bool run_epoch(const std::function<bool(double loss)>& after_step = {},
                 const std::function<bool()>& keep_evaluating = {});

  const std::vector<EpochRecord>& history() const { return history_; }

  /// Steps since the start of the run.
  std::size_t steps() const { return steps_; }

  /// Tokens trained on a second, in this epoch since the run was started or its state loaded.
  double tokens_per_second() const;

  /// The state of all parts, and of the run itself: a run of equal parts that loads it goes on as
  /// if it had never stopped, bit for bit. Loading throws std::invalid_argument for a state that
  /// does not fit a part or contradicts itself, and then changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

 private:
  double step(const Batch& batch);
  bool finish_epoch(const std::function<bool()>& keep_evaluating);
  bool awaits_evaluation() const { return parts_.loader.position().epoch > history_.size(); }
  void load(const Checkpoint& state);
  void check_progress() const;

  TrainingParts parts_;
  std::vector<EpochRecord> history_;
  std::size_t steps_ = 0;
  // Of the epoch so far:
  double loss_sum_ = 0;  // over its tokens
  std::size_t tokens_ = 0;
  double seconds_ = 0;  // spent on the steps since the start or the last load
  std::size_t timed_tokens_ = 0;
};

}  // namespace rowgrad
