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

/// An unlimited number of steps or epochs.
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

/// The options of evaluations. Evaluations use the run's random generator only for loaders that
/// draw their order.
struct PeriodicEvaluation {
  /// The number of steps between evaluations during epochs, starting after step 1; 0 for none.
  std::size_t every = 0;
  /// The number of batches, from the start of the loader's first epoch; 0 for all. Also applies to
  /// evaluations after epochs.
  std::size_t batches = 0;
  /// If true, every evaluation also computes accuracies: see EvaluateOptions.
  bool accuracy = false;
  /// The loaders for evaluations during epochs. `training` is required if `every` is not 0. If
  /// `validation` is null, validation losses are omitted.
  const DataLoader* training = nullptr;
  const DataLoader* validation = nullptr;
};

/// The components and options of a run, which borrows all components.
struct TrainingRunOptions {
  /// The model to train. The loss of a step is the mean over all targets of its batches, weighted
  /// by Model::loss_weight. Without dropout, the loss does not depend on how many batches, slices
  /// and ranks compute it, except for rounding. If all weights are 0, the step has no gradients and
  /// a loss of 0.
  Model& model;
  Optimizer& optimizer;  // updates the model's parameters
  const DataLoader& loader;
  /// The generator for dropout, and for loaders that draw their order.
  Random& random;
  /// The schedule, whose step() follows each step of the optimizer. With PlateauOptions, it
  /// observes the validation loss after each epoch. Null for a constant learning rate.
  LearningRateSchedule* schedule = nullptr;
  /// The data for the evaluation after each epoch. Null for no evaluation.
  const DataLoader* validation = nullptr;
  /// The maximum norm of all gradients together (see clip_grad_norm); 0 for no limit. The first
  /// `clip_from` steps are not clipped.
  double clip_norm = 0;
  std::size_t clip_from = 0;
  /// The number of batches in a step; the last step of an epoch takes the remaining batches. Each
  /// batch contributes by its weight, as in one large batch.
  std::size_t accumulate = 1;
  /// The number of slices of each batch. Their gradients are computed one by one and added in a
  /// fixed order, so a run is bitwise equal on any number of ranks. With several slices, each has
  /// its own random generator.
  std::size_t slices = 1;
  /// The ranks that share the work (ParallelTraining). All must have equal components and at least
  /// one slice. Null for one process. If only one rank throws, the others block until they time
  /// out.
  TrainingRanks* ranks = nullptr;
  /// The number of bytes of dense gradients that a rank sends at once while it computes other
  /// gradients.
  std::size_t bucket_bytes = GradientSum::kBucketBytes;
  /// Ranks check that their parameters are equal after the first step, every `compare_every` steps,
  /// and after each epoch.
  std::size_t compare_every = 1000;
  /// If true, parameters may have no gradient in the first step, as in models with different layers
  /// for each batch (find_unused_parameters of PyTorch's DistributedDataParallel).
  bool allow_unused = false;
  /// If true, losses, gradients and parameters may be infinite or NaN. Otherwise step() and
  /// state_dict() throw.
  bool allow_non_finite = false;
  /// The length of the run, in steps or, if `steps` is 0, in epochs. Without a length, train()
  /// requires a last step.
  std::size_t epochs = kNoLimit;
  std::size_t steps = 0;
  PeriodicEvaluation evaluation = {};  // `batches` and `accuracy` also apply after epochs
};

/// Former names.
using EvaluationParts [[deprecated("use PeriodicEvaluation")]] = PeriodicEvaluation;
using TrainingParts [[deprecated("use TrainingRunOptions")]] = TrainingRunOptions;

/// A loop of training steps and evaluations, with its progress, its history and a state dict.
class TrainingRun {
 public:
  /// Throws std::invalid_argument if the schedule has made steps, if an option is out of range, or
  /// if there are fewer slices than ranks.
  explicit TrainingRun(const TrainingRunOptions& options);

  /// Adds a callback, which must live until the last step or until it is removed. Does nothing if
  /// it was added before. Must not be called during a step. With several ranks, add callbacks that
  /// print or write if is_first_rank(). Callbacks that stop the run may be on any rank.
  void add(TrainingCallback& callback) {
    if (std::ranges::find(callbacks_, &callback) == callbacks_.end())
      callbacks_.push_back(&callback);
  }
  void remove(const TrainingCallback& callback) { std::erase(callbacks_, &callback); }

  /// Makes a step. Then adds the record of an evaluation if one is due, and of the epoch if it has
  /// ended. Returns false without a step if the run has ended, and once after a callback has
  /// stopped it. If the stop left out records, the next call that returns true only adds these
  /// records.
  ///
  /// An exception in the model, the optimizer or a callback ends the run. Further calls throw
  /// std::logic_error until a state is loaded. After a failure between two steps (in an evaluation,
  /// should_continue(), after_step() or at_end()), the run can still be saved. With several ranks,
  /// restart all processes.
  ///
  /// Throws std::runtime_error on all ranks:
  /// - if the loss or a gradient is not finite, before the update (see allow_non_finite);
  /// - if the loss of a record is not finite;
  /// - if a parameter in memory is not finite, after the last step of the run or of train(), or
  ///   when a callback stops the run;
  /// - if parameters differ between ranks.
  ///
  /// Throws std::logic_error if a parameter that the optimizer does not train gets a gradient. In
  /// the first step, also throws if one of the optimizer's parameters gets no gradient (see
  /// allow_unused). Optimizer groups may be added between steps.
  bool step();

  /// Makes steps until the run has ended, a callback stops it, or step `last_step` was made, and
  /// then calls TrainingCallback::at_end. Returns true if the run has ended. Throws
  /// std::invalid_argument if neither a length nor a last step is given.
  bool train(std::size_t last_step = kNoLimit);

  /// Trains to the end of the epoch. Returns true if the epoch's record was added.
  bool run_epoch();

  /// Computes the losses on the first `batches` batches (0: all) of each loader's first epoch.
  /// `validation` may be null. Returns nullopt if a callback stops the run meanwhile.
  std::optional<TrainingRecord> evaluate(const DataLoader& training, const DataLoader* validation,
                                         std::size_t batches = 0);

  /// Returns the options, with the current length.
  const TrainingRunOptions& options() const { return options_; }
  [[deprecated("use options()")]] const TrainingRunOptions& parts() const { return options_; }
  /// Changes the length of the run, in steps or, if `steps` is 0, in epochs.
  void set_length(std::size_t epochs, std::size_t steps);

  /// Returns all records, sorted by step. At the same step, an evaluation precedes the record of an
  /// epoch.
  const std::vector<TrainingRecord>& history() const { return history_; }

  /// Returns the number of epochs with a record.
  std::size_t epochs() const;
  /// Returns the number of steps made.
  std::size_t steps() const;
  /// Returns the steps per epoch, including a last step with fewer batches.
  std::size_t steps_per_epoch() const;
  /// Returns the steps of the run; kNoLimit without a length.
  std::size_t total_steps() const;
  /// Returns the number of steps until the end of the run.
  std::size_t steps_left() const { return total_steps() - std::min(steps(), total_steps()); }

  /// Returns the unit of the data, such as tokens or examples.
  const DataUnit& unit() const { return unit_; }

  /// Returns true if all steps and evaluations of the run are complete.
  bool has_ended() const;

  /// Returns true if a callback stopped this train().
  bool is_stopped() const { return stopped_; }

  /// Returns true if this call of train() will make another step.
  bool has_more_steps() const { return steps_left() > 0 && !stops(); }
  [[deprecated("use has_more_steps()")]] bool makes_more_steps() const { return has_more_steps(); }
  [[deprecated("use total_steps()")]] std::size_t steps_in_all() const { return total_steps(); }

  /// Returns the clip_norm of the next step; 0 for no limit.
  double next_clip_norm() const { return steps() < options_.clip_from ? 0 : options_.clip_norm; }

  /// Returns the source of rows of sharded tables, for callbacks; null if no table is sharded.
  TablePlacement* tables() const { return has_sharded_tables() ? options_.ranks : nullptr; }

  /// Returns true on the rank that writes and prints.
  bool is_first_rank() const { return group_.rank() == 0; }

  /// Returns the mean speed in units per second, over the steps of this epoch since the run was
  /// started or loaded.
  double speed() const;
  /// Returns the seconds that the remaining steps of this train() take at the current speed().
  double seconds_left() const;

  /// Returns the sum of gradients over ranks; null without `ranks`. Its ways() describe the
  /// transport.
  const GradientSum* gradient_sum() const { return gradients_.sum(); }

  /// Describes the version, precision, BLAS and threads of this process.
  static std::string arithmetic();

  /// Returns arithmetic() of the process that saved the loaded state; "" if none was loaded. If it
  /// differs from arithmetic(), results may differ in the last bits from an uninterrupted run.
  const std::string& loaded_arithmetic() const { return loaded_arithmetic_; }

  /// Returns the state of all components and of the run itself. A run with equal components that
  /// loads this state is bitwise equal to an uninterrupted run, if arithmetic() is the same.
  /// Examples, batches, their order and `accumulate` must be the same (DataLoader::description).
  ///
  /// The following may change without an error: the length of the run, the shape of its schedule,
  /// clip_norm and clip_from, the loss and its weights, evaluations, slices and ranks, and options
  /// that the optimizer and the model do not save (betas, weight decay, dropout, learning rates).
  /// Options and learning rates that you changed during the run must be set again. A schedule saves
  /// its initial rates; loading sets the rates of the saved step.
  ///
  /// Throws std::logic_error in after_backward() and before_update(), and after a step failed,
  /// because the components may be at different steps. Throws std::runtime_error if a trained
  /// parameter in memory is not finite (see allow_non_finite). If tables are sharded, all ranks
  /// must call state_dict(), check_can_save() and load_state_dict().
  StateDict state_dict() const;
  /// Throws if state_dict() would throw.
  void check_can_save() const;
  /// Loads a state. Throws std::invalid_argument if the state does not fit a component or
  /// contradicts itself, or if an older version saved it. In these cases, the run is unchanged
  /// if the optimizer implements check_state_dict(). After any other exception, load a state again.
  void load_state_dict(const StateDict& state);

 private:
  // The phase of a run. The components may be at different steps in kUpdates and kFailed. In the
  // other phases, they are at the same step, so the run can be saved. A failed run makes no further
  // steps.
  enum class Phase { kReady, kUpdates, kReports, kFailed, kReportsFailed };
  enum class Values { kParameters, kGradients };

  void check_can_step() const;
  void in_phase(Phase phase, const auto& body);
  double make_step();
  std::vector<Batch> read_slices(std::size_t count);
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
  bool has_sharded_tables() const {
    return options_.ranks != nullptr && options_.ranks->has_tables();
  }
  bool stops() const { return stopped_ || steps() >= last_step_; }
  // Returns true if records of the last step are missing.
  bool is_due() const { return evaluation_is_due() || epoch_is_due(); }
  bool evaluation_is_due() const;
  bool epoch_is_due() const { return progress_.epoch > epochs(); }
  StateDict own_state() const;
  void load_own_state(const StateDict& state);
  void check_counts(const StateDict& optimizer) const;

  TrainingRunOptions options_;
  DataUnit unit_;
  SingleProcess alone_;
  ProcessGroup& group_;
  StepGradients gradients_;
  Progress progress_;                      // position of the next step
  std::optional<DataLoader::Epoch> data_;  // the current epoch, from its next step on
  std::vector<Batch> prefetched_;          // this rank's slices of the next batch; may be empty
  std::string loaded_arithmetic_;
  std::vector<TrainingCallback*> callbacks_;
  std::vector<TrainingRecord> history_;
  std::size_t last_step_ = kNoLimit;  // last step of this train()
  bool stopped_ = false;              // true if a callback stopped the run
  Phase phase_ = Phase::kReady;
  struct Epoch {          // the current epoch so far
    double loss_sum = 0;  // weighted sum over all targets
    double weight = 0;    // total weight of the targets
    // Time and counts since the run was started or loaded.
    double seconds = 0;
    std::size_t steps = 0, units = 0;
  } epoch_;
};

}  // namespace rowgrad
