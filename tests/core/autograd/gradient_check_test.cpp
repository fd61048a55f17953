#include "tests/test.hpp"

namespace {

// x² with the given backward rule.
Variable square_with(const Variable& x, const BackwardRule& rule) {
  Tensor value = x.value();
  for (real& entry : value.storage()) entry *= entry;
  return record("square", {x}, std::move(value), rule);
}

Variable right_square(const Variable& x) {
  return square_with(x, [](Backward& node) {
    Tensor gradient = node.gradient();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient.data()[i] *= 2 * node.input(0).data()[i];
    node.give(0, std::move(gradient));
  });
}

// Right except in entry 4, where it is half of what it should be.
Variable wrong_square(const Variable& x) {
  return square_with(x, [](Backward& node) {
    Tensor gradient = node.gradient();
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient.data()[i] *= (i == 4 ? 1 : 2) * node.input(0).data()[i];
    node.give(0, std::move(gradient));
  });
}

TEST(GradientCheck, PassesARightRuleAndCountsEveryEntry) {
  const auto result = gradient_check([](Inputs x) { return right_square(x[0]) + exp(x[1]); },
                                     {irregular({2, 3}), irregular({3})});
  EXPECT_TRUE(result.passed) << result.message();
  EXPECT_EQ(result.entries, 9U);
  EXPECT_LE(result.error, GradientCheckOptions().tolerance);
  EXPECT_EQ(result.message().find("passed, 9 entries; the worst is input "), 0U)
      << result.message();
}

TEST(GradientCheck, PassesAResultOfOneNumberAsItIs) {
  for (const Shape& shape : {Shape{}, Shape{1, 1}}) {
    const auto result = gradient_check([](Inputs x) { return x[0] * x[0]; }, {full(shape, 3)});
    EXPECT_TRUE(result.passed) << result.message();
    // The weights of larger results would show here.
    EXPECT_NEAR(result.backward, 6, 1e-5);
  }
}

TEST(GradientCheck, FailsAWrongRuleAndNamesTheWorstEntryWithBothValues) {
  const Tensor x = tensor({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto result = gradient_check(
      [](Inputs in) { return sum(in[0]) + sum(wrong_square(in[1])); }, {scalar(1), x});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.entries, 7U);
  EXPECT_EQ(result.input, "input 1");
  EXPECT_EQ(result.index, (std::vector<std::size_t>{1, 1}));
  // 5 instead of 10. A difference quotient of a square has no error but rounding: that of the loss,
  // about 91, over twice the step.
  EXPECT_EQ(result.backward, 5);
  const GradientCheckOptions defaults;
  const double rounding = 128 * kEpsilon / (2 * defaults.step);
  EXPECT_NEAR(result.difference, 10, rounding);
  EXPECT_NEAR(result.error, 0.5, rounding);
  const std::string start =
      "failed, 7 entries; the worst is input 1 at [1, 1]: backward 5, difference quotient ";
  EXPECT_EQ(result.message().substr(0, start.size()), start);
}

TEST(GradientCheck, SeesErrorsThatCancelInASum) {
  // Gradients swapped between entries: their sum is right, each is wrong.
  const auto swapped = [](Inputs x) {
    return record("swapped", {x[0]}, x[0].value(), [](Backward& node) {
      const real* g = node.gradient().data();
      node.give(0, tensor({2}, {g[1], g[0]}));
    });
  };
  EXPECT_FALSE(gradient_check(swapped, {tensor({2}, {1, 2})}).passed);
}

TEST(GradientCheck, FailsAGradientThatIsMissing) {
  const auto forgetful = [](Inputs x) {
    return record("forgetful", {x[0]}, x[0].value(), [](Backward& node) { node.give(0, {}); });
  };
  const auto result = gradient_check(forgetful, {tensor({2}, {1, 2})});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.backward, 0);
}

TEST(GradientCheck, FailsNotANumber) {
  const real nan = std::numeric_limits<real>::quiet_NaN();
  const auto backward_nan = [nan](Inputs x) {
    return record("nan", {x[0]}, x[0].value(),
                  [nan](Backward& node) { node.give(0, full({2}, nan)); });
  };
  const auto forward_nan = [nan](Inputs x) { return sum(x[0] * nan); };
  for (const auto& function :
       std::vector<std::function<Variable(Inputs)>>{backward_nan, forward_nan}) {
    const auto result = gradient_check(function, {tensor({2}, {1, 2})});
    EXPECT_FALSE(result.passed) << result.message();
    EXPECT_EQ(result.error, std::numeric_limits<double>::infinity());
  }
}

TEST(GradientCheck, TakesAStepAndAToleranceOfOnesOwn) {
  const auto cube = [](Inputs x) { return x[0] * x[0] * x[0]; };
  // A step of 0.1 has an error of about its square.
  EXPECT_FALSE(gradient_check(cube, {scalar(1)}, {.step = 0.1, .tolerance = 1e-3}).passed);
  const auto result = gradient_check(cube, {scalar(1)}, {.step = 0.1, .tolerance = 1e-2});
  EXPECT_TRUE(result.passed) << result.message();
  EXPECT_NEAR(result.difference, 3.01, 1e-4);
}

TEST(GradientCheck, NeedsSomethingToCheck) {
  EXPECT_INVALID("gradient_check: there are no inputs",
                 gradient_check([](Inputs x) { return x[0]; }, std::vector<Tensor>()));

  Parameter frozen("frozen", scalar(1));
  frozen.set_trainable(false);
  const auto check = [&](const std::vector<Parameter*>& parameters) {
    return error_of<std::invalid_argument>(
        [&] { gradient_check([&](Tape& tape) { return tape.parameter(frozen); }, parameters); });
  };
  EXPECT_EQ(check({}), "gradient_check: none of 0 parameters is trainable");
  EXPECT_EQ(check({&frozen}), "gradient_check: none of 1 parameters is trainable");
}

TEST(GradientCheck, SaysSoWhereThereWasNoEntryToCompare) {
  const auto result = gradient_check([](Inputs x) { return exp(x[0]); }, {zeros({0, 3})});
  EXPECT_TRUE(result.passed);
  EXPECT_EQ(result.entries, 0U);
  EXPECT_EQ(result.message(), "passed, but there were no entries to compare");
}

TEST(GradientCheck, ChecksParametersAndLeavesThemAsTheyWere) {
  Parameter table("table", irregular({4, 2}));
  Parameter scale("scale", irregular({2}, 1));
  Parameter frozen("frozen", irregular({2}, 2));
  frozen.set_trainable(false);
  const Tensor table_before = table.value();
  const Tensor scale_before = scale.value();
  scale.add_gradient(tensor({2}, {7, 8}));
  const auto result = gradient_check(
      [&](Tape& tape) {
        return right_square(embedding(tape.parameter(table), ids({3}, {1, 3, 1})) *
                            tape.parameter(scale)) +
               tape.parameter(frozen);
      },
      {&table, &scale, &frozen});
  EXPECT_TRUE(result.passed) << result.message();
  EXPECT_EQ(result.entries, 10U);  // none of the frozen one
  EXPECT_EQ(table.value(), table_before);
  EXPECT_EQ(scale.value(), scale_before);
  EXPECT_TRUE(table.gradient().is_none());
  EXPECT_EQ(scale.gradient().dense(), tensor({2}, {7, 8}));
}

TEST(GradientCheck, NamesTheWorstParameter) {
  Parameter first("hidden.weight", irregular({3}));
  Parameter second("head.weight", tensor({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto result = gradient_check(
      [&](Tape& tape) {
        return sum(tape.parameter(first)) + sum(wrong_square(tape.parameter(second)));
      },
      {&first, &second});
  EXPECT_FALSE(result.passed);
  EXPECT_EQ(result.input, "head.weight");
  EXPECT_EQ(result.index, (std::vector<std::size_t>{1, 1}));
}

TEST(GradientCheck, LeavesParametersAsTheyWereWhenTheFunctionThrows) {
  const Tensor value = tensor({2}, {1, 2});
  const Tensor gradient = tensor({2}, {7, 8});
  // The first call is for backward, the later ones are for difference quotients.
  for (const int failing_call : {1, 2, 3, 4, 5}) {
    Parameter weight("weight", value);
    weight.add_gradient(gradient);
    int calls = 0;
    EXPECT_ERROR(std::runtime_error, "failed",
                 gradient_check(
                     [&](Tape& tape) {
                       const Variable y = right_square(tape.parameter(weight));
                       if (++calls == failing_call) throw std::runtime_error("failed");
                       return y;
                     },
                     {&weight}));
    EXPECT_EQ(weight.value(), value) << "call " << failing_call;
    EXPECT_EQ(weight.gradient().dense(), gradient) << "call " << failing_call;
  }
}

TEST(GradientCheck, LeavesParametersAsTheyWereWhenBackwardThrows) {
  Parameter weight("weight", tensor({2}, {1, 2}));
  weight.add_gradient(tensor({2}, {7, 8}));
  EXPECT_THROW(
      gradient_check(
          [&](Tape& tape) { return square_with(tape.parameter(weight), [](Backward&) {}); },
          {&weight}),
      std::logic_error);
  EXPECT_EQ(weight.value(), tensor({2}, {1, 2}));
  EXPECT_EQ(weight.gradient().dense(), tensor({2}, {7, 8}));
}

TEST(GradientCheck, RefusesWhatTheFunctionDoesNotUse) {
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
  EXPECT_INVALID(
      "gradient_check: 'input 0' [2] gets no gradient: does the function use it?",
      gradient_check([](Inputs x) { return exp(x[1]); }, {tensor({2}, {1, 2}), tensor({1}, {1})}));
}

}  // namespace
