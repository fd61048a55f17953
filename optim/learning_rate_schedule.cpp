#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include <rowgrad/optim/learning_rate_schedule.hpp>

namespace rowgrad {
namespace {

void check_count(const char* schedule, const char* option, std::uint64_t count) {
  check_argument(count > 0, schedule, ": ", option, " is 0, expected at least 1");
}

void check_share(const char* schedule, const char* option, double value) {
  check_argument(value >= 0 && value <= 1, schedule, ": ", option, " is ", value,
                 ", expected a number from 0 to 1");
}

// Returns the value at `x` of half a cosine from `from` (x = 0) to `to` (x = 1).
double half_cosine(double from, double to, double x) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * x));
}

void check_number(const char* schedule, const char* option, double value) {
  check_argument(std::isfinite(value) && value >= 0, schedule, ": ", option, " is ", value,
                 ", expected a finite number >= 0");
}

double as_double(std::uint64_t step) { return static_cast<double>(step); }

}  // namespace

Schedule::Schedule(std::string name, std::optional<std::uint64_t> length,
                   std::function<double(std::uint64_t)> function)
    : name_(std::move(name)), length_(length), function_(std::move(function)) {}

Schedule Schedule::constant() {
  return {"Schedule::constant", std::nullopt, [](std::uint64_t) { return 1.0; }};
}

Schedule Schedule::linear_warmup(const LinearWarmupOptions& options) {
  constexpr auto kName = "Schedule::linear_warmup";
  check_count(kName, "steps", options.steps);
  check_share(kName, "start_factor", options.start_factor);
  check_share(kName, "end_factor", options.end_factor);
  return {kName, options.steps, [options](std::uint64_t step) {
            const double at = as_double(std::min(step, options.steps));
            return std::lerp(options.start_factor, options.end_factor,
                             at / as_double(options.steps));
          }};
}

Schedule Schedule::cosine(const CosineOptions& options) {
  constexpr auto kName = "Schedule::cosine";
  check_count(kName, "steps", options.steps);
  check_share(kName, "min_factor", options.min_factor);
  const std::uint64_t multiplier = options.restart_multiplier;
  const auto length = multiplier == 0 ? std::optional(options.steps) : std::nullopt;
  return {kName, length, [options, multiplier](std::uint64_t step) {
            double at = as_double(multiplier == 1   ? step % options.steps
                                  : multiplier == 0 ? std::min(step, options.steps)
                                                    : step);
            double steps = as_double(options.steps);
            for (; multiplier > 1 && at >= steps; steps *= as_double(multiplier)) at -= steps;
            return half_cosine(1, options.min_factor, at / steps);
          }};
}

Schedule Schedule::step_decay(const StepDecayOptions& options) {
  constexpr auto kName = "Schedule::step_decay";
  check_count(kName, "every", options.every);
  check_number(kName, "factor", options.factor);
  return {kName, std::nullopt, [options](std::uint64_t step) {
            return std::pow(options.factor, as_double(step / options.every));
          }};
}

Schedule Schedule::milestones(const std::vector<std::uint64_t>& steps, double factor) {
  constexpr auto kName = "Schedule::milestones";
  check_argument(!steps.empty() && std::ranges::is_sorted(steps), kName, ": steps are ",
                 bracketed(steps), ", expected at least one step, in ascending order");
  check_number(kName, "factor", factor);
  return {kName, steps.back(), [steps, factor](std::uint64_t step) {
            const auto later = std::ranges::upper_bound(steps, step);
            return std::pow(factor, static_cast<double>(later - steps.begin()));
          }};
}

Schedule Schedule::polynomial(std::uint64_t steps, double power) {
  constexpr auto kName = "Schedule::polynomial";
  check_count(kName, "steps", steps);
  check_number(kName, "power", power);
  return {kName, steps, [steps, power](std::uint64_t step) {
            return std::pow(as_double(steps - std::min(step, steps)) / as_double(steps), power);
          }};
}

Schedule Schedule::one_cycle(const OneCycleOptions& options) {
  constexpr auto kName = "Schedule::one_cycle";
  check_count(kName, "steps", options.steps);
  check_share(kName, "warmup_fraction", options.warmup_fraction);
  const double start = 1 / options.start_divisor;
  const double end = start / options.final_divisor;
  check_argument(
      options.start_divisor > 0 && std::isfinite(options.start_divisor) && std::isfinite(start),
      kName, ": start_divisor is ", options.start_divisor, ", expected a finite number > 0");
  check_argument(
      options.final_divisor > 0 && std::isfinite(options.final_divisor) && std::isfinite(end),
      kName, ": final_divisor is ", options.final_divisor, ", expected a finite number > 0");
  const double last = as_double(options.steps) - 1;
  const double peak = options.warmup_fraction * as_double(options.steps) - 1;
  return {kName, options.steps, [start, end, last, peak](std::uint64_t step) {
            const double at = std::min(as_double(step), last);
            if (at > peak) return half_cosine(1, end, (at - peak) / (last - peak));
            // A warm-up of one step starts at the peak.
            return peak > 0 ? half_cosine(start, 1, at / peak) : 1;
          }};
}

Schedule Schedule::lambda(std::function<double(std::uint64_t)> function) {
  check_argument(static_cast<bool>(function), "Schedule::lambda: the function is empty");
  return {"Schedule::lambda", std::nullopt, std::move(function)};
}

Schedule Schedule::then(Schedule next, std::uint64_t at) const {
  check_count("Schedule::then", "at", at);
  std::optional<std::uint64_t> length;
  if (next.length_) length = at + *next.length_;
  return {"Schedule::then", length, [first = *this, next = std::move(next), at](std::uint64_t i) {
            return i < at ? first.factor(i) : next.factor(i - at);
          }};
}

Schedule Schedule::then(Schedule next) const {
  check_argument(length_.has_value(), "Schedule::then: ", name_,
                 " has no length, expected a schedule that ends; pass the step at which the next "
                 "schedule begins");
  return then(std::move(next), *length_);
}

Schedule operator*(const Schedule& a, const Schedule& b) {
  std::optional<std::uint64_t> length;
  if (a.length_ && b.length_) length = std::max(*a.length_, *b.length_);
  return {"Schedule::operator*", length,
          [a, b](std::uint64_t i) { return a.factor(i) * b.factor(i); }};
}

double Schedule::factor(std::uint64_t step) const {
  const double factor = function_(step);
  check_argument(std::isfinite(factor) && factor >= 0, name_, ": the factor of step ", step, " is ",
                 factor, ", expected a finite number >= 0");
  return factor;
}

LearningRateSchedule::LearningRateSchedule(Optimizer& optimizer, std::vector<Schedule> schedules,
                                           const std::optional<PlateauOptions>& plateau)
    : optimizer_(optimizer),
      rates_(optimizer.claim_rates()),
      schedules_(std::move(schedules)),
      plateau_(plateau) {
  constexpr auto kName = "LearningRateSchedule";
  check_argument(
      rates_ != nullptr,
      "LearningRateSchedule: the optimizer already has a schedule, expected none; destroy it "
      "first, or join both with Schedule::then or *");
  const std::size_t groups = optimizer_.group_count();
  check_argument(schedules_.size() == 1 || schedules_.size() == groups, kName, ": got ",
                 schedules_.size(), " schedules, expected 1",
                 groups > 1 ? concat(", or ", groups, " (one for each group)") : "");
  if (plateau_) {
    check_argument(plateau_->factor >= 0 && plateau_->factor < 1, kName, ": plateau factor is ",
                   plateau_->factor, ", expected a number >= 0 and < 1");
    check_number(kName, "plateau threshold", plateau_->threshold);
    check_number(kName, "plateau min_rate", plateau_->min_rate);
    check_number(kName, "plateau eps", plateau_->eps);
    metrics_ = no_metrics();
  }
  std::vector<double> base_rates;
  for (std::size_t group = 0; group < optimizer_.group_count(); ++group)
    base_rates.push_back(optimizer_.learning_rate(group));
  set_rates(0, std::move(base_rates));
}

void LearningRateSchedule::step() { set_rates(step_count_ + 1, base_rates_); }

void LearningRateSchedule::observe(double metric) {
  check_state(observes(), "LearningRateSchedule::observe: expected PlateauOptions, got none");
  Metrics next = metrics_;
  const double step = plateau_->maximize ? plateau_->threshold : -plateau_->threshold;
  const double target = plateau_->relative ? next.best * (1 + step) : next.best + step;
  const bool improved = plateau_->maximize ? metric > target : metric < target;
  next.bad = improved ? 0 : next.bad + 1;
  if (improved) next.best = metric;
  if (next.cooldown > 0) next = {next.best, 0, next.cooldown - 1};
  if (next.bad > plateau_->patience) {
    std::vector<double> base_rates = base_rates_;
    for (double& rate : base_rates) {
      const double reduced = std::max(rate * plateau_->factor, plateau_->min_rate);
      if (rate - reduced > plateau_->eps) rate = reduced;
    }
    set_rates(step_count_, std::move(base_rates));
    next = {next.best, 0, plateau_->cooldown};
  }
  metrics_ = next;
}

StateDict LearningRateSchedule::state_dict() const {
  StateDict state;
  state.put("step", step_count_);
  state.put("base_rates", base_rates_);
  if (!observes()) return state;
  state.put("best", metrics_.best);
  state.put("bad", metrics_.bad);
  state.put("cooldown", metrics_.cooldown);
  return state;
}

void LearningRateSchedule::load_state_dict(const StateDict& state) {
  std::vector<double> base_rates = state.doubles("base_rates");
  check_argument(base_rates.size() == base_rates_.size(),
                 "LearningRateSchedule::load_state_dict: got base rates for ", base_rates.size(),
                 " groups, expected ", base_rates_.size());
  for (std::size_t group = 0; group < base_rates.size(); ++group)
    check_argument(std::isfinite(base_rates[group]) && base_rates[group] >= 0,
                   "LearningRateSchedule::load_state_dict: the base rate of group ", group, " is ",
                   base_rates[group], ", expected a finite number >= 0");
  Metrics metrics = no_metrics();
  if (observes() && state.contains("best")) {
    metrics = {state.number("best"), state.count("bad"), state.count("cooldown")};
    check_argument(!std::isnan(metrics.best),
                   "LearningRateSchedule::load_state_dict: the best metric is NaN, expected a "
                   "number");
  }
  set_rates(state.count("step"), std::move(base_rates));
  metrics_ = metrics;
}

LearningRateSchedule::Metrics LearningRateSchedule::no_metrics() const {
  const double infinity = std::numeric_limits<double>::infinity();
  return {plateau_ && plateau_->maximize ? -infinity : infinity, 0, 0};
}

std::vector<double> LearningRateSchedule::rates_at(std::uint64_t step,
                                                   const std::vector<double>& base_rates) const {
  std::vector<double> rates;
  double factor = 0;
  for (std::size_t group = 0; group < base_rates.size(); ++group) {
    if (group < schedules_.size()) factor = schedules_[group].factor(step);
    rates.push_back(base_rates[group] * factor);
    check_argument(std::isfinite(static_cast<real>(rates.back())),
                   "LearningRateSchedule: the rate of step ", step, " is ", base_rates[group],
                   " times ", factor,
                   ", expected a finite number <= ", std::numeric_limits<real>::max());
  }
  return rates;
}

void LearningRateSchedule::set_rates(std::uint64_t step, std::vector<double> base_rates) {
  const std::vector<double> rates = rates_at(step, base_rates);
  for (std::size_t group = 0; group < rates.size(); ++group)
    optimizer_.set_learning_rate(rates[group], group);
  step_count_ = step;
  base_rates_ = std::move(base_rates);
}

}  // namespace rowgrad
