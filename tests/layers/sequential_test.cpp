#include "tests/test.hpp"

namespace {

TEST(Dropout, ActsOnlyInTrainingMode) {
  Dropout dropout(0.5);
  Random random(1);
  Tape tape(random);
  const Variable x = tape.constant(full({1000}, 1));
  const Tensor dropped = dropout.forward(x).value();
  for (const real value : dropped) EXPECT_TRUE(value == 0 || value == 2);
  EXPECT_NE(dropout.forward(x).value(), dropped);  // each call draws a new mask
  dropout.eval();
  EXPECT_EQ(dropout.forward(x).value(), x.value());
  EXPECT_INVALID("Dropout: p is 1.5, expected 0 to 1", Dropout(1.5));
  EXPECT_THROW(Dropout(-0.1), std::invalid_argument);
}

TEST(Mlp, AlternatesLinearLayersAndActivations) {
  Random random(1);
  Mlp plain({3, 5, 2}, random);
  const auto layers = plain.named_layers<Linear>();
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(plain.size(), 3U);
  EXPECT_EQ(layers[1].second->weight.name(), "2.weight");
  Mlp activated({3, 5, 2}, random, {.activate_last = true});
  activated.load_state_dict(plain.state_dict());
  Tape tape;
  const Variable x = tape.constant(irregular({20, 3}));
  const Variable y = layers[1].second->forward(relu(layers[0].second->forward(x)));
  EXPECT_EQ(Sequential().forward(x).value(), x.value());
  EXPECT_EQ(plain.forward(x).value(), y.value());
  EXPECT_EQ(activated.forward(x).value(), relu(y).value());
  EXPECT_INVALID("Mlp: widths is [3], expected at least two widths: inputs and outputs",
                 Mlp({3}, random));
  EXPECT_THROW(ConcatPrevious(0), std::invalid_argument);
}

}  // namespace
