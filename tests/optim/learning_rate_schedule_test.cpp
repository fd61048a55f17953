#include <deque>

#include "tests/test.hpp"

namespace {

using Rates = std::vector<double>;

// SGD with a group of one parameter for each learning rate.
struct Groups {
  explicit Groups(const Rates& rates) {
    std::vector<SGD::Group> groups;
    for (const double rate : rates)
      groups.push_back({{&parameters.emplace_back("w", full({2}, 1))}, {.learning_rate = rate}});
    sgd = std::make_unique<SGD>(groups);
  }

  Rates rates() const {
    Rates all;
    for (std::size_t group = 0; group < sgd->group_count(); ++group)
      all.push_back(sgd->learning_rate(group));
    return all;
  }

  std::deque<Parameter> parameters;
  std::unique_ptr<SGD> sgd;
};

// Returns the schedule of a case in tests/golden/schedules.json.
Schedule schedule_from(const json& item) {
  const std::string name = item["schedule"];
  const json options = item.value("options", json::object());
  const auto set = [&](const char* option, auto& value) {
    if (options.contains(option)) options[option].get_to(value);
  };
  LinearWarmupOptions warmup;
  CosineOptions cosine;
  StepDecayOptions decay;
  OneCycleOptions cycle;
  std::vector<std::uint64_t> milestones;
  std::uint64_t polynomial = 0;
  double power = 1;
  if (name == "milestones") set("steps", milestones);
  for (std::uint64_t* steps : {&warmup.steps, &cosine.steps, &cycle.steps, &polynomial})
    if (milestones.empty()) set("steps", *steps);
  set("restart_multiplier", cosine.restart_multiplier);
  set("power", power);
  set("start_factor", warmup.start_factor);
  set("end_factor", warmup.end_factor);
  set("min_factor", cosine.min_factor);
  set("every", decay.every);
  set("factor", decay.factor);
  set("warmup_fraction", cycle.warmup_fraction);
  set("start_divisor", cycle.start_divisor);
  set("final_divisor", cycle.final_divisor);
  const Schedule schedule = [&] {
    if (name == "linear_warmup") return Schedule::linear_warmup(warmup);
    if (name == "cosine") return Schedule::cosine(cosine);
    if (name == "step_decay") return Schedule::step_decay(decay);
    if (name == "one_cycle") return Schedule::one_cycle(cycle);
    if (name == "milestones") return Schedule::milestones(milestones, decay.factor);
    if (name == "polynomial") return Schedule::polynomial(polynomial, power);
    if (name == "constant") return Schedule::constant();
    if (name == "halves") return Schedule::step_decay({.every = 1, .factor = 0.5});
    check_argument(name == "inverse_root", "schedules.json: unknown schedule ", name);
    return Schedule::lambda([](std::uint64_t step) { return std::pow(step + 1.0, -0.5); });
  }();
  if (item.contains("times")) return schedule * schedule_from(item["times"]);
  if (!item.contains("then")) return schedule;
  const Schedule next = schedule_from(item["then"]);
  return item.contains("at") ? schedule.then(next, item["at"]) : schedule.then(next);
}

// Returns the schedules of a case, one for all groups or one for each.
std::vector<Schedule> schedules_from(const json& item) {
  if (!item.contains("groups")) return {schedule_from(item)};
  std::vector<Schedule> schedules;
  for (const json& name : item["groups"])
    schedules.push_back(schedule_from(json::object({{"schedule", name}})));
  return schedules;
}

std::optional<PlateauOptions> plateau_from(const json& item) {
  if (!item.contains("plateau")) return std::nullopt;
  const json options = item["plateau"];
  PlateauOptions plateau;
  plateau.maximize = options.value("maximize", plateau.maximize);
  plateau.factor = options.value("factor", plateau.factor);
  plateau.patience = options.value("patience", plateau.patience);
  plateau.threshold = options.value("threshold", plateau.threshold);
  plateau.relative = options.value("relative", plateau.relative);
  plateau.cooldown = options.value("cooldown", plateau.cooldown);
  plateau.min_rate = options.value("min_rate", plateau.min_rate);
  plateau.eps = options.value("eps", plateau.eps);
  return plateau;
}

TEST(LearningRateSchedule, MatchesPyTorchInEveryGroup) {
  const json cases = golden("schedules.json")["cases"];
  ASSERT_EQ(cases.size(), 33U);
  for (const json& item : cases) {
    Groups groups(item["base_rates"].get<Rates>());
    LearningRateSchedule schedule(*groups.sgd, schedules_from(item), plateau_from(item));
    for (std::size_t step = 0; step < item["rates"].size(); ++step) {
      if (step > 0) schedule.step();
      if (step > 0 && schedule.observes()) {
        // A loaded state continues with the same rates.
        const json& metric = item["metrics"][step - 1];
        schedule.observe(metric.is_string() ? double{kNaN} : metric.get<double>());
        const StateDict state = schedule.state_dict();
        for (int i = 0; i < 9; ++i) schedule.observe(0);
        schedule.load_state_dict(state);
      }
      EXPECT_EQ(schedule.step_count(), step);
      const Rates expected = item["rates"][step], rates = groups.rates();
      ASSERT_EQ(rates.size(), expected.size());
      // PyTorch computes each rate from the previous one, in up to about fifty steps. Near the end
      // of a cosine, cos + 1 loses another factor of 1e3.
      for (std::size_t group = 0; group < rates.size(); ++group)
        EXPECT_NEAR(rates[group], expected[group], 1e-12 * expected[group])
            << item.value("schedule", "") << item.value("options", json()) << " step " << step;
    }
  }
}

TEST(Schedule, FactorIsConstantAfterTheEnd) {
  const auto warmup = Schedule::linear_warmup;
  const struct {
    Schedule schedule;
    std::uint64_t last;
    double factor;
  } cases[] = {
      {warmup({.steps = 7}), 7, 1},
      // In floating point, 0.7 + (0.1 − 0.7) is not 0.1.
      {warmup({.steps = 7, .start_factor = 0.7, .end_factor = 0.1}), 7, 0.1},
      {Schedule::cosine({.steps = 1}), 1, 0},
      {Schedule::cosine({.steps = 10, .min_factor = 0.125}), 10, 0.125},
      {Schedule::one_cycle({.steps = 10, .start_divisor = 8, .final_divisor = 4}), 9, 1.0 / 32},
      {Schedule::step_decay({.every = 1, .factor = 0}), 1, 0},
      {Schedule::milestones({2, 5}, 0.5), 5, 0.25},
      {Schedule::polynomial(7, 3), 7, 0},
      {warmup({.steps = 2}) * Schedule::cosine({.steps = 3}), 3, 0},
      {warmup({.steps = 7}).then(Schedule::cosine({.steps = 3})), 10, 0},
      {warmup({.steps = 2}).then(Schedule::cosine({.steps = 3})).then(Schedule::constant()), 5, 1},
  };
  for (const auto& [schedule, last, factor] : cases) {
    EXPECT_NE(schedule.factor(last - 1), factor) << &schedule - &cases[0].schedule;
    for (const std::uint64_t step : {last, last + 1, 3 * last, ~std::uint64_t{0}})
      EXPECT_EQ(schedule.factor(step), factor) << step;
  }
  // As in OneCycleLR, a single step is the last one. PyTorch divides by 0 if the rise has length 0.
  EXPECT_EQ(Schedule::one_cycle({.steps = 1, .start_divisor = 2, .final_divisor = 2}).factor(0),
            0.25);
  EXPECT_EQ(Schedule::one_cycle({.steps = 1, .warmup_fraction = 1}).factor(0), 1);
  EXPECT_EQ(Schedule::one_cycle({.steps = 4, .warmup_fraction = 0.25}).factor(0), 1);
}

TEST(Schedule, RejectsOptionsOutOfRange) {
  const auto rejects = [](const std::string& message, auto make, auto options) {
    EXPECT_INVALID("Schedule::" + message, make(options));
  };
  const std::string count = ", expected at least 1";
  const std::string share = ", expected a number from 0 to 1";
  const std::string above = ", expected a finite number > 0";
  const std::string at_least_0 = ", expected a finite number >= 0";
  using Warmup = LinearWarmupOptions;
  using Cycle = OneCycleOptions;
  constexpr auto warmup = Schedule::linear_warmup;
  constexpr auto one_cycle = Schedule::one_cycle;
  rejects("linear_warmup: steps is 0" + count, warmup, Warmup{.steps = 0});
  rejects("linear_warmup: start_factor is -0.5" + share, warmup, Warmup{.start_factor = -0.5});
  rejects("linear_warmup: end_factor is 1.5" + share, warmup, Warmup{.end_factor = 1.5});
  rejects("linear_warmup: end_factor is nan" + share, warmup, Warmup{.end_factor = NAN});
  rejects("cosine: steps is 0" + count, Schedule::cosine, CosineOptions{});
  rejects("cosine: min_factor is 2" + share, Schedule::cosine,
          CosineOptions{.steps = 3, .min_factor = 2});
  for (const auto& steps : {std::vector<std::uint64_t>{}, {3, 2}})
    EXPECT_INVALID(concat("Schedule::milestones: steps are ", bracketed(steps),
                          ", expected at least one step, in ascending order"),
                   Schedule::milestones(steps));
  EXPECT_INVALID("Schedule::milestones: factor is -1" + at_least_0, Schedule::milestones({1}, -1));
  EXPECT_INVALID("Schedule::polynomial: steps is 0" + count, Schedule::polynomial(0));
  EXPECT_INVALID("Schedule::polynomial: power is -1" + at_least_0, Schedule::polynomial(1, -1));
  rejects("step_decay: every is 0" + count, Schedule::step_decay, StepDecayOptions{});
  for (const double factor : {-1.0, HUGE_VAL})
    rejects(concat("step_decay: factor is ", factor, at_least_0), Schedule::step_decay,
            StepDecayOptions{.every = 1, .factor = factor});
  rejects("one_cycle: steps is 0" + count, one_cycle, Cycle{});
  rejects("one_cycle: warmup_fraction is 1.25" + share, one_cycle,
          Cycle{.steps = 9, .warmup_fraction = 1.25});
  for (const double divisor : {0.0, -2.0, 1e-320, HUGE_VAL}) {
    rejects(concat("one_cycle: start_divisor is ", divisor, above), one_cycle,
            Cycle{.steps = 9, .start_divisor = divisor});
    rejects(concat("one_cycle: final_divisor is ", divisor, above), one_cycle,
            Cycle{.steps = 9, .final_divisor = divisor});
  }
  rejects("lambda: the function is empty", Schedule::lambda, nullptr);
  const Schedule endless = Schedule::constant();
  EXPECT_INVALID(
      "Schedule::then: Schedule::constant has no length, expected a schedule that ends; pass the "
      "step at which the next schedule begins",
      endless.then(endless));
  EXPECT_INVALID("Schedule::then: at is 0, expected at least 1", endless.then(endless, 0));
  EXPECT_FALSE(endless.then(endless, 3).length());
  const Schedule cosine = Schedule::cosine({.steps = 3});
  EXPECT_EQ(cosine.length(), 3U);
  const Schedule product = warmup({.steps = 5}) * cosine;
  EXPECT_EQ(product.length(), 5U);
  EXPECT_EQ(product.then(cosine).factor(5), 1);
  EXPECT_FALSE((product * endless).length());
}

TEST(LearningRateSchedule, InvalidFactorThrowsAndChangesNothing) {
  const std::string end = ", expected a finite number >= 0";
  for (const double wrong : {-0.5, std::nan(""), HUGE_VAL}) {
    Groups groups({0.5, 0.25});
    const auto late = [wrong](std::uint64_t step) { return step < 2 ? 2.0 : wrong; };
    LearningRateSchedule schedule(*groups.sgd, Schedule::lambda(late));
    schedule.step();
    EXPECT_INVALID(concat("Schedule::lambda: the factor of step 2 is ", wrong, end),
                   schedule.step());
    EXPECT_EQ(groups.rates(), (Rates{1, 0.5}));
    EXPECT_EQ(schedule.step_count(), 1U);
    const StateDict state = schedule.state_dict();
    const std::string load = "LearningRateSchedule::load_state_dict: ";
    EXPECT_INVALID(load + "got base rates for 1 groups, expected 2",
                   schedule.load_state_dict(with(state, "base_rates", Rates{1})));
    EXPECT_INVALID(concat(load, "the base rate of group 1 is ", wrong, end),
                   schedule.load_state_dict(with(state, "base_rates", Rates{1, wrong})));
    EXPECT_INVALID(concat("Schedule::lambda: the factor of step 9 is ", wrong, end),
                   schedule.load_state_dict(with(state, "step", 9)));
    EXPECT_TRUE(bits_of(schedule.state_dict()) == bits_of(state));
    EXPECT_EQ(groups.rates(), (Rates{1, 0.5}));
  }
  // The rate of the second group is too large for `real`.
  Groups groups({0.5, 1e30});
  const Schedule large = Schedule::lambda([](std::uint64_t) { return 1e20; });
  EXPECT_ERROR_WITH(
      std::invalid_argument,
      "LearningRateSchedule: the rate of step 0 is 1e+30 times 1e+20, expected a finite number <= ",
      LearningRateSchedule(*groups.sgd, large));
  EXPECT_EQ(groups.rates(), (Rates{0.5, 1e30}));
}

TEST(Schedule, RestartsWithoutAnEnd) {
  const Schedule even = Schedule::cosine({.steps = 4, .restart_multiplier = 1});
  const Schedule longer = Schedule::cosine({.steps = 4, .restart_multiplier = 2});
  EXPECT_EQ(even.factor(4'000'000'000'000), 1);
  EXPECT_EQ(longer.factor(4 * ((std::uint64_t{1} << 40) - 1)), 1);
  EXPECT_GE(longer.factor(~std::uint64_t{0}), 0);
  EXPECT_FALSE(even.length() || longer.length());
}

TEST(LearningRateSchedule, RefusesPlateauOptionsOutOfRange) {
  Groups groups({0.5, 0.25});
  const Schedule constant = Schedule::constant();
  const auto refuses = [&](const std::string& message, const PlateauOptions& plateau) {
    EXPECT_INVALID("LearningRateSchedule: plateau " + message,
                   LearningRateSchedule(*groups.sgd, constant, plateau));
  };
  for (const double factor : {-0.5, 1.0, std::nan("")})
    refuses(concat("factor is ", factor, ", expected a number >= 0 and < 1"), {.factor = factor});
  const std::string end = " is -1, expected a finite number >= 0";
  refuses("threshold" + end, {.threshold = -1});
  refuses("min_rate" + end, {.min_rate = -1});
  refuses("eps" + end, {.eps = -1});
  const std::vector<Schedule> three(3, constant);
  EXPECT_INVALID("LearningRateSchedule: got 3 schedules, expected 1, or 2 (one for each group)",
                 LearningRateSchedule(*groups.sgd, three));
  EXPECT_INVALID("LearningRateSchedule: got 3 schedules, expected 1",
                 LearningRateSchedule(*Groups({0.5}).sgd, three));
  LearningRateSchedule schedule(*groups.sgd, constant);
  EXPECT_ERROR(std::logic_error, "LearningRateSchedule::observe: expected PlateauOptions, got none",
               schedule.observe(1));
  EXPECT_EQ(groups.rates(), (Rates{0.5, 0.25}));
}

TEST(LearningRateSchedule, ReducesTheBaseRatesOfASchedule) {
  Groups groups({0.8});
  const Schedule halves = Schedule::step_decay({.every = 1, .factor = 0.5});
  LearningRateSchedule schedule(*groups.sgd, halves, PlateauOptions{.factor = 0.25, .patience = 0});
  schedule.observe(1);
  schedule.step();
  EXPECT_EQ(groups.rates(), (Rates{0.4}));
  schedule.observe(1);
  EXPECT_EQ(groups.rates(), (Rates{0.1}));
  schedule.step();
  EXPECT_EQ(groups.rates(), (Rates{0.05}));
}

TEST(LearningRateSchedule, LoadsStatesWithoutMetrics) {
  Groups plain({1}), groups({1});
  const StateDict fresh = LearningRateSchedule(*plain.sgd, Schedule::constant()).state_dict();
  LearningRateSchedule schedule(*groups.sgd, Schedule::constant(),
                                PlateauOptions{.factor = 0.5, .patience = 0});
  schedule.observe(1);
  const StateDict state = schedule.state_dict();
  schedule.load_state_dict(fresh);
  schedule.observe(2);
  EXPECT_EQ(groups.rates(), (Rates{1}));
  schedule.load_state_dict(state);
  EXPECT_INVALID("LearningRateSchedule::load_state_dict: the best metric is NaN, expected a number",
                 schedule.load_state_dict(with(with(state, "best", double{kNaN}), "step", 9)));
  EXPECT_TRUE(bits_of(schedule.state_dict()) == bits_of(state));
}

TEST(LearningRateSchedule, IgnoresLaterGroupsAndOverridesManualRates) {
  Parameter later("later", irregular({2}));
  Groups groups({0.8});
  LearningRateSchedule schedule(*groups.sgd, Schedule::step_decay({.every = 1, .factor = 0.5}));
  groups.sgd->add_group({.parameters = {&later}, .options = {.learning_rate = 0.3}});
  groups.sgd->set_learning_rate(7);
  schedule.step();
  EXPECT_EQ(groups.rates(), (Rates{0.4, 0.3}));
  const StateDict state = schedule.state_dict();
  schedule.step();
  schedule.load_state_dict(state);
  EXPECT_EQ(groups.rates(), (Rates{0.4, 0.3}));
}

TEST(LearningRateSchedule, OptimizerHasAtMostOneSchedule) {
  Groups groups({0.8, 0.4});
  const Schedule half = Schedule::step_decay({.every = 1, .factor = 0.5});
  {
    LearningRateSchedule schedule(*groups.sgd, half);
    schedule.step();
    EXPECT_INVALID(
        "LearningRateSchedule: the optimizer already has a schedule, expected none; destroy it "
        "first, or join both with Schedule::then or *",
        LearningRateSchedule(*groups.sgd, half));
    EXPECT_EQ(groups.rates(), (Rates{0.4, 0.2}));
    schedule.step();
    EXPECT_EQ(groups.rates(), (Rates{0.2, 0.1}));
  }
  LearningRateSchedule next(*groups.sgd, half);
  next.step();
  EXPECT_EQ(groups.rates(), (Rates{0.1, 0.05}));
}

}  // namespace
