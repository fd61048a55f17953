#pragma once

// Schedules of the learning rate, as in torch.optim.lr_scheduler. A Schedule is a function of the
// step; a LearningRateSchedule applies it to an optimizer.
//
//   LearningRateSchedule schedule(sgd, Schedule::linear_warmup({.steps = 100})
//                                          .then(Schedule::cosine({.steps = 900})));
//   for (...) {
//     …
//     sgd.step();
//     schedule.step();
//   }

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

/// Options of Schedule::linear_warmup().
struct LinearWarmupOptions {
  std::uint64_t steps = 5;        // length of the warm-up
  double start_factor = 1.0 / 3;  // factor at step 0; in [0, 1], may be above end_factor
  double end_factor = 1;          // factor from step `steps` on; in [0, 1]
};

/// Options of Schedule::cosine().
struct CosineOptions {
  std::uint64_t steps = 0;  // steps until min_factor is reached; required
  double min_factor = 0;    // factor from step `steps` on; in [0, 1]
  /// If not 0, the schedule does not stay at min_factor but starts again, each time for
  /// `restart_multiplier` times as many steps.
  std::uint64_t restart_multiplier = 0;
};

/// Options of Schedule::step_decay().
struct StepDecayOptions {
  std::uint64_t every = 0;  // steps between two changes of the rate; required
  double factor = 0.1;      // multiplies the rate at each change
};

/// Options of Schedule::one_cycle().
struct OneCycleOptions {
  std::uint64_t steps = 0;       // length of the whole cycle; required
  double warmup_fraction = 0.3;  // fraction of the steps in which the rate rises; in [0, 1]
  double start_divisor = 25;     // base rate / rate at step 0
  double final_divisor = 1e4;    // rate at step 0 / last rate
};

/// A function that maps the step number (0, 1, 2, …) to a factor of the base learning
/// rate, equal for every group. Factory functions throw std::invalid_argument if an option is
/// outside its range or not finite.
class Schedule {
 public:
  /// Stays at the factor 1 (ConstantLR with factor 1).
  static Schedule constant();

  /// Changes linearly from start_factor to end_factor, then stays constant (LinearLR).
  static Schedule linear_warmup(const LinearWarmupOptions& options = {});

  /// Falls along half a cosine from 1 to min_factor, and stays there (PyTorch's schedule rises
  /// again): min_factor + (1 − min_factor) · (1 + cos(π · step / steps)) / 2 (Loshchilov & Hutter
  /// 2017, "SGDR"; CosineAnnealingLR in closed form or, with restarts, CosineAnnealingWarmRestarts,
  /// with a floor relative to the base rate of each group).
  static Schedule cosine(const CosineOptions& options);

  /// Changes every `every` steps: factor^⌊step / every⌋ (StepLR, ExponentialLR).
  static Schedule step_decay(const StepDecayOptions& options);

  /// Changes at the given steps, in ascending order: factor^n after n of them (MultiStepLR).
  static Schedule milestones(const std::vector<std::uint64_t>& steps, double factor = 0.1);

  /// Falls from 1 to 0, and stays there: (1 − step / steps)^power (PolynomialLR).
  static Schedule polynomial(std::uint64_t steps, double power = 1);

  /// Rises along half a cosine from 1 / start_divisor to 1 at step warmup_fraction · steps − 1,
  /// which may lie between two steps or before the first. From there, falls along half a cosine to
  /// 1 / (start_divisor · final_divisor) at step steps − 1, and stays there (PyTorch throws).
  /// (Smith & Topin 2018, "Super-Convergence"; OneCycleLR with two phases.) The base rate is
  /// OneCycleLR's max_lr. Momentum does not change (cycle_momentum = False).
  static Schedule one_cycle(const OneCycleOptions& options);

  /// Calls `function` (LambdaLR), which should depend only on the step number; otherwise a resumed
  /// run differs. Throws std::invalid_argument if the function is empty.
  static Schedule lambda(std::function<double(std::uint64_t)> function);

  /// Follows this schedule for steps 0 … at − 1, then `next`, which counts from 0 again
  /// (SequentialLR). Throws std::invalid_argument if `at` is 0.
  Schedule then(Schedule next, std::uint64_t at) const;

  /// Calls then(next, length()). Throws std::invalid_argument if this schedule has no length.
  Schedule then(Schedule next) const;

  /// Multiplies the factors of two schedules (ChainedScheduler).
  friend Schedule operator*(const Schedule& a, const Schedule& b);

  /// Returns the number of steps until the factor is constant; nullopt if the schedule ends with
  /// constant, step_decay, restarts or lambda. A product has the larger length of its two factors,
  /// and none if a factor has none.
  std::optional<std::uint64_t> length() const { return length_; }

  /// Returns the factor of a step. Throws std::invalid_argument if it is negative or not finite
  /// (possible with lambda, or with a factor above 1).
  double factor(std::uint64_t step) const;

 private:
  Schedule(std::string name, std::optional<std::uint64_t> length,
           std::function<double(std::uint64_t)> function);

  std::string name_;
  std::optional<std::uint64_t> length_;
  std::function<double(std::uint64_t)> function_;
};

/// Options of LearningRateSchedule::observe(), as in ReduceLROnPlateau.
struct PlateauOptions {
  bool maximize = false;        // true if the metric should rise, such as an accuracy
  double factor = 0.1;          // multiplies the base rates; at least 0 and below 1
  std::uint64_t patience = 10;  // metrics without improvement before a reduction
  double threshold = 1e-4;      // smallest improvement that counts
  bool relative = true;         // true if the threshold is a fraction of the best metric
  std::uint64_t cooldown = 0;   // metrics after a reduction that do not count against patience
  double min_rate = 0;          // smallest base rate
  double eps = 1e-8;            // smaller changes of a base rate are omitted
};

/// The schedule of an optimizer: sets the learning rate of each group to base rate · factor.
/// Borrows the optimizer, which must outlive it. The next step() overwrites rates that were set in
/// between; groups that are added later keep their own rates. Functions throw
/// std::invalid_argument, without changing anything, if a factor or rate is negative or not finite.
///
/// An optimizer has at most one schedule at a time: destroy it before you create the next, or join
/// schedules with Schedule::then or `*`. The destructor does not change the rates.
class LearningRateSchedule {
 public:
  /// Takes the optimizer's current rates as base rates, and sets the rates of step 0. Throws
  /// std::invalid_argument if the optimizer already has a schedule. `schedules` are for all groups,
  /// or one for each group. PlateauOptions are for observe().
  LearningRateSchedule(Optimizer& optimizer, std::vector<Schedule> schedules,
                       const std::optional<PlateauOptions>& plateau = std::nullopt);
  LearningRateSchedule(Optimizer& optimizer, const Schedule& schedule,
                       const std::optional<PlateauOptions>& plateau = std::nullopt)
      : LearningRateSchedule(optimizer, std::vector{schedule}, plateau) {}
  LearningRateSchedule(const LearningRateSchedule&) = delete;
  LearningRateSchedule& operator=(const LearningRateSchedule&) = delete;

  /// Sets the rates for the next step. Call it after each step of the optimizer.
  void step();

  /// Throws what step() would throw now.
  void check_step() const { rates_at(step_count_ + 1, base_rates_); }

  /// Reduces the base rates if the metric has not improved for more than `patience` calls. Call it
  /// after each epoch; a TrainingRun calls it with the validation loss. NaN does not improve.
  /// Throws std::logic_error without PlateauOptions.
  void observe(double metric);
  bool observes() const { return plateau_.has_value(); }

  /// Returns the optimizer whose rates this schedule sets.
  const Optimizer& optimizer() const { return optimizer_; }

  /// Returns how often step() was called, including calls before a loaded state was saved.
  std::uint64_t step_count() const { return step_count_; }

  /// Returns the step count, the base rates and the results of observe().
  StateDict state_dict() const;

  /// Loads a state and sets the rates of its step. If the state was saved without PlateauOptions,
  /// observe() starts from its first metric again. Throws std::invalid_argument, without changing
  /// anything, if a base rate is negative or not finite, if there is not one for each group that
  /// existed at construction, or if the best metric is NaN.
  void load_state_dict(const StateDict& state);

 private:
  // Returns the rates of the step. Throws if a rate would not be finite.
  std::vector<double> rates_at(std::uint64_t step, const std::vector<double>& base_rates) const;
  void set_rates(std::uint64_t step, std::vector<double> base_rates);

  Optimizer& optimizer_;
  std::shared_ptr<void> rates_;  // see Optimizer::claim_rates()
  std::vector<Schedule> schedules_;
  std::optional<PlateauOptions> plateau_;
  struct Metrics {
    double best;
    std::uint64_t bad;       // metrics without improvement since then
    std::uint64_t cooldown;  // next metrics that do not count
  } metrics_ = {};
  Metrics no_metrics() const;  // metrics before the first observe()
  std::uint64_t step_count_ = 0;
  std::vector<double> base_rates_;  // one for each group
};

}  // namespace rowgrad
