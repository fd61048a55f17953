#include "tests/test.hpp"

namespace {

TEST(LayerNorm, IsTheOpWithItsParameters) {
  LayerNorm norm(4, {.epsilon = 0.5}), without_bias(4, {.bias = false});
  RmsNorm rms(4, 0.5);
  EXPECT_EQ(norm.weight.value(), full({4}, 1));
  EXPECT_EQ(norm.bias->value(), zeros({4}));
  EXPECT_EQ(without_bias.parameters(), std::vector<Parameter*>{&without_bias.weight});
  EXPECT_EQ(rms.weight.value(), full({4}, 1));
  Tape tape;
  const Variable x = tape.constant(irregular({2, 3, 4}, 3));
  const Variable weight = tape.constant(irregular({4}, 1)), bias = tape.constant(irregular({4}, 2));
  EXPECT_EQ(without_bias.forward(x).value(), layer_norm(x).value());
  norm.weight.assign(weight.value());
  norm.bias->assign(bias.value());
  rms.weight.assign(weight.value());
  EXPECT_EQ(norm.forward(x).value(), layer_norm(x, weight, bias, 0.5).value());
  EXPECT_EQ(rms.forward(x).value(), rms_norm(x, weight, 0.5).value());
}

TEST(LayerNorm, RefusesWidthsAndEpsilonsByName) {
  EXPECT_INVALID("LayerNorm: width is 0", LayerNorm(0));
  EXPECT_INVALID("RmsNorm: width is 0", RmsNorm(0));
  EXPECT_INVALID("LayerNorm: epsilon is -1, expected a finite number not below 0",
                 LayerNorm(4, {.epsilon = -1}));
  EXPECT_INVALID("RmsNorm: epsilon is inf, expected a finite number not below 0",
                 RmsNorm(4, HUGE_VAL));
}

}  // namespace
