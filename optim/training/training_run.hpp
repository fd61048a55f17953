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
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/parallel/training_ranks.hpp>
#include <rowgrad/layers/model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/training/evaluation.hpp>
#include <rowgrad/optim/training/step_gradients.hpp>
#include <rowgrad/optim/training/training_callback.hpp>

namespace rowgrad {

/// No limit, or a limit that cannot be counted.
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// Evaluations of a run. Only loaders that draw their order draw from the run's random numbers.
struct PeriodicEvaluation {
  /// The number of steps between evaluations during epochs; the first one is after step 1. 0 for
  /// none.
  std::size_t every = 0;
  /// The number of batches of every evaluation, also of the one after each epoch: the first ones of
  /// the loader's first epoch. 0 for all.
  std::size_t batches = 0;
  /// If true, every evaluation also finds accuracies: see EvaluateOptions.
  bool accuracy = false;
  /// Loaders for the evaluations during epochs. Without one for validation, these have no
  /// validation loss.
  const DataLoader* training = nullptr;
  const DataLoader* validation = nullptr;
};

/// The parts of a run, all borrowed.
struct TrainingRunOptions {
  /// The model to train. The loss of a step is the mean over all targets of all its batches,
  /// weighted by Model::weight, no matter how many batches, slices and ranks compute it. A step
  /// without weights has no gradients and a loss of 0.
  Model& model;
  Optimizer& optimizer;  // of the model's parameters
  const DataLoader& loader;
  /// The random numbers for dropout, and for loaders that draw their order.
  Random& random;
  /// Its step() is called after each step of the optimizer. Null for a constant learning rate.
  LearningRateSchedule* schedule = nullptr;
  /// The data for the evaluation after each epoch. Null for no evaluation.
  const DataLoader* validation = nullptr;
  /// The limit for the joint norm of all gradients (see clip_grad_norm); 0 for no limit. The first
  /// `clip_from` steps are not clipped.
  double clip_norm = 0;
  std::size_t clip_from = 0;
  /// The number of batches in a step. A step equals, up to rounding, a step on one batch of all
  /// their examples: each batch contributes by its weight. A PyTorch loop over `(loss /
  /// accumulate).backward()` weights all batches equally instead. The last step of an epoch takes
  /// the batches that are left.
  std::size_t accumulate = 1;
  /// The number of slices of each batch. Their gradients are computed one by one and added up in a
  /// fixed order, so a run has the same bits on any number of ranks. With more than one, each slice
  /// draws random numbers of its own.
  std::size_t slices = 1;
  /// The processes that share the work (ParallelTraining), each with equal parts and at least one
  /// slice. Null for one process. An exception on one rank makes the others wait in vain.
  TrainingRanks* ranks = nullptr;
  /// The number of bytes of dense gradients that a rank sends at once, while it computes others.
  std::size_t bucket_bytes = GradientSum::kBucketBytes;
  /// Ranks compare all parameters every `compare_every` steps, after the first step, and after each
  /// epoch.
  std::size_t compare_every = 1000;
  /// If true, the first step may leave parameters without a gradient, as models do that use other
  /// parts for each batch (find_unused_parameters of PyTorch's DistributedDataParallel).
  bool allow_unused = false;
  /// If true, training goes on where a loss, a gradient or a parameter is infinite or NaN, as in
  /// PyTorch. Otherwise step() and state_dict() throw.
  bool allow_non_finite = false;
  /// The length of the run: steps or, if that is 0, epochs. Without it, train() has to be told when
  /// to stop.
  std::size_t epochs = kNoLimit;
  std::size_t steps = 0;
  PeriodicEvaluation evaluation = {};  // during epochs
};

/// Former names.
using EvaluationParts [[deprecated("use PeriodicEvaluation")]] = PeriodicEvaluation;
using TrainingParts [[deprecated("use TrainingRunOptions")]] = TrainingRunOptions;

/// A loop of training steps and evaluations, with its progress, its history and a state to save.
class TrainingRun {
 public:
  /// Throws std::invalid_argument for a schedule that is not at its beginning, for a clip_norm that
  /// is negative or not finite, if `accumulate` is 0, and for fewer slices than ranks.
  explicit TrainingRun(const TrainingRunOptions& parts);

  /// Adds a callback, which must live until the last step or until it is removed. Does nothing if
  /// it was added before. Must not be called during a step. On several ranks, add callbacks that
  /// print or write on the first one (is_first_rank()); a callback that stops the run may be on any
  /// rank.
  void add(TrainingCallback& callback) {
    if (std::ranges::find(callbacks_, &callback) == callbacks_.end())
      callbacks_.push_back(&callback);
  }
  void remove(const TrainingCallback& callback) { std::erase(callbacks_, &callback); }

  /// Makes a step and the records that are due after it: an evaluation, and the record of the epoch
  /// if it has ended. Returns false without a step if the run has ended, and once after a callback
  /// has stopped it. Records that were left then are made by the next call, instead of a step.
  ///
  /// An exception of the model, the optimizer or a callback ends the run: further calls throw
  /// std::logic_error until a state is loaded. After a failure between two steps (in an evaluation,
  /// should_continue(), after_step() or at_end()), the run can still be saved. On several ranks,
  /// start all processes again. (A rate that the schedule refuses is refused before anything
  /// changes, but also ends the run.)
  ///
  /// Throws std::runtime_error on all ranks:
  /// - if the loss or a gradient is not finite, before the update (see allow_non_finite);
  /// - if the loss of a record is not finite, or a parameter in memory after the last step of the
  ///   run, of train(), or before a stop;
  /// - if parameters differ between ranks.
  ///
  /// Throws std::logic_error for a parameter that gets a gradient but is not the optimizer's and,
  /// in the first step, for one of the optimizer's that gets none (see allow_unused). Groups may be
  /// added to the optimizer between steps.
  bool step();

  /// Makes steps until the run has ended, a callback stops it, or step `last_step` was made, and
  /// then calls TrainingCallback::at_end. Returns true if the run has ended. Throws
  /// std::invalid_argument without a length and without a last step.
  bool train(std::size_t last_step = kNoLimit);

  /// Trains to the end of the epoch. Returns true if its record was added.
  bool run_epoch();

  /// The losses of the batches of these loaders, in their first epoch. None if a callback stops the
  /// run meanwhile.
  std::optional<TrainingRecord> evaluate(const DataLoader& training, const DataLoader* validation,
                                         std::size_t batches = 0);

  const TrainingRunOptions& parts() const { return parts_; }  // as they were given
  /// Changes the length of the run: steps or, if that is 0, epochs.
  void set_length(std::size_t epochs, std::size_t steps);

  /// All records, in the order of their steps. The record of an epoch comes after an evaluation.
  const std::vector<TrainingRecord>& history() const { return history_; }

  std::size_t epochs() const;           // that have ended, with their record
  std::size_t steps() const;            // that were made
  std::size_t steps_per_epoch() const;  // with a last one that may have fewer batches
  std::size_t total_steps() const;      // kNoLimit without a length
  /// Returns the number of steps until the end of the run.
  std::size_t steps_left() const { return total_steps() - std::min(steps(), total_steps()); }

  /// The unit of the data: tokens of a text, examples, …
  const DataUnit& unit() const { return unit_; }

  /// Returns true if nothing is left to be trained and evaluated.
  bool has_ended() const;

  bool is_stopped() const { return stopped_; }  // true if a callback stops this call of train()

  /// Returns true if a further step is to be made, in this call of train().
  bool has_more_steps() const { return steps_left() > 0 && !stops(); }
  [[deprecated("use has_more_steps()")]] bool makes_more_steps() const { return has_more_steps(); }
  [[deprecated("use total_steps()")]] std::size_t steps_in_all() const { return total_steps(); }

  /// The limit for the joint norm of the next step's gradients; 0 for none.
  double next_clip_norm() const { return steps() < parts_.clip_from ? 0 : parts_.clip_norm; }

  /// Fetches rows of sharded tables, for callbacks; null if all rows are here.
  TablePlacement* tables() const { return has_sharded_tables() ? parts_.ranks : nullptr; }

  bool is_first_rank() const { return group_.rank() == 0; }  // the rank that writes and prints

  /// The units per second in the steps of this epoch, since the run was started or loaded, and the
  /// time that the steps of this call of train() still take at this speed.
  double speed() const;
  double seconds_left() const;

  /// The sum over ranks, whose ways() say how gradients travel. Null for a process alone.
  const GradientSum* gradient_sum() const { return gradients_.sum(); }

  /// Describes version, number type, BLAS and threads of this process. States contain it.
  static std::string arithmetic();

  /// The arithmetic of the process that saved the loaded state; "" if none was loaded. If it
  /// differs, the run may differ in its last bits from a run that never stopped.
  const std::string& loaded_arithmetic() const { return loaded_arithmetic_; }

  /// The state of all parts and of the run itself. A run with equal parts that loads it continues
  /// as if it had never stopped, bit for bit, with the same arithmetic. The examples, the batches,
  /// their order and `accumulate` have to be the same (DataLoader::description). The following may
  /// change without a message: the length of the run, the shape of its schedule, clip_norm and
  /// clip_from, the loss and its weights, evaluations, slices and ranks, and options that optimizer
  /// and model do not save (betas, weight decay, dropout, learning rates). So set options and
  /// learning rates that were set during the run again. A schedule is saved with the rates that it
  /// began with; loading sets the rates of its step.
  ///
  /// Loading throws std::invalid_argument for a state that does not fit a part or contradicts
  /// itself, and then changes nothing (if the optimizer has check_state_dict()). If it fails for
  /// another reason, load a state again. States of older versions are refused.
  ///
  /// Saving throws std::logic_error between a step's gradients and its update and after a step has
  /// failed there, when the parts are at different steps, and std::runtime_error if a trained
  /// parameter in memory is not finite (see allow_non_finite). check_can_save() only throws. If
  /// tables are sharded, all ranks must call these functions.
  StateDict state_dict() const;
  void check_can_save() const;
  void load_state_dict(const StateDict& state);

 private:
  // The phase of a run. Its parts are at different steps during kUpdates and after kFailed. During
  // kReports and after kReportsFailed, they are at the same step, so the run can be saved. A failed
  // run makes no further steps.
  enum class Phase { kReady, kUpdates, kReports, kFailed, kReportsFailed };
  enum class Values { kParameters, kGradients };

  void check_can_step() const;
  void in_phase(Phase phase, const auto& body);
  double make_step();
  std::vector<Batch> read_parts(std::size_t count);
  std::vector<TableLookup> lookups_of(std::span<const Batch> batches) const;
  void add_due_records();
  bool add_losses(TrainingRecord& record, const DataLoader* training, const DataLoader* validation,
                  std::size_t batches, Random& random);
  bool should_continue();
  void each(const std::function<void(TrainingCallback&)>& call) const;
  void compare_ranks() const;
  std::string first_not_finite(Values values) const;
  void check_finite(double loss) const;
  void check_finite(const TrainingRecord& record) const;
  void check_parameters() const;
  // True if rows of tables are on other ranks.
  bool has_sharded_tables() const { return parts_.ranks != nullptr && parts_.ranks->has_tables(); }
  // True if a callback or the last step ends this call of train().
  bool stops() const { return stopped_ || steps() >= last_step_; }
  // True if records of the last step were not made yet. An evaluation comes first.
  bool is_due() const { return evaluation_is_due() || epoch_is_due(); }
  bool evaluation_is_due() const;
  bool epoch_is_due() const { return progress_.epoch > epochs(); }
  StateDict own_state() const;
  void load_own_state(const StateDict& state);
  void check_counts(const StateDict& optimizer) const;

  TrainingRunOptions parts_;
  DataUnit unit_;
  SingleProcess alone_;
  ProcessGroup& group_;
  StepGradients gradients_;
  Progress progress_;                      // of the steps that were made
  std::optional<DataLoader::Epoch> data_;  // of the epoch, from its next step on
  std::vector<Batch> read_ahead_;          // this rank's slices of the next batch; may be empty
  std::string loaded_arithmetic_;
  std::vector<TrainingCallback*> callbacks_;
  std::vector<TrainingRecord> history_;
  std::size_t last_step_ = kNoLimit;  // of this call of train()
  bool stopped_ = false;              // by a callback
  Phase phase_ = Phase::kReady;
  struct Epoch {          // so far
    double loss_sum = 0;  // over all targets
    double weight = 0;    // of the targets: their number, if each counts once
    // Since the start or the last load:
    double seconds = 0;
    std::size_t steps = 0, units = 0;
  } epoch_;
};

}  // namespace rowgrad
