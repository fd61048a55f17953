#include "tests/test.hpp"

namespace {

std::string message(const auto& action) { return error_of<std::invalid_argument>(action); }

TEST(LayerNorm, StartsWithAWeightOfOnesAndABiasOfZeros) {
  const LayerNorm norm(3);
  EXPECT_EQ(norm.weight.value(), full({3}, 1));
  ASSERT_TRUE(norm.bias.has_value());
  EXPECT_EQ(norm.bias->value(), zeros({3}));
  ASSERT_EQ(norm.parameters().size(), 2U);
  EXPECT_EQ(norm.parameters()[0]->name(), "weight");
  EXPECT_EQ(norm.parameters()[1]->name(), "bias");
}

TEST(LayerNorm, GoesWithoutABias) {
  LayerNorm norm(3, {.bias = false});
  EXPECT_EQ(norm.parameters(), std::vector<Parameter*>{&norm.weight});
  Tape tape;
  const Variable x = tape.constant(irregular({2, 3}));
  EXPECT_EQ(norm.forward(x).value(), layer_norm(x).value());
}

TEST(LayerNorm, PassesItsParametersAndEpsilonOn) {
  LayerNorm norm(4, {.epsilon = 0.5});
  norm.weight.assign(irregular({4}, 1));
  norm.bias->assign(irregular({4}, 2));
  Tape tape;
  const Variable x = tape.constant(irregular({2, 3, 4}, 3));
  const Variable weight = tape.constant(irregular({4}, 1));
  EXPECT_EQ(norm.forward(x).value(),
            layer_norm(x, weight, tape.constant(irregular({4}, 2)), 0.5).value());
  RmsNorm rms(4, 0.5);
  rms.weight.assign(irregular({4}, 1));
  EXPECT_EQ(rms.forward(x).value(), rms_norm(x, weight, 0.5).value());
}

TEST(RmsNorm, HasAWeightOfOnes) {
  const RmsNorm norm(3);
  ASSERT_EQ(norm.parameters().size(), 1U);
  EXPECT_EQ(norm.parameters()[0]->name(), "weight");
  EXPECT_EQ(norm.weight.value(), full({3}, 1));
}

#ifdef ROWGRAD_DOUBLE
TEST(LayerNorm, HasTheGradientsOfDifferenceQuotients) {
  const Tensor x = irregular({2, 3, 5}, 1, -2, 3);
  LayerNorm layer(5);
  LayerNorm without_bias(5, {.bias = false});
  RmsNorm rms(5);
  const auto check = [&](auto& norm) {
    const auto result = gradient_check([&](Tape& tape) { return norm.forward(tape.constant(x)); },
                                       norm.parameters());
    EXPECT_TRUE(result.passed) << result.message();
  };
  check(layer);
  check(without_bias);
  check(rms);
}
#endif

TEST(LayerNorm, RefusesWidthsAndEpsilonsByName) {
  EXPECT_EQ(message([] { LayerNorm(0); }), "LayerNorm: width is 0");
  EXPECT_EQ(message([] { RmsNorm(0); }), "RmsNorm: width is 0");
  EXPECT_EQ(message([] { LayerNorm(4, {.epsilon = -1}); }),
            "LayerNorm: epsilon is -1, expected a finite number not below 0");
  EXPECT_EQ(message([] { RmsNorm(4, std::numeric_limits<double>::infinity()); }),
            "RmsNorm: epsilon is inf, expected a finite number not below 0");
  EXPECT_EQ(message([] { LayerNorm(std::size_t{1} << 62); }),
            "LayerNorm: shape [4611686018427387904] has more numbers than memory could ever hold");
  LayerNorm norm(4);
  Tape tape;
  EXPECT_EQ(message([&] {
              norm.forward(tape.constant(zeros({2, 3})));
            }),
            "layer_norm: weight has shape [4], expected [3] for x of [2, 3]");
}

}  // namespace
