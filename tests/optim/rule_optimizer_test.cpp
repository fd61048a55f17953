// Features of all optimizers that are built from rules, and row_check().

#include "tests/optim/optimizers.hpp"

namespace {

TEST(RuleOptimizer, GroupsHaveTheirOwnOptionsAndRates) {
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

  EXPECT_DOUBLE_EQ(adamw.learning_rate(0), 1e-3 / 3);
  EXPECT_DOUBLE_EQ(adamw.learning_rate(1), 3e-4 / 3);
  Parameter late("late", irregular({2}));
  adamw.add_group({.parameters = {&late}, .options = {.learning_rate = 0.5}});
  EXPECT_INVALID("Optimizer: got no parameters, expected at least one", adamw.add_group({}));
  EXPECT_INVALID("Optimizer: duplicate parameter late", adamw.add_group({.parameters = {&late}}));
  EXPECT_EQ(adamw.group_count(), 3U);
  EXPECT_EQ(adamw.learning_rate(2), 0.5);
  EXPECT_EQ(adamw.parameters().size(), 4U);
  EXPECT_INVALID("AdamW: group 3 is out of range, expected less than 3", adamw.learning_rate(3));
  EXPECT_INVALID("AdamW: group 3 is out of range, expected less than 3", adamw.set_options({}, 3));

  const std::vector<AdamW::Group> half_empty{{.parameters = {&late}}, {}}, empty(1);
  EXPECT_EQ(AdamW(half_empty).group_count(), 2U);
  EXPECT_INVALID("Optimizer: got no parameters, expected at least one", AdamW{empty});
  EXPECT_INVALID("Optimizer: duplicate parameter late", AdamW({&late, &late}));
  EXPECT_INVALID("Optimizer: got a null parameter", AdamW({nullptr}));
}

TEST(RuleOptimizer, StepUsesTheOptionsOfEachGroup) {
  Parameter a("a", full({2}, 1)), b("b", full({2}, 1));
  SGD sgd({{{&a}, {.learning_rate = 0.125}}, {{&b}, {.learning_rate = 0.5}}});
  sgd.set_options({.learning_rate = 0.25}, 1);
  for (Parameter* parameter : sgd.parameters()) parameter->add_gradient(full({2}, 1));
  sgd.step();
  EXPECT_EQ(a.value(), full({2}, 0.875));
  EXPECT_EQ(b.value(), full({2}, 0.75));
}

TEST(RuleOptimizer, RejectsOptionsOutOfRange) {
  const std::string at_least_0 = ", expected a finite number >= 0";
  const std::string nesterov = "SGD: nesterov is set with ";
  const std::string plain = ", expected momentum > 0 and dampening 0";
  Parameter w("w", full({2}, 1));
  const std::vector<std::pair<std::string, AnyOptions>> refused{
      {"SGD: learning_rate is -1" + at_least_0, SgdOptions{.learning_rate = -1}},
      {"SGD: learning_rate is nan" + at_least_0, SgdOptions{.learning_rate = NAN}},
      {"SGD: momentum is -0.1" + at_least_0, SgdOptions{.momentum = -0.1}},
      {"SGD: dampening is inf, expected a finite number",
       SgdOptions{.momentum = 0.9, .dampening = INFINITY}},
      {"SGD: weight_decay is -1" + at_least_0, SgdOptions{.weight_decay = -1}},
      {nesterov + "momentum 0 and dampening 0" + plain, SgdOptions{.nesterov = true}},
      {nesterov + "momentum 0.9 and dampening 0.1" + plain,
       SgdOptions{.momentum = 0.9, .dampening = 0.1, .nesterov = true}},
      {"Adam: beta1 is 1" + at_least_0 + ", < 1", AdamOptions{.beta1 = 1}},
      {"AdamW: beta2 is -0.5" + at_least_0 + ", < 1", AdamWOptions{.beta2 = -0.5}},
      {"Adam: epsilon is -1" + at_least_0, AdamOptions{.epsilon = -1}},
      {"AdamW: weight_decay is nan" + at_least_0, AdamWOptions{.weight_decay = NAN}},
      {"Adagrad: initial_accumulator is -1" + at_least_0,
       AdagradOptions{.initial_accumulator = -1}},
      {"Adagrad: learning_rate_decay is -1" + at_least_0,
       AdagradOptions{.learning_rate_decay = -1}},
      {"RMSprop: alpha is -1" + at_least_0, RmsPropOptions{.alpha = -1}},
      {"RMSprop: momentum is inf" + at_least_0, RmsPropOptions{.momentum = INFINITY}}};
  for (const auto& row : refused) EXPECT_INVALID(row.first, make_optimizer(row.second, {&w}));
  const auto too_large_for_float = [&] { Adam({&w}, {.learning_rate = 1e300}); };
  EXPECT_EQ(error_of<std::invalid_argument>(too_large_for_float) == "no error", sizeof(real) == 8);
  Adam adam({&w});
  EXPECT_INVALID("Adam: learning_rate is -1" + at_least_0, adam.set_learning_rate(-1));
  EXPECT_INVALID("Adam: beta1 is 2" + at_least_0 + ", < 1", adam.set_options({.beta1 = 2}));
  EXPECT_EQ(adam.learning_rate(), 1e-3);
}

TEST(RuleOptimizer, CountsStepsBeyondFloatPrecision) {
  constexpr std::int64_t kMany = (3 << 24) + 5;
  Parameter w("w", full({2}, 1));
  Adam adam({&w});
  w.add_gradient(full({2}, 1));
  adam.step();
  adam.load_state_dict(with(adam.state_dict(), "w.step", kMany));
  adam.step();
  EXPECT_EQ(adam.state_dict().integer("w.step"), kMany + 1);
}

TEST(RuleOptimizer, EqualsTheDenseStepBitForBitIfNothingIsDeferred) {
  RowsAndDense twins(irregular({40, 19}), SgdOptions{.learning_rate = 0.1});
  for (int i = 1; i < 20; ++i) twins.step(gradient({40, 19}, {i, 2 * i}, i));
  EXPECT_EQ(twins.table.value(), twins.dense.value());
}

TEST(RuleOptimizer, ThrowsAfterAParameterWasDestroyed) {
  for (const bool deferred : {false, true}) {  // true: the destroyed table has deferred steps
    Parameter weight("head.weight", irregular({3, 2}));
    auto table = std::make_unique<Parameter>("table", irregular({3, 2}));
    table->rename("model.token.weight");
    auto adam = std::make_unique<Adam>(std::vector<Parameter*>{&weight, table.get()});
    SGD other({table.get(), &weight}, {.learning_rate = 0.1});
    for (Parameter* parameter : {&weight, table.get()})
      parameter->add_gradient(RowGradient({3, 2}, {1}, irregular({1, 2})));
    if (deferred) adam->step();
    const StateDict state = adam->state_dict();
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
    adam.reset();  // must not touch the destroyed parameter
    EXPECT_EQ(weight.value(), before);
  }
}

// A rule whose deferral() returns kClaim.
template <class Rule, Deferral kClaim>
struct Claiming : Rule {
  using Rule::Rule;
  Deferral deferral() const { return kClaim; }
};

TEST(RuleOptimizer, DetectsWrongDeferral) {
  using ClaimsNothing = RuleOptimizer<Claiming<SgdRule, Deferral::kNothing>>;
  using ClaimsLinear = RuleOptimizer<Claiming<AdagradRule, Deferral::kLinear>>;
  Parameter table("table", irregular({3, 2}));
  EXPECT_ERROR(
      std::logic_error,
      "SGD: deferral() promises that a step without gradient changes nothing, but the value "
      "becomes 0.59375, expected 0.75",
      ClaimsNothing({&table}, {.learning_rate = 0.5, .momentum = 0.5}));
  EXPECT_ERROR_WITH(
      std::logic_error,
      "Adagrad: deferral() promises that a step without gradient is linear, but the value "
      "becomes ",
      ClaimsLinear({&table}, {.learning_rate = 0.5, .weight_decay = 1}));
  for (const double rate : {0.0, 1e-30, 1e10, 1e30}) {  // rounding errors must not cause exceptions
    EXPECT_NO_THROW(SGD({&table}, {.learning_rate = rate, .momentum = 0.9, .weight_decay = 0.5}));
    EXPECT_NO_THROW(SGD({&table}, {.learning_rate = rate, .momentum = 0.9, .nesterov = true}));
    EXPECT_NO_THROW(RMSprop({&table}, {.learning_rate = rate, .momentum = 0.9}));
    EXPECT_NO_THROW(RMSprop({&table}, {.learning_rate = rate, .epsilon = 0}));
  }
}

// A rule with an additional member. (In wrong_rules.cpp, members() does not list it.)
template <class Extra>
struct Larger : SgdRule {
  Extra extra;
  static auto members(const Larger& r) {
    return std::tuple_cat(SgdRule::members(r), std::tie(r.extra));
  }
};

static_assert(kListsItsMembers<Larger<real>>);
// One of these two types has the size of `real`.
static_assert(!kListsItsMembers<Larger<std::int32_t>> && !kListsItsMembers<Larger<std::int64_t>>);

TEST(RowCheck, DistinguishesExactOptimizers) {
  const auto expect_passed = [](const RowCheckResult& result) {
    EXPECT_TRUE(result.passed) << result.message();
  };
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    expect_passed(row_check<SGD>({.learning_rate = 0.1, .momentum = 0.9}, seed));
    expect_passed(row_check<Adam>({}, seed));
    expect_passed(row_check<RuleOptimizer<Claiming<SgdRule, Deferral::kReplay>>>(
        {.learning_rate = 0.1, .momentum = 0.9}, seed));
  }
  // Both tables diverge to NaN.
  const RowCheckResult infinite = row_check<SGD>({.learning_rate = 1e30, .momentum = 300});
  EXPECT_FALSE(infinite.passed) << infinite.message();
  const SgdOptions touched{.momentum = 0.9, .rows = RowUpdates::kTouchedOnly};
  const RowCheckResult wrong =
      row_check([&](Parameter& parameter) { return make_optimizer(touched, {&parameter}); });
  EXPECT_FALSE(wrong.passed);
  EXPECT_TRUE(wrong.message().starts_with("failed; the largest relative difference is "));
  EXPECT_INVALID(
      "row_check: rows is RowUpdates::kTouchedOnly, which skips steps of the dense optimizer; "
      "expected RowUpdates::kExact",
      row_check<SGD>(touched));
  EXPECT_INVALID("row_check: make returned null, expected an optimizer",
                 row_check([](Parameter&) { return std::unique_ptr<Optimizer>(); }));
}

/// An optimizer that is not a rule: w = w − learning_rate · gradient / ‖gradient‖, with the norm of
/// a parameter's whole gradient.
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
    check_argument(group == 0, "NormalizedSgd: group ", group, " is out of range, expected 0");
    return rate_;
  }
  void set_learning_rate(double rate, std::size_t group = 0) override {
    learning_rate(group);
    check_option("NormalizedSgd", "learning_rate", rate);
    rate_ = rate;
  }
  std::uint64_t rows_visited() const override { return rows_visited_; }

  StateDict state_dict() const override { return {}; }
  void load_state_dict(const StateDict& state) override {
    check_argument(state.names().empty(),
                   "NormalizedSgd::load_state_dict: got a state, expected an empty one");
  }

 private:
  double rate_;
  std::uint64_t rows_visited_ = 0;
};

TEST(RowCheck, ChecksOptimizersThatAreNotRules) {
  const RowCheckResult result = row_check([](Parameter& table) {
    return std::make_unique<NormalizedSgd>(std::vector<Parameter*>{&table}, 0.1);
  });
  EXPECT_TRUE(result.passed) << result.message();
  Parameter table("table", zeros({3, 2}));
  NormalizedSgd optimizer({&table}, 10);
  table.add_gradient(RowGradient({3, 2}, {2}, tensor({1, 2}, {3, 4})));
  optimizer.step();
  EXPECT_EQ(table.value(), tensor({3, 2}, {0, 0, 0, 0, -6, -8}));
}

}  // namespace
