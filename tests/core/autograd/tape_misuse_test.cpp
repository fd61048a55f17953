#include "tests/test.hpp"

namespace {

TEST(Tape, IsUnchangedByInvalidCalls) {
  Parameter weight("weight", full({2, 3}, 3));
  Tape tape, other;
  const Variable w = tape.parameter(weight), x = tape.input(scalar(2));
  const Variable fixed = tape.constant(scalar(5)), nothing = tape.input(zeros({0}));
  const Variable there = other.input(scalar(1));
  const Variable loss = sum(w) * x * fixed;
  EXPECT_INVALID("Tape::backward: the loss has shape [2, 3], expected a single element",
                 tape.backward(w * w));
  EXPECT_INVALID("Tape::backward: the loss has shape [0], expected a single element",
                 tape.backward(nothing * nothing));
  EXPECT_ERROR(std::logic_error,
               "Tape::backward: the loss depends on nothing that needs a gradient",
               tape.backward(fixed + real{1}));
  EXPECT_ERROR(std::logic_error,
               "op: the tape has no random number generator, expected Tape tape(random)",
               tape.random("op"));
  EXPECT_ERROR(std::logic_error, "add: a variable belongs to another tape", x + there);
  EXPECT_ERROR(std::logic_error, "concatenate: a variable belongs to another tape",
               concatenate({reshape(x, {1}), reshape(there, {1})}, 0));
  EXPECT_ERROR(std::logic_error, "Tape::backward: a variable belongs to another tape",
               tape.backward(there));
  EXPECT_ERROR(std::logic_error, "Tape::gradient: a variable belongs to another tape",
               tape.gradient(there));
  EXPECT_ERROR(std::logic_error, "Tape::gradient: backward() has not completed", tape.gradient(x));
  EXPECT_TRUE(weight.gradient().is_none());
  tape.backward(loss);
  EXPECT_ERROR(std::logic_error, "Tape::backward: backward() was already called on this tape",
               tape.backward(loss));
  EXPECT_EQ(weight.gradient().dense(), full({2, 3}, 10));
  EXPECT_EQ(tape.gradient(x).dense(), scalar(90));
  for (const Variable& neither : {w, fixed, loss})
    EXPECT_ERROR(
        std::logic_error,
        "Tape::gradient: the gradient was not kept, expected a variable made by input() or "
        "passed to retain_gradient()",
        tape.gradient(neither));
}

TEST(Backward, RejectsParametersThatChangedAfterARead) {
  Parameter weight("head.weight", scalar(3));
  const auto changes = {+[](Parameter& p) { p.mutable_values()[0] = 4; },
                        +[](Parameter& p) { p.assign(scalar(4)); }};
  for (const auto change : changes) {
    Tape tape;
    const Variable w = tape.parameter(weight);
    const Variable loss = w * w;
    change(weight);
    EXPECT_ERROR(std::logic_error,
                 "Tape::backward: head.weight has changed since this tape read it",
                 tape.backward(loss));
    EXPECT_TRUE(weight.gradient().is_none());
  }
}

TEST(Backward, RejectsUseOfAParameterThatTheOpDidNotRead) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  const Variable w = tape.parameter(weight);
  const Variable square = record("square", {w}, w.value() * w.value(), [](Backward& node) {
    node.slot(0).take(node.input(0) * real{2});
  });
  EXPECT_ERROR(std::logic_error,
               "square: the backward rule used the value of input 0, which the op did not read()",
               tape.backward(square));
}

TEST(Tape, RejectsVariablesWithoutATape) {
  Variable dead;
  const Variable nothing;
  {
    Tape tape;
    dead = tape.input(scalar(1));
  }
  Tape tape;  // may have the address of the destroyed tape
  const Variable alive = tape.input(scalar(1));
  for (const auto& item : std::map<std::string, Variable>{
           {"Variable: the tape of the variable was destroyed", dead},
           {"Variable: the variable was never given a value", nothing}}) {
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

TEST(Record, RequiresAnInputAndARule) {
  Tape tape;
  EXPECT_INVALID("orphan: no inputs, expected at least one",
                 record("orphan", std::initializer_list<Variable>{}, scalar(1), {}));
  EXPECT_INVALID("op: the backward rule is missing",
                 record("op", {tape.input(scalar(1))}, scalar(1), {}));
}

TEST(Record, RejectsRulesThatBreakTheirContract) {
  struct Case {
    std::string message;
    BackwardRule rule;
  };
  const std::string no_such_input =
      "rule: the backward rule used input 7, expected an index below 3";
  const std::string second =
      "rule: the backward rule gave input 2 a second gradient, or one that the input does not need";
  const std::string taken = "rule: the backward rule used the gradient again after take_gradient()";
  for (const Case& item : std::vector<Case>{
           {"rule: the backward rule left the slot of input 0 empty, expected a gradient",
            [](Backward&) {}},
           {"rule: the backward rule left the slot of input 2 empty, expected a gradient",
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
           {"rule: the backward rule gave input 1 a second gradient, or one that the input does "
            "not need",
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
           {"a failure in the rule",
            [](Backward&) { throw std::logic_error("a failure in the rule"); }}}) {
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
    EXPECT_THROW(tape.gradient(x), std::logic_error)
        << "incomplete gradient after " << item.message;
  }
}

}  // namespace
