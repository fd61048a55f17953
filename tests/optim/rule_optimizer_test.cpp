// What every optimizer made from a rule has: groups, options, rates.

#include "tests/optim/optimizers.hpp"

namespace {

TEST(RuleOptimizer, HasGroupsWithOptionsAndSchedulesOfTheirOwn) {
  Parameter table("table", irregular({5, 3}));
  Parameter weight("weight", irregular({4, 3}));
  Parameter bias("bias", irregular({4}));
  const std::vector<Parameter*> rest{&weight, &bias};

  // [groups]
  AdamW adamw({{.parameters = {&table}, .options = {.rows = RowUpdates::kTouchedOnly}},
               {.parameters = rest, .options = {.learning_rate = 3e-4, .weight_decay = 0.1}}});
  LearningRateSchedule schedule(
      adamw, Schedule::linear_warmup({.steps = 100}).then(Schedule::cosine({.steps = 900})));
  // [groups]

  EXPECT_EQ(adamw.group_count(), 2U);
  EXPECT_DOUBLE_EQ(adamw.learning_rate(0), 1e-3 / 3);
  EXPECT_DOUBLE_EQ(adamw.learning_rate(1), 3e-4 / 3);
  const Tensor before = table.value();
  table.add_gradient(RowGradient({5, 3}, {2}, irregular({1, 3})));
  weight.add_gradient(irregular({4, 3}));
  adamw.step();
  schedule.step();
  EXPECT_GT(adamw.learning_rate(1), 3e-4 / 3);
  for (std::size_t i = 0; i < before.size(); ++i)
    EXPECT_EQ(table.value().data()[i] == before.data()[i], i / 3 != 2) << i;
  EXPECT_NE(weight.value(), irregular({4, 3}));
  EXPECT_EQ(bias.value(), irregular({4}));  // has no gradient

  Parameter late("late", irregular({2}));
  adamw.add_group({.parameters = {&late}, .options = {.learning_rate = 0.5}});
  EXPECT_EQ(adamw.group_count(), 3U);
  Parameter only("only", zeros({2}));
  EXPECT_EQ(AdamW(std::vector<AdamW::Group>{{.parameters = {&only}}, {}}).group_count(), 2U);
  EXPECT_INVALID("Optimizer: there are no parameters", AdamW(std::vector<AdamW::Group>(1)));
  EXPECT_INVALID("Optimizer: there are no parameters", adamw.add_group({}));
  EXPECT_INVALID("Optimizer: there are no parameters", AdamW(std::vector<Parameter*>()));
  EXPECT_EQ(adamw.learning_rate(2), 0.5);
  EXPECT_EQ(adamw.parameters().size(), 4U);
  EXPECT_INVALID("Optimizer: late is given twice", adamw.add_group({.parameters = {&late}}));
  EXPECT_EQ(adamw.group_count(), 3U);
  EXPECT_INVALID("AdamW: there is no group 3, expected a number below 3", adamw.learning_rate(3));
}

TEST(RuleOptimizer, MakesEachStepWithTheOptionsOfTheGroup) {
  Parameter slow("slow", full({2}, 1)), fast("fast", full({2}, 1)), frozen("frozen", full({2}, 1));
  Parameter unused("unused", full({2}, 1));
  frozen.set_trainable(false);
  SGD sgd({{.parameters = {&slow, &frozen}, .options = {.learning_rate = 0.125}},
           {.parameters = {&fast, &unused}, .options = {.learning_rate = 0.5}}});
  const auto step = [&] {
    sgd.zero_grad();
    for (Parameter* parameter : {&slow, &fast, &frozen}) parameter->add_gradient(full({2}, 1));
    sgd.step();
  };
  step();
  sgd.set_options({.learning_rate = 0.25, .weight_decay = 1}, 1);
  EXPECT_EQ(sgd.options(1).weight_decay, 1);
  EXPECT_EQ(slow.value(), full({2}, 0.875));
  EXPECT_EQ(fast.value(), full({2}, 0.5));
  step();
  EXPECT_EQ(slow.value(), full({2}, 0.75));
  EXPECT_EQ(fast.value(), full({2}, 0.125));
  EXPECT_EQ(frozen.value(), full({2}, 1));
  EXPECT_EQ(unused.value(), full({2}, 1));
  EXPECT_EQ(unused.version(), 0U);
  EXPECT_THROW(sgd.set_options({}, 2), std::invalid_argument);
}

TEST(RuleOptimizer, RefusesAStateThatDoesNotFit) {
  Parameter w("w", full({2}, 1));
  SGD sgd({&w}, {.momentum = 0.9});
  Checkpoint fits;
  fits.put("w.step", 1);
  fits.put("w.momentum", zeros({2}));
  const auto message = [&](const Checkpoint& state) {
    return error_of<std::invalid_argument>([&] { sgd.load_state_dict(state); });
  };
  EXPECT_EQ(message(with(fits, "w.momentum", zeros({3}))),
            "Checkpoint: \"w.momentum\" has shape [3], expected [2]");
  EXPECT_EQ(message(with(fits, "w.momentum", "zeros")),
            "Checkpoint: \"w.momentum\" is not a tensor");
  EXPECT_EQ(message(with(fits, "other.momentum", zeros({2}))),
            "SGD::load_state_dict: there is no parameter for \"other.momentum\"");
  EXPECT_EQ(message(without(fits, "w.step")), "Checkpoint: \"w.step\" is missing");
  EXPECT_EQ(sgd.state_dict().integer("w.step"), 0);
  EXPECT_EQ(message(fits), "no error");
  EXPECT_EQ(sgd.state_dict().names(), (std::vector<std::string>{"w.momentum", "w.step"}));
  Parameter same("w", full({2}, 1));
  SGD ambiguous({&w, &same}, {.momentum = 0.9});
  EXPECT_INVALID("SGD::load_state_dict: two parameters are named w", ambiguous.load_state_dict({}));
  EXPECT_INVALID("SGD::state_dict: two parameters are named w", ambiguous.state_dict());
}

TEST(RuleOptimizer, CountsMoreStepsThanAFloatHolds) {
  Parameter w("w", full({2}, 1));
  Adam adam({&w});
  w.add_gradient(full({2}, 1));
  adam.step();
  constexpr std::int64_t kMany = (std::int64_t{3} << 24) + 5;
  const Checkpoint state = with(adam.state_dict(), "w.step", kMany);
  adam.load_state_dict(state);
  adam.step();
  EXPECT_EQ(adam.state_dict().integer("w.step"), kMany + 1);
  EXPECT_INVALID("Checkpoint: \"w.exp_avg_sq\" is missing",
                 adam.load_state_dict(without(state, "w.exp_avg_sq")));
  EXPECT_EQ(adam.state_dict().integer("w.step"), kMany + 1);
  EXPECT_INVALID("Checkpoint: \"w.step\" is missing", adam.load_state_dict({}));
  const Checkpoint fresh = Adam({&w}).state_dict();
  adam.load_state_dict(fresh);  // begins anew
  EXPECT_EQ(adam.state_dict().names(), std::vector<std::string>{"w.step"});
  EXPECT_EQ(adam.state_dict().integer("w.step"), 0);
}

TEST(RuleOptimizer, RefusesOptionsOutsideTheirRange) {
  const std::string not_below = ", expected a finite number not below 0";
  const std::string nesterov = "SGD: nesterov needs momentum above 0 and no dampening, got ";
  Parameter w("w", full({2}, 1));
  const std::vector<std::pair<std::string, AnyOptions>> refused{
      {"SGD: learning_rate is -1" + not_below, SgdOptions{.learning_rate = -1}},
      {"SGD: learning_rate is nan" + not_below, SgdOptions{.learning_rate = NAN}},
      {"SGD: momentum is -0.1" + not_below, SgdOptions{.momentum = -0.1}},
      {"SGD: dampening is inf, expected a finite number not below -inf",
       SgdOptions{.momentum = 0.9, .dampening = INFINITY}},
      {"SGD: weight_decay is -1" + not_below, SgdOptions{.weight_decay = -1}},
      {nesterov + "momentum 0 and dampening 0", SgdOptions{.nesterov = true}},
      {nesterov + "momentum 0.9 and dampening 0.1",
       SgdOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}},
      {"Adam: beta1 is 1" + not_below + ", below 1", AdamOptions{.beta1 = 1}},
      {"AdamW: beta2 is -0.5" + not_below + ", below 1", AdamWOptions{.beta2 = -0.5}},
      {"Adam: epsilon is -1" + not_below, AdamOptions{.epsilon = -1}},
      {"AdamW: weight_decay is nan" + not_below, AdamWOptions{.weight_decay = NAN}},
      {"Adagrad: initial_accumulator is -1" + not_below, AdagradOptions{.initial_accumulator = -1}},
      {"Adagrad: learning_rate_decay is -1" + not_below, AdagradOptions{.learning_rate_decay = -1}},
      {"RMSprop: alpha is -1" + not_below, RmsPropOptions{.alpha = -1}},
      {"RMSprop: momentum is inf" + not_below, RmsPropOptions{.momentum = INFINITY}}};
  for (const auto& row : refused) EXPECT_INVALID(row.first, make_optimizer(row.second, w));
  const auto too_large_for_float = [&] { Adam({&w}, {.learning_rate = 1e300}); };
  EXPECT_EQ(error_of<std::invalid_argument>(too_large_for_float) == "no error", sizeof(real) == 8);
  EXPECT_INVALID("Optimizer: w is given twice", SGD({&w, &w}, SgdOptions{}));
  EXPECT_THROW(SGD({nullptr}, SgdOptions{}), std::invalid_argument);
  EXPECT_THROW(SGD(std::vector<Parameter*>{}, SgdOptions{}), std::invalid_argument);
  Adam optimizer({&w});
  EXPECT_THROW(optimizer.set_learning_rate(-1), std::invalid_argument);
  EXPECT_THROW(optimizer.set_options({.beta1 = 2}), std::invalid_argument);
  EXPECT_EQ(optimizer.learning_rate(), 1e-3);
}

TEST(RuleOptimizer, GivesTheBitsOfTheDenseStepWhereNothingIsOwed) {
  for (const bool maximize : {false, true}) {
    RowsAndDense twins(irregular({40, 19}), SgdOptions{.learning_rate = 0.1, .maximize = maximize});
    for (int i = 1; i < 20; ++i) twins.step(gradient({40, 19}, {i, 2 * i}, i));
    EXPECT_EQ(twins.table.value(), twins.dense.value());
  }
}

TEST(RuleOptimizer, RefusesToGoOnWithoutAParameterThatWasDestroyed) {
  for (const bool owed : {false, true}) {  // whether it was lent when it was destroyed
    Parameter weight("head.weight", irregular({3, 2}));
    auto table = std::make_unique<Parameter>("table", irregular({3, 2}));
    table->rename("model.token.weight");
    auto adam = std::make_unique<Adam>(std::vector<Parameter*>{&weight, table.get()});
    SGD other({table.get(), &weight}, {.learning_rate = 0.1});
    LearningRateSchedule schedule(*adam, Schedule::constant());
    for (Parameter* parameter : {&weight, table.get()})
      parameter->add_gradient(RowGradient({3, 2}, {1}, irregular({1, 2})));
    if (owed) adam->step();
    const Checkpoint state = adam->state_dict();
    table.reset();

    const Tensor before = weight.value();
    const std::string message =
        "Optimizer: model.token.weight was destroyed before the optimizer that trains it";
    EXPECT_ERROR(std::logic_error, message, adam->step());
    EXPECT_ERROR(std::logic_error, message, other.step());
    EXPECT_ERROR(std::logic_error, message, adam->zero_grad());
    EXPECT_ERROR(std::logic_error, message, adam->state_dict());
    EXPECT_ERROR(std::logic_error, message, adam->load_state_dict(state));
    Parameter late("late", irregular({2}));
    EXPECT_ERROR(std::logic_error, message, adam->add_group({.parameters = {&late}}));
    EXPECT_EQ(adam->parameters(), std::vector<Parameter*>{&weight});
    EXPECT_NO_THROW(schedule.step());  // sets rates, which need no parameter
    adam->rows_visited();
    EXPECT_TRUE(weight.gradient().is_rows());
    EXPECT_EQ(weight.value(), before);
    adam.reset();  // returns the tables that it holds of the others
    EXPECT_EQ(weight.value(), before);
  }
}

// A rule with momentum whose idle() returns kSays.
template <IdleStep kSays>
struct Claiming : RuleDefaults {
  struct Options {
    double learning_rate = 0.5;
    RowUpdates rows = RowUpdates::kExact;
  };
  static constexpr std::string_view kName = "Claiming";
  static constexpr std::array<std::string_view, 1> kStates{"mean"};
  static std::array<bool, 1> uses(const Options&) { return {true}; }

  real rate;
  static auto members(const Claiming& r) { return std::tie(r.rate); }

  Claiming(const Options& options, const StepNumber&)
      : rate(static_cast<real>(options.learning_rate)) {}
  template <class Number>
  void update(Number& w, const Number& gradient, std::array<Number, 1>& state) const {
    state[0] = Number(rate) * state[0] + gradient;
    w = w - state[0] * (kSays == IdleStep::kLinear ? w : Number(rate));
  }
  IdleStep idle() const { return kSays; }
};

static_assert(UpdateRule<Claiming<IdleStep::kReplay>>);
static_assert(!UpdateRule<SgdOptions>);

// A rule with one more member, which it lists or not.
template <class Extra, bool kListed>
struct Larger : Claiming<IdleStep::kReplay> {
  Extra extra = 0;
  static auto members(const Larger& r) {
    if constexpr (kListed) {
      return std::tie(r.rate, r.extra);
    } else {
      return std::tie(r.rate);
    }
  }
  using Claiming<IdleStep::kReplay>::Claiming;
};

static_assert(kListsItsMembers<Larger<real, true>>);
static_assert(!kListsItsMembers<Larger<real, false>>);
// A whole number of the same size, and the type that `real` is not.
static_assert(!kListsItsMembers<
              Larger<std::conditional_t<sizeof(real) == 8, std::int64_t, std::int32_t>, true>>);
static_assert(
    !kListsItsMembers<Larger<std::conditional_t<sizeof(real) == 8, float, double>, true>>);

// All its members are listed, and more bytes follow them.
struct alignas(4 * sizeof(real)) Padded : Claiming<IdleStep::kReplay> {
  using Claiming<IdleStep::kReplay>::Claiming;
};
static_assert(!kListsItsMembers<Padded>);

TEST(RuleOptimizer, FindsOutWhenIdleIsWrong) {
  Parameter table("table", irregular({3, 2}));
  EXPECT_ERROR(
      std::logic_error,
      "Claiming: idle() says that a step without gradient changes nothing, but it makes the "
      "number 0.59375, expected 0.75",
      RuleOptimizer<Claiming<IdleStep::kNothing>> optimizer({&table}));
  EXPECT_ERROR(
      std::logic_error,
      "Claiming: idle() says that a step without gradient is linear, but it makes the number "
      "0.515625, expected 0.75",
      RuleOptimizer<Claiming<IdleStep::kLinear>> optimizer({&table}));
  EXPECT_NO_THROW(RuleOptimizer<Claiming<IdleStep::kReplay>>({&table}));
  for (const double rate : {0.0, 1e-30, 1e10, 1e30}) {  // rounding errors are allowed
    EXPECT_NO_THROW(SGD({&table}, {.learning_rate = rate, .momentum = 0.9, .weight_decay = 0.5}));
    EXPECT_NO_THROW(SGD({&table}, {.learning_rate = rate, .momentum = 0.9, .nesterov = true}));
    EXPECT_NO_THROW(RMSprop({&table}, {.learning_rate = rate, .momentum = 0.9}));
  }
}

// w moves by the rate against the sign of its gradient.
struct SignRule : RuleDefaults {
  struct Options {
    double learning_rate = 0.5;
    RowUpdates rows = RowUpdates::kExact;
  };
  static constexpr std::string_view kName = "SignRule";

  real rate;
  static auto members(const SignRule& r) { return std::tie(r.rate); }

  SignRule(const Options& options, const StepNumber&)
      : rate(static_cast<real>(options.learning_rate)) {}
  template <class Number>
  void update(Number& w, const Number& gradient, std::array<Number, 0>&) const {
    w = w - rate * select(gradient > 0, 1, -1);
  }
  IdleStep idle() const { return IdleStep::kReplay; }
};

TEST(RuleOptimizer, ChoosesForEachValue) {
  Parameter weight("weight", tensor({5}, {1, 2, 3, 4, 5}));
  RuleOptimizer<SignRule> optimizer({&weight});
  weight.add_gradient(tensor({5}, {1, -1, 1, 1, -1}));
  optimizer.step();
  EXPECT_EQ(weight.value(), tensor({5}, {0.5, 2.5, 2.5, 3.5, 5.5}));
}

TEST(RowCheck, TellsExactOptimizersFromOthers) {
  const auto expect_passed = [](const RowCheckResult& result) {
    EXPECT_TRUE(result.passed) << result.message();
  };
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    expect_passed(row_check<SGD>({.learning_rate = 0.1, .momentum = 0.9}, seed));
    expect_passed(row_check<Adam>({}, seed));
    expect_passed(row_check<RuleOptimizer<Claiming<IdleStep::kReplay>>>({}, seed));
  }
  // Both diverge to numbers that cannot be compared.
  const RowCheckResult infinite = row_check<SGD>({.learning_rate = 1e30, .momentum = 300});
  EXPECT_FALSE(infinite.passed) << infinite.message();
  const RowCheckResult wrong = row_check([](Parameter& parameter) {
    return std::make_unique<SGD>(
        std::vector<Parameter*>{&parameter},
        SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .rows = RowUpdates::kTouchedOnly});
  });
  EXPECT_FALSE(wrong.passed);
  EXPECT_TRUE(wrong.message().starts_with("failed; the largest relative difference is "));
}

TEST(RowCheck, RefusesRowUpdatesThatDifferByDesign) {
  EXPECT_INVALID(
      "row_check: rows is RowUpdates::kTouchedOnly, which leaves out steps that the dense "
      "optimizer makes; expected RowUpdates::kExact",
      row_check<SGD>({.momentum = 0.9, .rows = RowUpdates::kTouchedOnly}));
}

/// w = w − learning_rate · gradient / ‖gradient‖, with the norm of a parameter's whole gradient.
class NormalizedSgd : public Optimizer {
 public:
  NormalizedSgd(std::vector<Parameter*> parameters, double learning_rate)
      : Optimizer(std::move(parameters)), rate_(learning_rate) {}

  void step() override {
    check_parameters_live();
    for (Parameter* parameter : parameters()) {
      const Gradient& gradient = parameter->gradient();
      if (!parameter->trainable() || gradient.is_none()) continue;
      const double norm = gradient_norm(*parameter);
      const auto rate = static_cast<real>(rate_ / std::max(norm, 1e-12));
      const std::span<real> values = parameter->mutable_values();
      const auto change = [&](std::size_t begin, std::span<const real> by) {
        for (std::size_t i = 0; i < by.size(); ++i) values[begin + i] -= rate * by[i];
      };
      if (gradient.is_dense()) {
        change(0, {gradient.dense().data(), gradient.dense().size()});
        continue;
      }
      const RowGradient& rows = gradient.rows();
      for (std::size_t i = 0; i < rows.size(); ++i)
        change(static_cast<std::size_t>(rows.indices()[i]) * rows.width(), rows.row(i));
      rows_visited_ += rows.size();
    }
  }

  std::size_t group_count() const override { return 1; }
  double learning_rate(std::size_t group = 0) const override {
    check_argument(group == 0, "NormalizedSgd: there is no group ", group);
    return rate_;
  }
  void set_learning_rate(double rate, std::size_t group = 0) override {
    learning_rate(group);
    check_option("NormalizedSgd", "learning_rate", rate);
    rate_ = rate;
  }
  std::uint64_t rows_visited() const override { return rows_visited_; }

  Checkpoint state_dict() const override { return {}; }
  void load_state_dict(const Checkpoint& state) override {
    check_argument(state.names().empty(), "NormalizedSgd::load_state_dict: expected no state");
  }

 private:
  double rate_;
  std::uint64_t rows_visited_ = 0;
};

TEST(RowCheck, ChecksAnOptimizerThatIsNoRule) {
  const RowCheckResult result = row_check([](Parameter& table) {
    return std::make_unique<NormalizedSgd>(std::vector<Parameter*>{&table}, 0.1);
  });
  EXPECT_TRUE(result.passed) << result.message();
  Parameter table("table", zeros({3, 2})), weight("weight", zeros({2}));
  NormalizedSgd optimizer({&table, &weight}, 10);
  table.add_gradient(RowGradient({3, 2}, {2}, tensor({1, 2}, {3, 4})));
  weight.add_gradient(tensor({2}, {0, 1}));
  optimizer.step();
  EXPECT_EQ(table.value(), tensor({3, 2}, {0, 0, 0, 0, -6, -8}));
  EXPECT_EQ(weight.value(), tensor({2}, {0, -10}));
  EXPECT_EQ(optimizer.rows_visited(), 1U);
  EXPECT_INVALID("row_check: make returned no optimizer",
                 row_check([](Parameter&) { return std::unique_ptr<Optimizer>(); }));
}

}  // namespace
