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
  return {kName, options.steps, [options](std::uint64_t step) {
            const double at = as_double(std::min(step, options.steps));
            return half_cosine(1, options.min_factor, at / as_double(options.steps));
          }};
}

Schedule Schedule::step_decay(const StepDecayOptions& options) {
  constexpr auto kName = "Schedule::step_decay";
  check_count(kName, "every", options.every);
  check_argument(std::isfinite(options.factor) && options.factor >= 0, kName, ": factor is ",
                 options.factor, ", expected a finite number >= 0");
  return {kName, std::nullopt, [options](std::uint64_t step) {
            return std::pow(options.factor, as_double(step / options.every));
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

double Schedule::factor(std::uint64_t step) const {
  const double factor = function_(step);
  check_argument(std::isfinite(factor) && factor >= 0, name_, ": the factor of step ", step, " is ",
                 factor, ", expected a finite number >= 0");
  return factor;
}

LearningRateSchedule::LearningRateSchedule(Optimizer& optimizer, Schedule schedule)
    : optimizer_(optimizer), rates_(optimizer.claim_rates()), schedule_(std::move(schedule)) {
  check_argument(
      rates_ != nullptr,
      "LearningRateSchedule: the optimizer already has a schedule, expected none; destroy it "
      "first, or join both with Schedule::then");
  std::vector<double> base_rates;
  for (std::size_t group = 0; group < optimizer_.group_count(); ++group)
    base_rates.push_back(optimizer_.learning_rate(group));
  set_rates(0, std::move(base_rates));
}

void LearningRateSchedule::step() { set_rates(step_count_ + 1, base_rates_); }

StateDict LearningRateSchedule::state_dict() const {
  StateDict state;
  state.put("step", step_count_);
  state.put("base_rates", base_rates_);
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
  set_rates(state.count("step"), std::move(base_rates));
}

double LearningRateSchedule::check_rates(std::uint64_t step,
                                         const std::vector<double>& base_rates) const {
  const double factor = schedule_.factor(step);
  for (const double base : base_rates)
    check_argument(std::isfinite(static_cast<real>(base * factor)),
                   "LearningRateSchedule: the rate of step ", step, " is ", base, " times ", factor,
                   ", expected a finite number <= ", std::numeric_limits<real>::max());
  return factor;
}

void LearningRateSchedule::set_rates(std::uint64_t step, std::vector<double> base_rates) {
  const double factor = check_rates(step, base_rates);
  for (std::size_t group = 0; group < base_rates.size(); ++group)
    optimizer_.set_learning_rate(base_rates[group] * factor, group);
  step_count_ = step;
  base_rates_ = std::move(base_rates);
}

}  // namespace rowgrad
