#include "tests/test.hpp"

namespace {

TEST(Tape, RefusesWhatItCannotGoBackOnAndStaysAsItWas) {
  Parameter weight("weight", full({2, 3}, 3));
  Tape tape, other;
  const Variable w = tape.parameter(weight), x = tape.input(scalar(2));
  const Variable fixed = tape.constant(scalar(5)), nothing = tape.input(zeros({0}));
  const Variable there = other.input(scalar(1));
  const Variable loss = sum(w) * x * fixed;
  EXPECT_INVALID("Tape::backward: the loss has shape [2, 3], expected a single number",
                 tape.backward(w * w));
  EXPECT_INVALID("Tape::backward: the loss has shape [0], expected a single number",
                 tape.backward(nothing * nothing));
  EXPECT_ERROR(std::logic_error,
               "Tape::backward: the loss depends on nothing that needs a gradient",
               tape.backward(fixed + real{1}));
  EXPECT_ERROR(std::logic_error, "op: the tape has no random numbers: make it as Tape tape(random)",
               tape.random("op"));
  EXPECT_ERROR(std::logic_error, "add: a variable belongs to another tape", x + there);
  EXPECT_ERROR(std::logic_error, "concatenate: a variable belongs to another tape",
               concatenate({reshape(x, {1}), reshape(there, {1})}, 0));
  EXPECT_ERROR(std::logic_error, "Tape::backward: a variable belongs to another tape",
               tape.backward(there));
  EXPECT_ERROR(std::logic_error, "Tape::gradient: a variable belongs to another tape",
               tape.gradient(there));
  EXPECT_ERROR(std::logic_error, "Tape::gradient: backward has not been completed",
               tape.gradient(x));
  EXPECT_TRUE(weight.gradient().is_none());
  tape.backward(loss);
  EXPECT_ERROR(std::logic_error, "Tape::backward: this tape has already gone backward",
               tape.backward(loss));
  EXPECT_EQ(weight.gradient().dense(), full({2, 3}, 10));
  EXPECT_EQ(tape.gradient(x).dense(), scalar(90));
  for (const Variable& neither : {w, fixed, loss})
    EXPECT_ERROR(
        std::logic_error,
        "Tape::gradient: gradients are kept only for variables made by Tape::input, and for those "
        "that Tape::retain_gradient was called for",
        tape.gradient(neither));
}

TEST(Backward, RefusesAParameterThatChangedAfterItWasRead) {
  Parameter weight("head.weight", scalar(3));
  const auto changes = {+[](Parameter& p) { p.mutable_values()[0] = 4; },
                        +[](Parameter& p) { p.assign(scalar(4)); }};
  for (const auto change : changes) {
    Tape tape;
    const Variable w = tape.parameter(weight);
    const Variable loss = w * w;
    change(weight);
    EXPECT_ERROR(std::logic_error, "Tape::backward: head.weight was changed after it was read",
                 tape.backward(loss));
    EXPECT_TRUE(weight.gradient().is_none());
  }
}

TEST(Backward, RefusesTheValueOfAParameterThatItsOpDidNotRead) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  const Variable w = tape.parameter(weight);
  const Variable square = record("square", {w}, w.value() * w.value(), [](Backward& node) {
    node.slot(0).take(node.input(0) * real{2});
  });
  EXPECT_ERROR(std::logic_error,
               "square: the backward rule uses the value of input 0, expected the op to read() it",
               tape.backward(square));
}

TEST(Tape, RefusesVariablesOfADeadTapeAndThoseThatWereNeverGivenAValue) {
  Variable dead;
  const Variable nothing;
  {
    Tape tape;
    dead = tape.input(scalar(1));
  }
  Tape tape;  // may well have the address of the destroyed one
  const Variable alive = tape.input(scalar(1));
  for (const auto& item : std::map<std::string, Variable>{
           {"Variable: its tape has been destroyed", dead},
           {"Variable: this handle was never given a value", nothing}}) {
    const Variable& wrong = item.second;
    EXPECT_ERROR(std::logic_error, item.first, wrong.value());
    EXPECT_ERROR(std::logic_error, item.first, wrong.item());
    EXPECT_ERROR(std::logic_error, item.first, wrong.needs_gradient());
    EXPECT_ERROR(std::logic_error, item.first, wrong.tape());
    EXPECT_ERROR(std::logic_error, item.first, alive + wrong);
    EXPECT_ERROR(std::logic_error, item.first, exp(wrong));
    EXPECT_ERROR(std::logic_error, item.first, tape.backward(wrong));
  }
}

TEST(Record, NeedsAnInputToKnowItsTapeAndARuleIfItNeedsAGradient) {
  Tape tape;
  EXPECT_INVALID("orphan: no inputs were given",
                 record("orphan", std::initializer_list<Variable>{}, scalar(1), {}));
  EXPECT_INVALID("op: there is no backward rule",
                 record("op", {tape.input(scalar(1))}, scalar(1), {}));
}

TEST(Record, RefusesRulesThatBreakTheirContractAndKeepsParametersAsTheyWere) {
  struct Case {
    std::string message;
    BackwardRule rule;
  };
  const std::string no_such_input =
      "rule: the backward rule named input 7, expected a number below 3";
  const std::string second =
      "rule: the backward rule gave input 2 a second gradient, or one that it does not need";
  const std::string taken = "rule: the backward rule has taken its gradient, and asks for it again";
  for (const Case& item : std::vector<Case>{
           {"rule: the backward rule gave no gradient for input 0", [](Backward&) {}},
           {"rule: the backward rule gave no gradient for input 2",
            [](Backward& node) { node.slot(0).take(zeros({2})); }},
           {second,
            [](Backward& node) {
              node.slot(2).take(zeros({2}));
              node.slot(2).take(zeros({2}));
            }},
           {second,
            [](Backward& node) {
              node.slot(2).data();
              node.slot(2).data();
            }},
           {second,
            [](Backward& node) {
              GradientSlot slot = node.slot(2);
              slot.data();
              slot.take(zeros({2}));
            }},
           {"rule: the backward rule gave input 1 a second gradient, or one that it does not need",
            [](Backward& node) { node.slot(1).data(); }},
           {"rule: the backward rule gave input 0 a gradient of shape [1, 2], expected [2]",
            [](Backward& node) {
              node.slot(0).take(zeros({1, 2}));
            }},
           {"rule: the backward rule gave input 0 a gradient of shape [4, 2], expected [2]",
            [](Backward& node) {
              node.slot(0).take(RowGradient({4, 2}, {}, zeros({0, 2})));
            }},
           {"rule: the backward rule gave input 0 a gradient of shape [3], expected [2]",
            [](Backward& node) {
              const Tensor x = zeros({3});
              node.slot(0).take(x + x);
            }},
           {no_such_input, [](Backward& node) { node.slot(7); }},
           {no_such_input, [](Backward& node) { node.input(7); }},
           {no_such_input, [](Backward& node) { node.input_shape(7); }},
           {taken,
            [](Backward& node) {
              node.take_gradient();
              node.take_gradient();
            }},
           {taken,
            [](Backward& node) {
              node.gradient();
              node.take_gradient();
              node.gradient();
            }},
           {"a failure of its own",
            [](Backward&) { throw std::logic_error("a failure of its own"); }}}) {
    Parameter weight("weight", tensor({2}, {3, 4}));
    weight.add_gradient(tensor({2}, {7, 8}));
    Tape tape;
    const Variable w = tape.parameter(weight);
    const Variable fixed = tape.constant(zeros({2}));
    const Variable x = tape.input(tensor({2}, {5, 6}));
    const Variable y = record("rule", {w, fixed, x}, zeros({2}), item.rule);
    const Variable loss = sum(y + w);  // w has a gradient from the sum before the rule fails
    EXPECT_ERROR(std::logic_error, item.message, tape.backward(loss));
    EXPECT_EQ(weight.gradient().dense(), tensor({2}, {7, 8})) << item.message;
    EXPECT_THROW(tape.gradient(x), std::logic_error) << "half a gradient after " << item.message;
  }
}

}  // namespace
