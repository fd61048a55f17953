#include "tests/test.hpp"

namespace {

TEST(Linear, IsTheOpWithItsParameters) {
  Random random(1);
  Linear layer(3, 2, random);
  Tape tape;
  const Variable x = tape.constant(irregular({4, 3}));
  EXPECT_EQ(layer.forward(x).value(),
            linear(x, tape.parameter(layer.weight), tape.parameter(*layer.bias)).value());
  Linear bare(3, 2, random, {.bias = false});
  EXPECT_EQ(bare.parameters().size(), 1U);
  EXPECT_EQ(bare.forward(x).value(), linear(x, tape.parameter(bare.weight)).value());
  EXPECT_FALSE(bare.bias);
}

TEST(Linear, StartsWithinItsBound) {
  Random random(1);
  Linear layer(16, 50, random);
  for (const Parameter* parameter : layer.parameters())
    for (const real value : parameter->value()) EXPECT_LE(std::abs(value), 0.25F);
}

TEST(Linear, RefusesSizesOfNothingAndForeignInputs) {
  Random random(1);
  EXPECT_INVALID("Linear: inputs 0 and outputs 2 must be above 0", Linear(0, 2, random));
  EXPECT_THROW(Linear(2, 0, random), std::invalid_argument);
  Linear layer(3, 2, random);
  Tape tape;
  EXPECT_INVALID("linear: x has shape [4, 5], expected [..., 3] for a weight of [2, 3]",
                 layer.forward(tape.constant(zeros({4, 5}))));
}

TEST(Dropout, ActsInTrainingModeOnly) {
  Dropout dropout(0.5);
  Random random(1);
  Tape tape(random);
  const Variable x = tape.constant(full({1000}, 1));
  const Tensor dropped = dropout.forward(x).value();
  for (const real value : dropped) EXPECT_TRUE(value == 0 || value == 2);
  EXPECT_NE(std::count(dropped.begin(), dropped.end(), 0), 0);
  EXPECT_NE(dropout.forward(x).value(), dropped);  // no layer draws the mask of another
  Tape without;
  EXPECT_ERROR(std::logic_error,
               "dropout: the tape has no random numbers: make it as Tape tape(random)",
               dropout.forward(without.constant(scalar(1))));
  dropout.eval();
  EXPECT_EQ(dropout.forward(x).value(), x.value());
  EXPECT_INVALID("Dropout: p is 1.5, expected 0 to 1", Dropout(1.5));
  EXPECT_THROW(Dropout(-0.1), std::invalid_argument);
}

TEST(Sequential, RunsItsStepsInOrder) {
  Random random(1);
  Sequential steps;
  Tape tape;
  const Variable x = tape.constant(irregular({2, 3}));
  EXPECT_EQ(steps.forward(x).value(), x.value());
  Linear& first = steps.add<Linear>(3, 4, random);
  steps.add(relu);
  Linear& last = steps.add<Linear>(4, 2, random);
  EXPECT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps.forward(x).value(), last.forward(relu(first.forward(x))).value());
  EXPECT_EQ(last.weight.name(), "2.weight");
}

TEST(Mlp, AlternatesLinearLayersAndActivations) {
  Random random(1);
  Mlp plain({3, 5, 2}, random);
  ASSERT_EQ(plain.parameters().size(), 4U);
  EXPECT_EQ(plain.parameters()[2]->name(), "2.weight");
  EXPECT_EQ(plain.parameters()[2]->shape(), (Shape{2, 5}));
  Mlp activated({3, 5}, random, {.activate_last = true});
  Tape tape;
  for (const real value : activated.forward(tape.constant(irregular({20, 3}))).value())
    EXPECT_GE(value, 0);
  EXPECT_INVALID("Mlp: widths [3] are too few, expected at least inputs and outputs",
                 Mlp({3}, random));
  EXPECT_THROW(Mlp({3, 0, 2}, random), std::invalid_argument);
}

TEST(LookBack, PutsEachPositionBesideItsPredecessors) {
  LookBack look_back(3);
  Tape tape;
  const Variable x = tape.constant(tensor({1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(look_back.forward(x).value(), tensor({1, 4, 6}, {0, 0, 0, 0, 1, 2,  //
                                                             0, 0, 1, 2, 3, 4,  //
                                                             1, 2, 3, 4, 5, 6,  //
                                                             3, 4, 5, 6, 7, 8}));
  const Variable brief = tape.constant(tensor({1, 2}, {1, 2}));
  EXPECT_EQ(look_back.forward(brief).value(), tensor({1, 6}, {0, 0, 0, 0, 1, 2}));
  EXPECT_EQ(LookBack(1).forward(x).value(), x.value());
  EXPECT_THROW(LookBack(0), std::invalid_argument);
  EXPECT_THROW(look_back.forward(tape.constant(zeros({2}))), std::invalid_argument);
}

}  // namespace
