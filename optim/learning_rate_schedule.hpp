#pragma once

// Learning rates that change during training, as in torch.optim.lr_scheduler: a Schedule is a
// function of the step, a LearningRateSchedule applies it to an optimizer.
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
  std::uint64_t steps = 5;        // until end_factor is reached
  double start_factor = 1.0 / 3;  // at step 0; in [0, 1]
  double end_factor = 1;          // from step `steps` on; in [0, 1]; a decay if below start_factor
};

/// Options of Schedule::cosine().
struct CosineOptions {
  std::uint64_t steps = 0;  // until the floor is reached; required
  double min_factor = 0;    // from step `steps` on; in [0, 1]
};

/// Options of Schedule::step_decay().
struct StepDecayOptions {
  std::uint64_t every = 0;  // steps for which a rate is kept; required
  double factor = 0.1;      // the rate is then multiplied by this
};

/// Options of Schedule::one_cycle().
struct OneCycleOptions {
  std::uint64_t steps = 0;       // length of the whole cycle; required
  double warmup_fraction = 0.3;  // fraction of the steps in which the rate rises; in [0, 1]
  double start_divisor = 25;     // the rate at step 0 is the base rate divided by this
  double final_divisor = 1e4;    // the last rate is the rate at step 0 divided by this
};

/// Maps the step number (0, 1, 2, …) to a factor of the base learning rate. Stateless, and the same
/// for every group. Every factory function throws std::invalid_argument for an option that is
/// outside its range or not finite.
class Schedule {
 public:
  /// Always 1 (ConstantLR with factor 1).
  static Schedule constant();

  /// Linear from start_factor to end_factor, then constant (LinearLR).
  static Schedule linear_warmup(const LinearWarmupOptions& options = {});

  /// Half a cosine from 1 to the floor, floor + (1 − floor) · (1 + cos(π · step / steps)) / 2
  /// (Loshchilov & Hutter 2017, "SGDR", without restarts; the closed form of CosineAnnealingLR,
  /// with the floor as a factor of each group's base rate). After `steps` it stays at the floor,
  /// whereas PyTorch's rises again.
  static Schedule cosine(const CosineOptions& options);

  /// factor^⌊step / every⌋ (StepLR).
  static Schedule step_decay(const StepDecayOptions& options);

  /// Rises along half a cosine from 1 / start_divisor to 1 at step warmup_fraction · steps − 1,
  /// which may lie between two steps or before the first, and falls along another to 1 /
  /// (start_divisor · final_divisor) at step steps − 1 (Smith & Topin 2018, "Super-Convergence";
  /// OneCycleLR with two phases). The base rate is its max_lr. Momentum does not change, as with
  /// cycle_momentum = False. After the end the rate stays constant, whereas PyTorch throws.
  static Schedule one_cycle(const OneCycleOptions& options);

  /// Any function (LambdaLR). It should depend only on the step number; otherwise a resumed run
  /// differs. Throws std::invalid_argument for an empty function.
  static Schedule lambda(std::function<double(std::uint64_t)> function);

  /// This schedule for steps 0 … at − 1, then `next`, which counts from 0 again (SequentialLR).
  /// Throws std::invalid_argument if `at` is 0.
  Schedule then(Schedule next, std::uint64_t at) const;

  /// The same with `at` = length(). Throws std::invalid_argument if this schedule has no length.
  Schedule then(Schedule next) const;

  /// Steps until the factor is constant; none if it ends with constant, step_decay or lambda.
  std::optional<std::uint64_t> length() const { return length_; }

  /// Throws std::invalid_argument if the factor is negative or not finite, which is possible only
  /// with lambda and with a step_decay whose factor is above 1.
  double factor(std::uint64_t step) const;

 private:
  Schedule(std::string name, std::optional<std::uint64_t> length,
           std::function<double(std::uint64_t)> function);

  std::string name_;
  std::optional<std::uint64_t> length_;
  std::function<double(std::uint64_t)> function_;
};

/// Sets the learning rate of each group of an optimizer to base rate · factor. The base rates are
/// the rates that the optimizer has at construction; the constructor sets the rates of step 0.
/// Borrows the optimizer, which must outlive it. Rates that others set last until the next step();
/// groups that are added later keep their own rates. Throws std::invalid_argument, and then changes
/// nothing, for a factor or rate that is negative or not finite.
///
/// An optimizer has one schedule at a time, as two would set the same rates: destroy a schedule
/// before you make its successor, or join several with Schedule::then. A schedule that is destroyed
/// leaves the rates as it set them last.
class LearningRateSchedule {
 public:
  /// Takes the rates of the optimizer as base rates, and sets the rates of step 0. Throws
  /// std::invalid_argument if the optimizer has a schedule.
  LearningRateSchedule(Optimizer& optimizer, Schedule schedule);
  LearningRateSchedule(const LearningRateSchedule&) = delete;
  LearningRateSchedule& operator=(const LearningRateSchedule&) = delete;

  /// Sets the rates of the next step. Call it after each step of the optimizer.
  void step();

  /// Throws what step() would throw now.
  void check_step() const { check_rates(step_count_ + 1, base_rates_); }

  /// Whose rates it sets.
  const Optimizer& optimizer() const { return optimizer_; }

  /// How often step() has been called, including the calls before a loaded state was saved.
  std::uint64_t step_count() const { return step_count_; }

  /// The step and the base rates. Loading sets the rates of that step. It throws
  /// std::invalid_argument for base rates of another number of groups than the optimizer had when
  /// this object was made, and for one that is negative or not finite, and then changes nothing.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state);

 private:
  // Returns the factor of the step.
  double check_rates(std::uint64_t step, const std::vector<double>& base_rates) const;
  void set_rates(std::uint64_t step, std::vector<double> base_rates);

  Optimizer& optimizer_;
  std::shared_ptr<void> rates_;  // keeps other schedules from setting them
  Schedule schedule_;
  std::uint64_t step_count_ = 0;
  std::vector<double> base_rates_;  // one per group
};

}  // namespace rowgrad
