#include "tests/test.hpp"

namespace {

// An SGD with one group, of one parameter, for each learning rate.
struct Groups {
  explicit Groups(const std::vector<double>& rates) {
    std::vector<SGD::Group> groups;
    for (const double rate : rates) {
      owned.push_back(std::make_unique<Parameter>("w", full({2}, 1)));
      groups.push_back({.parameters = {owned.back().get()}, .options = {.learning_rate = rate}});
    }
    sgd = std::make_unique<SGD>(std::move(groups));
  }

  std::vector<double> rates() const {
    std::vector<double> all;
    for (std::size_t group = 0; group < sgd->group_count(); ++group)
      all.push_back(sgd->learning_rate(group));
    return all;
  }

  std::vector<std::unique_ptr<Parameter>> owned;
  std::unique_ptr<SGD> sgd;
};

double inverse_root(std::uint64_t step) { return std::pow(static_cast<double>(step) + 1, -0.5); }

// The schedule of a case in tests/golden/schedules.json.
Schedule schedule_from(const json& item) {
  const json options = item.value("options", json::object());
  const std::uint64_t steps = options.value("steps", 0);
  const auto make = [&] {
    const auto name = item["schedule"].get<std::string>();
    if (name == "constant") return Schedule::constant();
    if (name == "inverse_root") return Schedule::lambda(inverse_root);
    if (name == "cosine") {
      CosineOptions cosine{.steps = steps};
      cosine.floor_factor = options.value("floor_factor", cosine.floor_factor);
      return Schedule::cosine(cosine);
    }
    if (name == "step_decay") {
      StepDecayOptions decay{.every = options.value("every", std::uint64_t{0})};
      decay.factor = options.value("factor", decay.factor);
      return Schedule::step_decay(decay);
    }
    if (name == "one_cycle") {
      OneCycleOptions cycle{.steps = steps};
      cycle.warmup_share = options.value("warmup_share", cycle.warmup_share);
      cycle.start_divisor = options.value("start_divisor", cycle.start_divisor);
      cycle.final_divisor = options.value("final_divisor", cycle.final_divisor);
      return Schedule::one_cycle(cycle);
    }
    check_argument(name == "linear_warmup", "schedules.json: ", name);
    LinearWarmupOptions warmup;
    warmup.steps = options.value("steps", warmup.steps);
    warmup.start_factor = options.value("start_factor", warmup.start_factor);
    warmup.end_factor = options.value("end_factor", warmup.end_factor);
    return Schedule::linear_warmup(warmup);
  };
  if (!item.contains("then")) return make();
  const Schedule next = schedule_from(item["then"]);
  return item.contains("at") ? make().then(next, item["at"].get<std::uint64_t>())
                             : make().then(next);
}

TEST(LearningRateSchedule, FollowsPyTorchStepByStepInEveryGroup) {
  const json cases = golden("schedules.json")["cases"];
  ASSERT_EQ(cases.size(), 20U);
  for (const json& item : cases) {
    const json what = {item["schedule"], item.value("options", json()), item.value("then", json())};
    Groups groups(item["base_rates"].get<std::vector<double>>());
    LearningRateSchedule schedule(*groups.sgd, schedule_from(item));
    for (std::size_t step = 0; step < item["rates"].size(); ++step) {
      if (step > 0) schedule.step();
      EXPECT_EQ(schedule.step_count(), step);
      const auto expected = item["rates"][step].get<std::vector<double>>();
      const std::vector<double> rates = groups.rates();
      ASSERT_EQ(rates.size(), expected.size());
      // PyTorch computes each rate from the one before, some fifty times at most; cos + 1 loses
      // another factor of 1e3 near the end of a cosine.
      for (std::size_t group = 0; group < rates.size(); ++group)
        EXPECT_NEAR(rates[group], expected[group], 1e-12 * expected[group])
            << what << " step " << step << " group " << group;
    }
  }
}

TEST(Schedule, StaysAtItsLastFactorPastItsEnd) {
  const std::uint64_t far = std::numeric_limits<std::uint64_t>::max();
  const struct {
    Schedule schedule;
    std::uint64_t last;
    double factor;
  } cases[] = {
      {Schedule::linear_warmup({.steps = 7}), 7, 1},
      {Schedule::linear_warmup({.steps = 7, .start_factor = 1, .end_factor = 0}), 7, 0},
      {Schedule::cosine({.steps = 10}), 10, 0},
      {Schedule::cosine({.steps = 10, .floor_factor = 0.125}), 10, 0.125},
      {Schedule::one_cycle({.steps = 10, .start_divisor = 8, .final_divisor = 4}), 9, 1.0 / 32},
      {Schedule::linear_warmup({.steps = 7}).then(Schedule::cosine({.steps = 3})), 10, 0},
  };
  for (const auto& [schedule, last, factor] : cases) {
    EXPECT_NE(schedule.factor(last - 1), factor) << &schedule - &cases[0].schedule;
    for (const std::uint64_t step : {last, last + 1, last + 2, 3 * last, far})
      EXPECT_EQ(schedule.factor(step), factor) << step;
  }
  EXPECT_EQ(Schedule::step_decay({.every = 3}).factor(far), 0);
}

// Also where steps / steps of a difference is not the difference.
TEST(Schedule, EndsAtItsEndFactorAndLeavesItsRangeNowhere) {
  for (const double start : {0.0, 1.0 / 3, 0.1, 0.3, 0.55, 0.7, 0.9})
    for (const double end : {0.0, 0.1, 1.0})
      for (std::uint64_t steps = 1; steps <= 1000; ++steps) {
        const Schedule schedule =
            Schedule::linear_warmup({.steps = steps, .start_factor = start, .end_factor = end});
        ASSERT_EQ(schedule.factor(0), start) << steps;
        ASSERT_EQ(schedule.factor(steps), end) << start << ' ' << steps;
        const double last_but_one = schedule.factor(steps - 1);
        ASSERT_TRUE(std::min(start, end) <= last_but_one && last_but_one <= std::max(start, end))
            << start << " to " << end << " in " << steps;
      }
}

TEST(Schedule, OfOneStepIsDefined) {
  EXPECT_EQ(Schedule::linear_warmup({.steps = 1, .start_factor = 0}).factor(0), 0);
  EXPECT_EQ(Schedule::cosine({.steps = 1}).factor(0), 1);
  EXPECT_EQ(Schedule::cosine({.steps = 1}).factor(1), 0);
  EXPECT_EQ(Schedule::step_decay({.every = 1, .factor = 0}).factor(0), 1);
  EXPECT_EQ(Schedule::step_decay({.every = 1, .factor = 0}).factor(1), 0);
  // As in OneCycleLR, the only step is the last. If the rise has no length, PyTorch divides by 0.
  EXPECT_EQ(Schedule::one_cycle({.steps = 1, .start_divisor = 2, .final_divisor = 2}).factor(0),
            0.25);
  EXPECT_EQ(Schedule::one_cycle({.steps = 1, .warmup_share = 1}).factor(0), 1);
  EXPECT_EQ(Schedule::one_cycle({.steps = 4, .warmup_share = 0.25}).factor(0), 1);
}

TEST(Schedule, FollowedByAnotherCountsFromZeroAgain) {
  const Schedule second = Schedule::lambda([](std::uint64_t i) { return 100.0 + 1.0 * i; });
  const Schedule first = Schedule::lambda([](std::uint64_t i) { return 1.0 * i; });
  const Schedule both = first.then(second, 3);
  for (std::uint64_t step = 0; step < 8; ++step)
    EXPECT_EQ(both.factor(step), step < 3 ? 1.0 * step : 100.0 + 1.0 * (step - 3));
  EXPECT_FALSE(both.length());
  const Schedule three = Schedule::linear_warmup({.steps = 2})
                             .then(Schedule::cosine({.steps = 3}))
                             .then(Schedule::constant());
  EXPECT_EQ(three.factor(4), Schedule::cosine({.steps = 3}).factor(2));
  EXPECT_EQ(three.factor(5), 1);
  EXPECT_INVALID(
      "Schedule::then: Schedule::lambda has no end; say at which step the next one begins",
      first.then(second));
  EXPECT_INVALID("Schedule::then: at is 0, expected at least 1", first.then(second, 0));
}

TEST(Schedule, RefusesOptionsOutsideTheirRange) {
  const auto refuses = [](auto make, auto options, const std::string& message) {
    EXPECT_INVALID(message, make(options));
  };
  const std::string count = ", expected at least 1";
  const std::string share = ", expected a number from 0 to 1";
  const std::string above = ", expected a finite number above 0";
  const std::string not_below = ", expected a finite number not below 0";
  using Warmup = LinearWarmupOptions;
  constexpr auto warmup = Schedule::linear_warmup;
  refuses(warmup, Warmup{.steps = 0}, "Schedule::linear_warmup: steps is 0" + count);
  refuses(warmup, Warmup{.start_factor = -0.5},
          "Schedule::linear_warmup: start_factor is -0.5" + share);
  refuses(warmup, Warmup{.end_factor = 1.5}, "Schedule::linear_warmup: end_factor is 1.5" + share);
  refuses(warmup, Warmup{.end_factor = NAN}, "Schedule::linear_warmup: end_factor is nan" + share);
  refuses(Schedule::cosine, CosineOptions{}, "Schedule::cosine: steps is 0" + count);
  refuses(Schedule::cosine, CosineOptions{.steps = 3, .floor_factor = 2},
          "Schedule::cosine: floor_factor is 2" + share);
  refuses(Schedule::step_decay, StepDecayOptions{}, "Schedule::step_decay: every is 0" + count);
  for (const double factor : {-1.0, HUGE_VAL})
    refuses(Schedule::step_decay, StepDecayOptions{.every = 1, .factor = factor},
            concat("Schedule::step_decay: factor is ", factor, not_below));
  refuses(Schedule::one_cycle, OneCycleOptions{}, "Schedule::one_cycle: steps is 0" + count);
  refuses(Schedule::one_cycle, OneCycleOptions{.steps = 9, .warmup_share = 1.25},
          "Schedule::one_cycle: warmup_share is 1.25" + share);
  for (const double divisor : {0.0, -2.0, 1e-320, HUGE_VAL}) {
    refuses(Schedule::one_cycle, OneCycleOptions{.steps = 9, .start_divisor = divisor},
            concat("Schedule::one_cycle: start_divisor is ", divisor, above));
    refuses(Schedule::one_cycle, OneCycleOptions{.steps = 9, .final_divisor = divisor},
            concat("Schedule::one_cycle: final_divisor is ", divisor, above));
  }
  refuses(Schedule::lambda, nullptr, "Schedule::lambda: the function is empty");
}

TEST(LearningRateSchedule, ReplacesRatesThatSomebodyElseSet) {
  Groups groups({0.5});
  LearningRateSchedule schedule(*groups.sgd, Schedule::step_decay({.every = 2, .factor = 0.5}));
  groups.sgd->set_learning_rate(7);
  schedule.step();
  EXPECT_EQ(groups.rates(), std::vector<double>{0.5});
  schedule.step();
  EXPECT_EQ(groups.rates(), std::vector<double>{0.25});
}

TEST(LearningRateSchedule, RefusesWrongFactorsBeforeAnythingChanges) {
  for (const double wrong : {-0.5, std::nan(""), HUGE_VAL}) {
    Groups groups({0.5, 0.25});
    const auto late = [wrong](std::uint64_t step) { return step < 2 ? 2.0 : wrong; };
    LearningRateSchedule schedule(*groups.sgd, Schedule::lambda(late));
    schedule.step();
    EXPECT_INVALID(concat("Schedule::lambda: the factor of its step 2 is ", wrong,
                          ", expected a finite number not below 0"),
                   schedule.step());
    EXPECT_EQ(groups.rates(), (std::vector<double>{1, 0.5}));
    EXPECT_EQ(schedule.step_count(), 1U);
    const auto always = [wrong](std::uint64_t) { return wrong; };
    EXPECT_THROW(LearningRateSchedule(*groups.sgd, Schedule::lambda(always)),
                 std::invalid_argument);
    EXPECT_EQ(groups.rates(), (std::vector<double>{1, 0.5}));
  }
  // Only the product with the second rate is too large for `real`.
  Groups groups({0.5, 1e30});
  const double factor = sizeof(real) == 8 ? 1e300 : 1e20;
  EXPECT_INVALID(concat("LearningRateSchedule: base rate 1e+30 times factor ", factor,
                        " of step 0 is not finite"),
                 LearningRateSchedule(
                     *groups.sgd, Schedule::lambda([factor](std::uint64_t) { return factor; })));
  EXPECT_EQ(groups.rates(), (std::vector<double>{0.5, 1e30}));
}

TEST(LearningRateSchedule, RefusesAStateThatDoesNotFitBeforeAnythingChanges) {
  Groups groups({0.5, 0.25});
  const auto rule = [](std::uint64_t step) { return step == 9 ? -1.0 : 0.5; };
  LearningRateSchedule schedule(*groups.sgd, Schedule::lambda(rule));
  schedule.step();
  const Checkpoint before = schedule.state_dict();
  const std::string load = "LearningRateSchedule::load_state_dict: ";
  const std::string end = ", expected a finite number not below 0";
  for (const auto& [step, rates, message] :
       std::vector<std::tuple<int, std::vector<double>, std::string>>{
           {3, {1}, load + "got base rates for 1 groups, expected 2"},
           {3, {1, -1}, load + "the base rate of group 1 is -1" + end},
           {3, {HUGE_VAL, 1}, load + "the base rate of group 0 is inf" + end},
           {9, {1, 1}, "Schedule::lambda: the factor of its step 9 is -1" + end}}) {
    const Checkpoint wrong =
        with(with(before, "step", std::int64_t{step}), "base_rates", std::vector<double>(rates));
    EXPECT_INVALID(message, schedule.load_state_dict(wrong));
  }
  EXPECT_TRUE(bits_of(schedule.state_dict()) == bits_of(before));
  EXPECT_EQ(groups.rates(), (std::vector<double>{0.25, 0.125}));
}

TEST(LearningRateSchedule, LoadsItsStateAfterAGroupWasAdded) {
  Parameter first("first", irregular({2})), second("second", irregular({2}));
  SGD sgd({&first}, {.learning_rate = 0.8});
  LearningRateSchedule schedule(sgd, Schedule::step_decay({.every = 1, .factor = 0.5}));
  sgd.add_group({.parameters = {&second}, .options = {.learning_rate = 0.3}});
  schedule.step();
  const Checkpoint state = schedule.state_dict();
  schedule.step();
  EXPECT_EQ(sgd.learning_rate(0), 0.2);
  schedule.load_state_dict(state);
  EXPECT_EQ(schedule.step_count(), 1U);
  EXPECT_EQ(sgd.learning_rate(0), 0.4);
  EXPECT_EQ(sgd.learning_rate(1), 0.3);  // keeps its own rate
}

}  // namespace
