#pragma once

// Trains a model on the batches of a loader:
//
//   TrainingRun run({.model = model, .optimizer = optimizer, .loader = loader, .random = random,
//                    .epochs = 10});
//   while (run.step()) std::cout << run.steps() << '\n';  // or run.train()
//   write_safetensors("run.safetensors", run.state_dict());

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/core/parallel/training_ranks.hpp>
#include <rowgrad/layers/model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/training/evaluation.hpp>
#include <rowgrad/optim/training/step_gradients.hpp>
#include <rowgrad/optim/training/training_callback.hpp>

namespace rowgrad {

/// For what has no limit, or one that cannot be counted.
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Evaluations of a run. They draw from the run's random numbers only if the loaders do.
struct EvaluationParts {
  /// The steps between evaluations in the course of epochs, the first of which is after step 1;
  /// 0 for none.
  std::size_t every = 0;
  /// The number of batches that every evaluation uses, also the one after each epoch: the first
  /// ones of an epoch of the loader; 0 for all.
  std::size_t batches = 0;
  /// Whether accuracies are wanted, too, here and after each epoch: see EvaluateOptions.
  bool accuracy = false;
  /// Loaders for the evaluations in the course of epochs. Without one for validation, these have
  /// no validation loss.
  const DataLoader* training = nullptr;
  const DataLoader* validation = nullptr;
};

/// The parts of a run, all borrowed.
struct TrainingParts {
  /// The model to train. The loss of a step is the mean over all targets of all its batches,
  /// weighted by Model::weight, no matter how many batches, shards and ranks compute it. A step
  /// without weights has no gradients and a loss of 0.
  Model& model;
  Optimizer& optimizer;  // of the model's parameters
  const DataLoader& loader;
  /// The random numbers for dropout, and for loaders that draw their order.
  Random& random;
  /// Its step() is called after each step of the optimizer; null for a constant learning rate.
  LearningRateSchedule* schedule = nullptr;
  /// The data for the evaluation after each epoch; null for no evaluation.
  const DataLoader* validation = nullptr;
  /// The limit for the joint norm of all gradients (see clip_grad_norm); 0 for no limit.
  double clip_norm = 0;
  /// After how many steps clipping begins.
  std::size_t clip_from = 0;
  /// The number of batches in a step. A step equals, to rounding, a step on one batch of all their
  /// examples: a batch contributes by its weight (Model::weight), so a short last batch, or one
  /// with few unmasked targets, contributes less. A PyTorch loop over `(loss / accumulate)
  /// .backward()` weights all batches equally instead. The last step of an epoch takes the batches
  /// that are left.
  std::size_t accumulate = 1;
  /// The parts into which the examples of each batch are cut, and whose gradients are computed one
  /// by one and added up in an order of their own. A run has the same bits on any number of ranks,
  /// if it has the same shards. With more than one, each shard draws random numbers of its own.
  std::size_t shards = 1;
  /// The processes that share the work, each with equal parts (ParallelTraining); null if this one
  /// is alone. There must be at least a shard for each. An exception on one rank makes the others
  /// wait in vain.
  TrainingRanks* ranks = nullptr;
  /// How many bytes of dense gradients a rank sends to another at once, while it computes others.
  std::size_t bucket_bytes = GradientSum::kBucketBytes;
  /// The steps after which ranks compare all parameters; they do so after the first step and after
  /// each epoch, too.
  std::size_t compare_every = 1000;
  /// Whether the first step may leave parameters without a gradient, as models do of which each
  /// batch uses other parts (find_unused_parameters of PyTorch's DistributedDataParallel).
  bool allow_unused = false;
  /// If true, a loss or a gradient that is infinite or NaN does not stop training, as in PyTorch.
  /// Otherwise step() throws before anything changes, and state_dict() refuses such parameters.
  bool allow_not_finite = false;
  /// The length of the run: steps or, if that is 0, epochs. Without it, train() has to be told when
  /// to stop.
  std::size_t epochs = kNoLimit;
  std::size_t steps = 0;
  EvaluationParts evaluation = {};  // after some steps of an epoch
};

class TrainingRun {
 public:
  /// Throws std::invalid_argument for a schedule that is not at its beginning, for a clip_norm that
  /// is negative or not finite, if `accumulate` is 0, and for fewer shards than ranks.
  explicit TrainingRun(const TrainingParts& parts);

  /// Adds a callback, which must live until the last step or until it is removed. Does nothing if
  /// it was added before. Must not be called during a step. On several ranks, add callbacks that
  /// print or write on the first one (is_first_rank()); any rank may have one that stops the run.
  void add(TrainingCallback& callback) {
    if (std::ranges::find(callbacks_, &callback) == callbacks_.end())
      callbacks_.push_back(&callback);
  }
  void remove(const TrainingCallback& callback) { std::erase(callbacks_, &callback); }

  /// Makes a step, and the records that are due then: that of an evaluation, and that of the epoch
  /// if it has ended. Returns false, and does nothing, if the run has ended; and once if a callback
  /// has stopped it, even in an evaluation, which the next call makes instead of a step.
  ///
  /// What the model, the optimizer or a callback throws ends the run, and so does a failure of the
  /// memory or the disk: further calls throw std::logic_error until a state is loaded. After a
  /// failure in an evaluation or in after_step(), the run can still be saved. On
  /// several ranks, start all processes again. (A rate that the schedule refuses is refused before
  /// anything changes, but ends it, too.)
  ///
  /// Throws std::runtime_error if the loss or a gradient is not finite, on all ranks alike; the
  /// optimizer and its parameters are then as they were before the step (see allow_not_finite). So
  /// does a record whose loss is not finite, after the step.
  ///
  /// Throws std::logic_error for a parameter that gets a gradient but is none of the optimizer's
  /// and, in the first step, for one of the optimizer's that gets none (see allow_unused). Groups
  /// may be added to the optimizer between steps. On several ranks, parameters that differ between
  /// them are a std::runtime_error that names parameter and rank.
  bool step();

  /// Makes steps until the run has ended, a callback stops it, or step `last_step` was made, and
  /// then calls TrainingCallback::at_end. Returns whether the run has ended. Throws
  /// std::invalid_argument if it has no length and there is no last step.
  bool train(std::size_t last_step = kNoLimit);

  /// The same to the end of the epoch. Returns whether its record was added.
  bool run_epoch();

  /// The losses of the batches of these loaders, from their first epoch on; nothing if a callback
  /// stops the run meanwhile.
  std::optional<TrainingRecord> evaluate(const DataLoader& training, const DataLoader* validation,
                                         std::size_t batches = 0);

  const TrainingParts& parts() const { return parts_; }  // as they were given
  /// Changes the length of the run: steps or, if that is 0, epochs.
  void set_length(std::size_t epochs, std::size_t steps);

  /// All records, in the order of their steps; where both are due, that of the epoch comes last.
  const std::vector<TrainingRecord>& history() const { return history_; }

  /// How many epochs have ended, with their evaluation.
  std::size_t epochs() const;

  /// Steps since the start of the run, in each epoch, in the whole run, and of those the ones that
  /// are left.
  std::size_t steps() const;
  std::size_t steps_per_epoch() const;
  std::size_t steps_in_all() const;
  std::size_t steps_left() const { return steps_in_all() - std::min(steps(), steps_in_all()); }

  /// What the data is counted in: tokens of a text, examples, …
  const DataUnit& unit() const { return unit_; }

  /// Whether nothing is left to be trained and evaluated.
  bool has_ended() const;

  /// Whether a further step is to be made, in this call of train().
  bool makes_more_steps() const { return steps_left() > 0 && !stops(); }

  /// The limit for the joint norm of the next step's gradients; 0 for none.
  double next_clip_norm() const { return steps() < parts_.clip_from ? 0 : parts_.clip_norm; }

  /// Fetches rows of sharded tables, for callbacks; null if all rows are here.
  TablePlacement* tables() const { return has_sharded_tables() ? parts_.ranks : nullptr; }

  bool is_first_rank() const { return group_.rank() == 0; }  // whether it writes and prints

  /// How many units a second the steps of this epoch took, since the run was started or its state
  /// was loaded, and the time that the steps of this call of train() still take at this speed.
  double speed() const;
  double seconds_left() const;

  /// How gradients travel between ranks: see GradientSum::ways. Null for a process alone.
  const GradientSum* gradient_sum() const { return gradients_.sum(); }

  /// What this process computes with: version, number type, BLAS and threads. States have it, too.
  static std::string arithmetic();

  /// That of the process which saved the state that was loaded; "" if there was none. If it is
  /// another, last bits may be others than those of a run that never stopped.
  const std::string& loaded_arithmetic() const { return loaded_arithmetic_; }

  /// The state of all parts and of the run itself. A run with equal parts that loads it continues
  /// as if it had never stopped, bit for bit, if it computes with the same. Loading throws
  /// std::invalid_argument for a state that does not fit a part or contradicts itself, and then
  /// changes nothing (if the optimizer has check_state_dict()); after a failure of the memory or
  /// the disk, and if the values of the model are not those that the optimizer's state belongs to,
  /// load a state again. Examples, batches and their order have to be the same
  /// (DataLoader::state_dict), and so does `accumulate`. States of version 0.2.0 are refused.
  ///
  /// What else its parts are made with may change without a message, and is taken as it is now:
  /// the length of the run, the shape of its schedule, clip_norm and clip_from, the loss and its
  /// weights, validation and evaluations, shards and ranks, and options of optimizer and model that
  /// have no part in their states (betas, weight decay, dropout, learning rates).
  ///
  /// Options and learning rates that were set during the run are not saved: set them again after
  /// loading. A schedule is saved with the rates that it began with; loading sets the rates of its
  /// step, also where others had replaced them.
  ///
  /// Saving throws std::logic_error between a step's gradients and its update and after a step has
  /// failed there, when the parts are at different steps, and std::runtime_error if a trained
  /// parameter in memory is not finite (see allow_not_finite). check_can_save() only throws. If
  /// tables are sharded, it throws on the ranks whose rows are not finite.
  Checkpoint state_dict() const;
  void check_can_save() const;
  void load_state_dict(const Checkpoint& state);

 private:
  // The phase of a run. Its parts are at different steps during kUpdates and after kFailed. After
  // kReportsFailed, they are at the same step: it can be saved, but makes no further steps.
  enum class Phase { kReady, kUpdates, kReports, kFailed, kReportsFailed };

  double make_step();
  void check_finite(double loss) const;
  void check_finite(const TrainingRecord& record) const;
  std::vector<Batch> read_parts(std::size_t count);
  void add_due_records();
  std::optional<TrainingRecord> record_of_epoch();
  std::optional<TrainingRecord> with_losses(TrainingRecord record, const DataLoader* training,
                                            const DataLoader* validation, std::size_t batches);
  bool should_continue();
  void each(const std::function<void(TrainingCallback&)>& call) const;
  void compare_ranks() const;
  // Whether rows of tables are on other ranks.
  bool has_sharded_tables() const { return parts_.ranks != nullptr && parts_.ranks->has_tables(); }
  std::vector<TableLookup> lookups_of(std::span<const Batch> batches) const;
  // Whether a callback or the last step that was asked for ends this call of train().
  bool stops() const { return stopped_ || steps() >= last_step_; }
  // Whether the last step has records that were not made yet.
  bool is_due() const { return evaluation_is_due() || epoch_is_due(); }
  bool evaluation_is_due() const;
  bool epoch_is_due() const { return progress_.epoch > epochs(); }
  Checkpoint own_state() const;
  void load_own_state(const Checkpoint& state);
  void check_counts(const Checkpoint& optimizer) const;

  TrainingParts parts_;
  DataUnit unit_;
  SingleProcess alone_;
  ProcessGroup& group_;
  StepGradients gradients_;
  std::string loaded_arithmetic_;
  std::vector<TrainingCallback*> callbacks_;
  std::vector<TrainingRecord> history_;
  Progress progress_;                      // of the steps that were made
  std::optional<DataLoader::Epoch> data_;  // of the epoch, from its next step on
  std::size_t last_step_ = kNoLimit;       // of this call of train()
  bool stopped_ = false;                   // by a callback
  Phase phase_ = Phase::kReady;
  struct Epoch {          // so far
    double loss_sum = 0;  // over all targets
    double weight = 0;    // theirs: their number, if each counts once
    // Since the start or the last load:
    double seconds = 0;
    std::size_t steps = 0, units = 0;
  } epoch_;
};

}  // namespace rowgrad
