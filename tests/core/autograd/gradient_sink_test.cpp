// Gradients that backward hands over while it runs.

#include "tests/test.hpp"

namespace {

// The same value, whose backward rule notes that it runs.
Variable noted(const Variable& x, std::vector<std::string>& events, const char* name) {
  return record("noted", {x}, x.value(), [&events, name](Backward& node) {
    events.emplace_back(name);
    node.give(0, node.take_gradient());
  });
}

TEST(GradientSink, GetsEachGradientBeforeEarlierNodesGoBackward) {
  Parameter first("first", scalar(2));
  Parameter second("second", scalar(3));
  Parameter unused("unused", scalar(5));
  std::vector<std::string> events;
  Tape tape;
  const Variable x = noted(tape.parameter(first) * real{4}, events, "rule of the first");
  tape.parameter(unused);
  const Variable y = noted(x * tape.parameter(second), events, "rule of the second");
  tape.backward(y, scalar(1),
                {.keep_values = false, .sink = [&](Parameter& parameter, Gradient gradient) {
                   events.push_back(parameter.name());
                   EXPECT_EQ(gradient.dense(), scalar(&parameter == &first ? 12 : 8));
                 }});
  EXPECT_EQ(events, (std::vector<std::string>{"rule of the second", "second", "rule of the first",
                                              "first"}));
  EXPECT_TRUE(first.gradient().is_none());  // nobody but the sink has it
}

TEST(GradientSink, GetsTheSumOverAllUsesWhenTheFirstIsReached) {
  // A table that is looked up, and is the weight of the head, twice: the sum has the bits that it
  // has without a sink.
  Parameter table("table", irregular({5, 5}, 1));
  Parameter between("between", irregular({5, 5}, 2));
  const auto loss = [&](Tape& tape) {
    const Variable hidden = embedding(tape.parameter(table), ids({3}, {1, 4, 1}));
    const Variable inner = linear(hidden, tape.parameter(between));
    return sum(linear(linear(inner, tape.parameter(table)), tape.parameter(table)));
  };
  Tape plain;
  plain.backward(loss(plain));

  Tape tape;
  const Variable y = loss(tape);
  std::vector<const Parameter*> order;
  tape.backward(y, scalar(1),
                {.keep_values = false, .sink = [&](Parameter& parameter, Gradient gradient) {
                   order.push_back(&parameter);
                   EXPECT_EQ(gradient.dense(), parameter.gradient().dense()) << parameter.name();
                 }});
  EXPECT_EQ(order, (std::vector<const Parameter*>{&between, &table}));
}

TEST(GradientSink, MayThrow) {
  Parameter weight("weight", scalar(2));
  Tape tape;
  const Variable y = tape.parameter(weight) * real{3};
  EXPECT_THROW(
      tape.backward(y, scalar(1),
                    {.sink = [](Parameter&, Gradient) { throw std::runtime_error("no room"); }}),
      std::runtime_error);
  EXPECT_TRUE(weight.gradient().is_none());
}

}  // namespace
