#pragma once

// Learning rates that change while training runs, as in torch.optim.lr_scheduler: a shape
// (Schedule), and what applies it to an optimizer (LearningRateSchedule).
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
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

struct LinearWarmupOptions {
  std::uint64_t steps = 5;        // until the end factor is reached
  double start_factor = 1.0 / 3;  // at step 0; from 0 to 1
  double end_factor = 1;          // from `steps` on; from 0 to 1, below the start it is a decay
};

struct CosineOptions {
  std::uint64_t steps = 0;  // until the floor is reached; must be given
  double floor_factor = 0;  // from `steps` on; from 0 to 1
};

struct StepDecayOptions {
  std::uint64_t every = 0;  // how many steps a rate is kept; must be given
  double factor = 0.1;      // by which the rate is then multiplied
};

struct OneCycleOptions {
  std::uint64_t steps = 0;     // of the whole cycle; must be given
  double warmup_share = 0.3;   // of the steps, to rise; from 0 to 1
  double start_divisor = 25;   // the rate at step 0 is the base rate divided by this …
  double final_divisor = 1e4;  // … and the last one that rate divided by this
};

/// A function from the step number 0, 1, 2 … to a factor of the base learning rate. It has no state
/// and is the same for every group. Every maker throws std::invalid_argument for an option that is
/// outside its range or not finite.
class Schedule {
 public:
  /// Factor 1 (ConstantLR with factor 1).
  static Schedule constant();

  /// From the start factor to the end factor in equal steps, then the end factor (LinearLR).
  static Schedule linear_warmup(const LinearWarmupOptions& options = {});

  /// Half a cosine from 1 to the floor, floor + (1 − floor) · (1 + cos(π · step / steps)) / 2
  /// (Loshchilov & Hutter 2017, "SGDR", without restarts; CosineAnnealingLR's closed form, with the
  /// floor as a factor of each group's base rate). Past `steps` it stays at the floor, where
  /// PyTorch's rises again.
  static Schedule cosine(const CosineOptions& options);

  /// factor^⌊step / every⌋ (StepLR).
  static Schedule step_decay(const StepDecayOptions& options);

  /// Half a cosine up from 1 / start_divisor to 1 at step warmup_share · steps − 1, which may lie
  /// between two steps or before the first, and another down to 1 / (start_divisor · final_divisor)
  /// at step steps − 1 (Smith & Topin 2018, "Super-Convergence"; OneCycleLR with two phases). The
  /// base rate is its max_lr. Momentum is left alone, as with its cycle_momentum = False. Past the
  /// end the rate stays, where PyTorch throws.
  static Schedule one_cycle(const OneCycleOptions& options);

  /// Any function (LambdaLR). It should depend on the step number alone, or a resumed run will not
  /// repeat it. Throws std::invalid_argument for an empty one.
  static Schedule lambda(std::function<double(std::uint64_t)> function);

  /// This schedule for steps 0 … at − 1 and then `next`, which counts from 0 again (SequentialLR).
  /// Throws std::invalid_argument if `at` is 0.
  Schedule then(Schedule next, std::uint64_t at) const;

  /// The same after this schedule's length. Throws std::invalid_argument if it has none.
  Schedule then(Schedule next) const;

  /// The steps after which it stays as it is: none for constant, step_decay and lambda.
  std::optional<std::uint64_t> length() const { return length_; }

  /// Throws std::invalid_argument if the factor is negative or not finite, which only a lambda's or
  /// a growing step_decay's can be.
  double factor(std::uint64_t step) const;

 private:
  Schedule(std::string name, std::optional<std::uint64_t> length,
           std::function<double(std::uint64_t)> function);

  std::string name_;
  std::optional<std::uint64_t> length_;
  std::function<double(std::uint64_t)> function_;
};

/// Sets an optimizer's learning rates: in each group, base rate · factor. The base rates are those
/// that the optimizer has at construction, which sets the rates of step 0. Borrows the optimizer,
/// which must outlive it. Rates that somebody else sets hold until the next step, and those of
/// groups that are added later for good. Throws std::invalid_argument, and then changes nothing,
/// for a factor or rate that is negative or not finite.
class LearningRateSchedule {
 public:
  LearningRateSchedule(Optimizer& optimizer, Schedule schedule);
  LearningRateSchedule(const LearningRateSchedule&) = delete;
  LearningRateSchedule& operator=(const LearningRateSchedule&) = delete;

  /// Sets the rates of the next step: to be called after each step of the optimizer.
  void step();

  /// How often step() was called, over all runs.
  std::uint64_t step_count() const { return step_count_; }

  /// The step and the base rates. Loading sets the rates of that step; it throws
  /// std::invalid_argument for another number of groups and for a base rate that is negative or not
  /// finite, and then changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

 private:
  void set_rates(std::uint64_t step, std::vector<double> base_rates);

  Optimizer& optimizer_;
  Schedule schedule_;
  std::uint64_t step_count_ = 0;
  std::vector<double> base_rates_;  // one a group
};

}  // namespace rowgrad
