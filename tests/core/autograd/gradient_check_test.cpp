#include "tests/test.hpp"

namespace {

// Returns x², with a rule that multiplies the gradient of element i by share(i).
using Share = std::function<double(std::size_t)>;
Variable square_with(const Variable& x, const Share& share) {
  Tensor value = x.read();
  for (real& entry : value.storage()) entry *= entry;
  return record("square", {x}, std::move(value), [share](Backward& node) {
    Tensor gradient = node.gradient();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient.data()[i] *= static_cast<real>(2 * share(i)) * node.input(0).data()[i];
    node.slot(0).take(std::move(gradient));
  });
}

Variable right_square(const Variable& x) {
  return square_with(x, [](std::size_t) { return 1; });
}

TEST(GradientCheck, DoesNotWeightSingleElementResults) {
  for (const Shape& shape : {Shape{}, Shape{1, 1}}) {
    const auto result = gradient_check([](Inputs x) { return x[0] * x[0]; }, {full(shape, 3)});
    EXPECT_TRUE(result.passed) << result.message();
    // Results with several elements are weighted, which would change the gradient.
    EXPECT_NEAR(result.backward, 6, 1e-5);
  }
}

TEST(GradientCheck, ReportsTheWorstElementOfAWrongRule) {
  const Share half_of_one = [](std::size_t i) { return i == 4 ? 0.5 : 1; };
  const auto result =
      gradient_check([&](Inputs x) { return sum(x[0]) + sum(square_with(x[1], half_of_one)); },
                     {scalar(1), tensor({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.entries, 7U);
  EXPECT_EQ(result.input, "input 1");
  EXPECT_EQ(result.index, (std::vector<std::size_t>{1, 1}));
  // The rule gives 5 instead of 10; the largest gradient is 12.
  EXPECT_EQ(result.backward, 5);
  EXPECT_NEAR(result.difference, 10, 12 * result.resolution);
  EXPECT_NEAR(result.error, 5.0 / 12, result.resolution);
  EXPECT_LT(result.resolution, 1e-5);
  EXPECT_TRUE(
      result.message().starts_with("failed, 7 elements compared; the worst is input 1 at [1, 1]: "
                                   "backward 5, difference quotient "))
      << result.message();
}

TEST(GradientCheck, FailsRulesThatSwapElementsOrGiveNoneOrNaN) {
  const Tensor x = tensor({2}, {1, 2});
  const auto result_of = [&](const BackwardRule& rule) {
    return gradient_check([&](Inputs in) { return record("op", {in[0]}, in[0].read(), rule); },
                          {x});
  };
  const auto swapped = result_of([](Backward& node) {
    const real* g = node.gradient().data();
    node.slot(0).take(tensor({2}, {g[1], g[0]}));  // only the sum of the elements is right
  });
  EXPECT_FALSE(swapped.passed);
  const auto forgotten = result_of([](Backward& node) { node.slot(0).take({}); });
  EXPECT_FALSE(forgotten.passed);
  EXPECT_EQ(forgotten.backward, 0);
  for (const auto& result : {result_of([](Backward& node) { node.slot(0).take(full({2}, kNaN)); }),
                             gradient_check([](Inputs in) { return sum(in[0] * kNaN); }, {x})}) {
    EXPECT_FALSE(result.passed) << result.message();
    EXPECT_EQ(result.error, std::numeric_limits<double>::infinity());
  }
}

// The gradients of a mean are small.
TEST(GradientCheck, TellsRightFromWrongRulesInAMeanAndALayer) {
  for (const auto& [rule, share] : std::map<std::string, Share>{
           {"right", [](std::size_t) { return 1; }},
           {"zeros", [](std::size_t) { return 0; }},
           {"1 % too much", [](std::size_t) { return 1.01; }},
           {"1 % too little", [](std::size_t) { return 0.99; }},
           {"half", [](std::size_t) { return 0.5; }},
           {"every other element", [](std::size_t i) { return i % 2 == 0 ? 1 : 0; }}})
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const auto square = [&, of = share](const Variable& x) { return square_with(x, of); };
      Random random(seed);
      const auto of_mean =
          gradient_check([&](Inputs x) { return mean(square(x[0])); }, {random.normal({150})});
      Linear hidden(4, 6, random), head(6, 8, random);
      std::vector<Parameter*> parameters = hidden.parameters();
      for (Parameter* parameter : head.parameters()) parameters.push_back(parameter);
      const Tensor x = random.normal({8, 4});
      const auto of_layer = gradient_check(
          [&](Tape& tape) {
            const Variable inside = square(hidden.forward(tape.constant(x)));
            return cross_entropy(head.forward(inside), ids({8}, {1, 7, 0, 3, 3, 5, 2, 6}));
          },
          parameters);
      for (const GradientCheckResult& result : {of_mean, of_layer}) {
        EXPECT_EQ(result.passed, rule == "right") << rule << ": " << result.message();
        EXPECT_EQ(result.message().starts_with("failed"), rule != "right") << result.message();
      }
    }
}

TEST(GradientCheck, PassesWhereOnlySmallStepsWork) {
  const real near = 64 * std::sqrt(std::numeric_limits<real>::epsilon());
  struct Case {
    const char* where;
    Function function;
    Tensor x;
  };
  for (const Case& item : std::vector<Case>{
           {"near a kink", [](Inputs x) { return relu(x[0]); }, {near, -near, 1}},
           {"near the end of the domain", [](Inputs x) { return log(x[0]); }, {near, 1}},
           {"steep", [](Inputs x) { return exp(x[0] * real{20}); }, {-0.25, 0, 0.25}},
           {"large values", [](Inputs x) { return sqrt(x[0]); }, {1e6, 3e7}}}) {
    const auto result = gradient_check(item.function, {item.x});
    EXPECT_TRUE(result.passed) << item.where << ": " << result.message();
  }
}

TEST(GradientCheck, IsUndecidedWhereRoundingHidesTheGradient) {
  const auto result = gradient_check(
      [](Inputs x) { return sum(right_square(x[0])) * real{kEpsilon / 8} + real{1}; },
      {tensor({2}, {1, 2})});
  EXPECT_FALSE(result.passed);
  EXPECT_TRUE(result.message().starts_with("undecided, 2 elements compared; ")) << result.message();
  EXPECT_EQ(result.message().ends_with("; link rowgrad_double for a finer one"), sizeof(real) == 4);
}

// The function uses input 1, but the result does not depend on it, as with the bias of the keys in
// attention.
TEST(GradientCheck, MeasuresAZeroGradientAgainstOtherInputs) {
  const auto result = gradient_check([](Inputs x) { return softmax(x[0] + x[1]); },
                                     {irregular({2, 3}), scalar(1)}, {.tolerance = 0.1});
  EXPECT_TRUE(result.passed) << result.message();
  const auto alone =
      gradient_check([](Inputs x) { return softmax(x[0].tape().constant(zeros({3})) + x[0]); },
                     {scalar(1)}, {.tolerance = 0.1});
  EXPECT_FALSE(alone.passed);
}

TEST(GradientCheck, UsesTheGivenStepAndTolerance) {
  real largest = 0;
  const auto cube = [&](Inputs x) {
    largest = std::max(largest, x[0].value()());
    return x[0] * x[0] * x[0];
  };
  const auto result = gradient_check(cube, {scalar(2)}, {.step = 0.125, .tolerance = 1e-3});
  EXPECT_TRUE(result.passed) << result.message();
  EXPECT_EQ(largest, real{2.25});
  EXPECT_FALSE(gradient_check(cube, {scalar(2)}, {.tolerance = kEpsilon / 8}).passed);
}

TEST(GradientCheck, RejectsMissingInputsAndInvalidOptions) {
  const auto first = [](Inputs x) { return x[0]; };
  EXPECT_INVALID("gradient_check: no inputs were given, expected at least one",
                 gradient_check(first, std::vector<Tensor>()));
  EXPECT_INVALID("gradient_check: step is 0 and tolerance 0.5, expected values above 0",
                 gradient_check(first, {scalar(1)}, {.step = 0, .tolerance = 0.5}));
  std::size_t calls = 0;
  const auto reshaped_later = [&](Inputs x) { return ++calls == 1 ? x[0] : reshape(x[0], {1, 2}); };
  EXPECT_INVALID(
      "gradient_check: the function returned shape [1, 2], expected [2] as in the first call",
      gradient_check(reshaped_later, {zeros({2})}));

  Parameter frozen("frozen", scalar(1));
  frozen.set_trainable(false);
  const auto alone = [&](Tape& tape) { return tape.parameter(frozen); };
  EXPECT_INVALID("gradient_check: 0 of 0 parameters are trainable, expected at least one",
                 gradient_check(alone, std::vector<Parameter*>()));
  EXPECT_INVALID("gradient_check: 0 of 1 parameters are trainable, expected at least one",
                 gradient_check(alone, {&frozen}));

  const auto result = gradient_check([](Inputs x) { return exp(x[0]); }, {zeros({0, 3})});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.entries, 0U);
  EXPECT_EQ(result.message(), "passed, but there were no elements to compare");
}

TEST(GradientCheck, ChecksParametersAndRestoresThem) {
  Parameter table("table", irregular({4, 2}));
  Parameter scale("scale", irregular({2}, 1));
  Parameter frozen("frozen", irregular({2}, 2));
  frozen.set_trainable(false);
  scale.add_gradient(tensor({2}, {7, 8}));
  const auto expect_restored = [&] {
    EXPECT_EQ(table.value(), irregular({4, 2}));
    EXPECT_EQ(scale.value(), irregular({2}, 1));
    EXPECT_TRUE(table.gradient().is_none());
    EXPECT_EQ(scale.gradient().dense(), tensor({2}, {7, 8}));
  };
  int calls = 0, failing_call = 0;
  const auto function = [&](Tape& tape) {
    if (++calls == failing_call) throw std::runtime_error("failed");
    const Variable rows = embedding(tape.parameter(table), ids({3}, {1, 3, 1}));
    return right_square(rows * tape.parameter(scale)) + tape.parameter(frozen);
  };
  const auto result = gradient_check(function, {&table, &scale, &frozen});
  EXPECT_TRUE(result.passed) << result.message();
  EXPECT_EQ(result.entries, 10U);  // without the frozen parameter
  EXPECT_TRUE(result.input == "table" || result.input == "scale") << result.input;
  EXPECT_LE(result.error + result.resolution, GradientCheckOptions().tolerance);
  EXPECT_TRUE(result.message().starts_with("passed, 10 elements compared; the worst is "))
      << result.message();
  expect_restored();
  // The first call is for backward, the next 16 calls estimate the noise, and later calls are for
  // difference quotients.
  for (const int call : {1, 2, 3, 4, 5, 20}) {
    failing_call = calls + call;
    EXPECT_ERROR(std::runtime_error, "failed", gradient_check(function, {&table, &scale}));
    expect_restored();
  }
  const auto without_rule = [&](Tape& tape) {
    return record("op", {tape.parameter(scale) * real{2}}, zeros({2}), [](Backward&) {});
  };
  EXPECT_ERROR_WITH(std::logic_error, "op: the backward rule left the slot of input 0 empty",
                    gradient_check(without_rule, {&scale}));
  expect_restored();
}

TEST(GradientCheck, RejectsParametersThatTheFunctionDoesNotUse) {
  Parameter used("used", tensor({2}, {1, 2}));
  Parameter forgotten("norm.weight", tensor({1}, {1}));
  const auto function = [&](Tape& tape) {
    tape.parameter(forgotten);
    return exp(tape.parameter(used));
  };
  EXPECT_INVALID("gradient_check: 'norm.weight' [1] gets no gradient: does the function use it?",
                 gradient_check(function, {&used, &forgotten}));
  EXPECT_TRUE(forgotten.gradient().is_none());
  forgotten.set_trainable(false);
  EXPECT_TRUE(gradient_check(function, {&used, &forgotten}).passed);
}

}  // namespace
