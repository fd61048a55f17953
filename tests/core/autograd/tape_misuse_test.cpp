#include "tests/test.hpp"

namespace {

TEST(Backward, RefusesASecondCall) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  const Variable loss = tape.parameter(weight) * real{2};
  tape.backward(loss);
  EXPECT_ERROR(std::logic_error, "Tape::backward: this tape has already gone backward",
               tape.backward(loss));
  EXPECT_EQ(weight.gradient().dense(), scalar(2));
}

TEST(Backward, RefusesALossOfSeveralNumbersOrOfNone) {
  Parameter weight("weight", zeros({2, 3}));
  Tape tape;
  const Variable w = tape.parameter(weight);
  const Variable nothing = tape.input(zeros({0}));
  EXPECT_INVALID("Tape::backward: the loss has shape [2, 3], expected a single number",
                 tape.backward(w * w));
  EXPECT_INVALID("Tape::backward: the loss has shape [0], expected a single number",
                 tape.backward(nothing * nothing));
  EXPECT_TRUE(weight.gradient().is_none());
  tape.backward(sum(w));  // the refusal left the tape as it was
  EXPECT_EQ(weight.gradient().dense(), full({2, 3}, 1));
}

TEST(Backward, RefusesALossThatDependsOnNothing) {
  Tape tape;
  const Variable loss = tape.constant(scalar(1)) + real{1};
  EXPECT_ERROR(std::logic_error,
               "Tape::backward: the loss depends on nothing that needs a gradient",
               tape.backward(loss));
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

TEST(Tape, RefusesVariablesOfAnotherTape) {
  Tape tape;
  Tape other;
  const Variable here = tape.input(scalar(1));
  const Variable there = other.input(scalar(1));
  EXPECT_ERROR(std::logic_error, "add: a variable belongs to another tape", here + there);
  EXPECT_ERROR(std::logic_error, "concatenate: a variable belongs to another tape",
               concatenate({reshape(here, {1}), reshape(there, {1})}, 0));
  EXPECT_ERROR(std::logic_error, "Tape::backward: a variable belongs to another tape",
               tape.backward(there));
  EXPECT_ERROR(std::logic_error, "Tape::gradient: a variable belongs to another tape",
               tape.gradient(there));
}

TEST(Tape, RefusesVariablesOfADeadTape) {
  Variable dead;
  {
    Tape tape;
    dead = tape.input(scalar(1));
  }
  Tape tape;  // may well have the address of the destroyed one
  const Variable alive = tape.input(scalar(1));
  const std::string message = "Variable: its tape has been destroyed";
  EXPECT_ERROR(std::logic_error, message, dead.value());
  EXPECT_ERROR(std::logic_error, message, dead.item());
  EXPECT_ERROR(std::logic_error, message, dead.needs_gradient());
  EXPECT_ERROR(std::logic_error, message, dead.tape());
  EXPECT_ERROR(std::logic_error, message, alive + dead);
  EXPECT_ERROR(std::logic_error, message, exp(dead));
  EXPECT_ERROR(std::logic_error, message, tape.backward(dead));
}

TEST(Tape, RefusesHandlesThatWereNeverGivenAValue) {
  Tape tape;
  const Variable alive = tape.input(scalar(1));
  const Variable nothing;
  const std::string message = "Variable: this handle was never given a value";
  EXPECT_ERROR(std::logic_error, message, nothing.value());
  EXPECT_ERROR(std::logic_error, message, nothing.tape());
  EXPECT_ERROR(std::logic_error, message, alive * nothing);
  EXPECT_ERROR(std::logic_error, message, tape.backward(nothing));
}

TEST(Tape, GivesGradientsOfInputsOnlyAndOnlyAfterBackward) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  const Variable x = tape.input(scalar(2));
  const Variable w = tape.parameter(weight);
  const Variable fixed = tape.constant(scalar(2));
  const Variable y = x * w;
  EXPECT_ERROR(std::logic_error, "Tape::gradient: backward has not been completed",
               tape.gradient(x));
  tape.backward(y * fixed);
  const std::string message =
      "Tape::gradient: gradients are kept only for variables made by Tape::input, and for those "
      "that Tape::retain_gradient was called for";
  for (const Variable& other : {w, fixed, y})
    EXPECT_ERROR(std::logic_error, message, tape.gradient(other));
  EXPECT_EQ(tape.gradient(x).dense(), scalar(6));
}

TEST(LookUp, RefusesRowsThatATableDoesNotHave) {
  Parameter table("table", zeros({3, 2}));
  for (const bool of_parameter : {false, true}) {
    Tape tape;
    const Variable rows = of_parameter ? tape.parameter(table) : tape.input(zeros({3, 2}));
    const auto message = [&](const Ids& wrong) {
      return error_of<std::invalid_argument>([&] { look_up("op", rows, wrong); });
    };
    EXPECT_EQ(message(ids({1, 2}, {0, -1})), "op: id -1 at [0, 1] is outside the table's 3 rows");
    EXPECT_EQ(message(ids({1}, {3})), "op: id 3 at [0] is outside the table's 3 rows");
    EXPECT_EQ(message(ids({1}, {std::numeric_limits<std::int32_t>::min()})),
              "op: id -2147483648 at [0] is outside the table's 3 rows");
    const Tensor wide = zeros({3});
    EXPECT_INVALID("op: what is added has shape [3], expected the last axes of [1, 2]",
                   look_up("op", rows, ids({1}, {0}), &wide));
    EXPECT_EQ(look_up("op", rows, ids({2}, {2, 0})), zeros({2, 2}));
  }
  Tape tape;
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{3, 2, 1}})
    EXPECT_INVALID(concat("op: the table has shape ", bracketed(shape), ", expected [rows, width]"),
                   look_up("op", tape.input(zeros(shape)), ids({1}, {0})));
}

// The error of going backward over an op with that rule and one input, a table [3, 2].
template <class Error>
std::string error_of_rule(const BackwardRule& rule) {
  Tape tape;
  const Variable table = tape.input(zeros({3, 2}));
  const Variable loss = sum(record("op", {table}, full({2}, 1), rule));
  return error_of<Error>([&] { tape.backward(loss); });
}

TEST(Backward, RefusesInputsThatItsOpDoesNotHave) {
  for (const BackwardRule& rule : std::vector<BackwardRule>{
           [](Backward& node) { node.give(7, zeros({2})); }, [](Backward& node) { node.needs(7); },
           [](Backward& node) { node.input(7); }, [](Backward& node) { node.input_shape(7); }})
    EXPECT_EQ(error_of_rule<std::logic_error>(rule),
              "op: the backward rule named input 7, expected a number below 1");
}

TEST(Backward, RefusesToShowAGradientThatWasTaken) {
  const std::vector<void (*)(Backward&)> takers{[](Backward& node) { node.take_gradient(); },
                                                [](Backward& node) {
                                                  node.gradient();
                                                  node.take_gradient();
                                                }};
  const std::vector<void (*)(Backward&)> users{[](Backward& node) { node.gradient(); },
                                               [](Backward& node) { node.take_gradient(); }};
  for (const auto take : takers)
    for (const auto use : users)
      EXPECT_EQ(error_of_rule<std::logic_error>([&](Backward& node) {
                  take(node);
                  use(node);
                }),
                "op: the backward rule has taken its gradient, and asks for it again");
}

TEST(Record, NeedsAnInputToKnowItsTape) {
  EXPECT_INVALID("orphan: no inputs were given",
                 record("orphan", std::initializer_list<Variable>{}, scalar(1), {}));
}

TEST(Record, NeedsARuleWhereAnInputNeedsAGradient) {
  Tape tape;
  EXPECT_INVALID("op: there is no backward rule",
                 record("op", {tape.input(scalar(1))}, scalar(1), {}));
}

TEST(Record, RefusesRulesThatBreakTheirContractAndKeepsParametersAsTheyWere) {
  struct Case {
    BackwardRule rule;
    std::string message;
  };
  for (const Case& item : std::vector<Case>{
           {[](Backward&) {}, "rule: the backward rule gave no gradient for input 0"},
           {[](Backward& node) { node.give(0, zeros({2})); },
            "rule: the backward rule gave no gradient for input 2"},
           {[](Backward& node) {
              node.give(2, zeros({2}));
              node.give(2, zeros({2}));
            },
            "rule: the backward rule gave input 2 a second gradient"},
           {[](Backward& node) {
              node.give(0, zeros({1, 2}));
            },
            "rule: the backward rule gave input 0 a gradient of shape [1, 2], expected [2]"},
           {[](Backward& node) {
              node.give(0, RowGradient({4, 2}, {}, zeros({0, 2})));
            },
            "rule: the backward rule gave input 0 a gradient of shape [4, 2], expected [2]"},
           {[](Backward&) { throw std::logic_error("a failure of its own"); },
            "a failure of its own"},
       }) {
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
