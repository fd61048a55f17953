#include "tests/test.hpp"

namespace {

TEST(LayerNorm, IsTheOpWithItsParameters) {
  LayerNorm norm(4, {.epsilon = 0.5}), without_bias(4, {.bias = false});
  RmsNorm rms(4, 0.5);
  EXPECT_EQ(norm.weight.value(), full({4}, 1));
  EXPECT_EQ(norm.bias->value(), zeros({4}));
  EXPECT_EQ(norm.state_dict().names(), (std::vector<std::string>{"bias", "weight"}));
  EXPECT_EQ(without_bias.parameters(), std::vector<Parameter*>{&without_bias.weight});
  EXPECT_EQ(rms.weight.value(), full({4}, 1));
  EXPECT_EQ(rms.state_dict().names(), std::vector<std::string>{"weight"});
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
  EXPECT_INVALID(
      "LayerNorm: shape [4611686018427387904] has more numbers than memory could ever hold",
      LayerNorm(std::size_t{1} << 62));
  LayerNorm norm(4);
  Tape tape;
  EXPECT_INVALID("layer_norm: weight has shape [4], expected [3] for x of [2, 3]",
                 norm.forward(tape.constant(zeros({2, 3}))));
}

}  // namespace
