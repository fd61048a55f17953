// What "Build a Large Language Model From Scratch" prints in chapters 3 and 4, where PyTorch's
// generator starts from seed 123.

#include <deque>

#include "tests/test.hpp"

namespace {

// Half of the last of four printed decimals, and a rounding or two.
constexpr double kFourDecimals = 0.5e-4 + 1e-6;

TEST(Textbook, PrintsTheContextVectorsOfMultiHeadAttention) {
  Random random(123);
  const LinearOptions no_bias{.bias = false};
  Linear query(3, 2, random, no_bias);
  Linear key(3, 2, random, no_bias);
  Linear value(3, 2, random, no_bias);
  Linear out(2, 2, random);
  const Tensor inputs = tensor({6, 3}, {.43, .15, .89, .55, .87, .66, .57, .85, .64,  //
                                        .22, .58, .33, .77, .25, .10, .05, .80, .55});
  const Tensor expected = tensor({6, 2}, {.3190, .4858, .2943, .3897, .2856, .3593,  //
                                          .2693, .3873, .2639, .3928, .2575, .4028});
  Tape tape(Tape::inference);
  const auto twice = [&](const Tensor& one) {
    const Variable batch = tape.constant(one);
    return stack({batch, batch}).value();
  };
  const Variable x = tape.constant(twice(inputs));
  const Tensor y = out.forward(causal_attention(query.forward(x), key.forward(x), value.forward(x),
                                                {.heads = 2}))
                       .value();
  expect_near(y, twice(expected), kFourDecimals);
}

TEST(Textbook, PrintsALayersOutputsWithTheirMeansAndVariances) {
  Random random(123);
  Tape tape(Tape::inference);
  const Variable x = tape.constant(random.normal({2, 5}));
  Linear linear(5, 6, random);
  const Variable y = relu(linear.forward(x));
  expect_near(y.value(),
              tensor({2, 6}, {.2260, .3470, 0, .2216, 0, 0, .2133, .2394, 0, .5198, .3297, 0}),
              kFourDecimals);
  expect_near(mean(y, {-1}).value(), tensor({2}, {.1324, .2170}), kFourDecimals);
  for (const auto& [row, variance] : {std::pair{0, .0231}, {1, .0398}}) {
    double squares = 0;
    for (std::size_t i = 0; i < 6; ++i)
      squares += std::pow(y.value()(row, i) - mean(y, {-1}).value()(row), 2);
    EXPECT_NEAR(squares / 5, variance, kFourDecimals);
  }
}

TEST(Textbook, PrintsHowShortcutsKeepGradientsFromVanishing) {
  const auto mean_gradients = [](bool shortcuts) {
    Random random(123);
    std::deque<Linear> layers;
    for (const std::size_t outputs : {3, 3, 3, 3, 1}) layers.emplace_back(3, outputs, random);
    Tape tape;
    Variable x = tape.constant(tensor({1, 3}, {1, 0, -1}));
    for (Linear& layer : layers) {
      const Variable y = gelu_tanh(layer.forward(x));
      x = shortcuts && y.shape() == x.shape() ? x + y : y;
    }
    tape.backward(mean(x * x));
    std::vector<double> means;
    for (const Linear& layer : layers) {
      double sum = 0;
      for (const real number : layer.weight.gradient().dense()) sum += std::abs(number);
      means.push_back(sum / static_cast<double>(layer.weight.size()));
    }
    return means;
  };
  const auto expect = [&](bool shortcuts, const std::vector<double>& expected) {
    const std::vector<double> got = mean_gradients(shortcuts);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], 1e-6 * expected[i]) << i;
  };
  expect(false, {2.0173588e-4, 1.2011159e-4, 7.1520399e-4, 1.39887363e-3, 5.04964544e-3});
  expect(true, {.22169793, .20694107, .32896995, .26657322, 1.32585406});
}

#ifndef ROWGRAD_DOUBLE
TEST(Textbook, PrintsTheSizeLogitsAndWordsOfAnUntrainedGpt) {
  Random random(123);
  GptModel model({.dropout = 0.1}, random);
  EXPECT_EQ(model.parameter_count(), 163'009'536U);
  EXPECT_EQ(model.parameter_count() - model.head.weight.size(), 124'412'160U);
  EXPECT_EQ(model.parameter_count() - (1024 - 256) * 768, 162'419'712U);  // with context 256
  EXPECT_NEAR(static_cast<double>(model.parameter_count() * sizeof(real)) / (1 << 20), 621.83,
              0.005);

  // Three of the first and three of the last logits of each of the 2 × 4 positions, with dropout.
  const Tensor expected = tensor({8, 6}, {.3613,   .4222,  -.0711, .3483,  .4661,  -.2838,  //
                                          -.1792,  -.5660, -.9485, .0477,  .5181,  -.3168,  //
                                          .7120,   .0332,  .1085,  .1018,  -.4327, -.2553,  //
                                          -1.0076, .3418,  -.1190, .7195,  .4023,  .0532,   //
                                          -.2564,  .0900,  .0335,  .2659,  .4454,  -.6806,  //
                                          .1230,   .3653,  -.2074, .7705,  .2710,  .2246,   //
                                          1.0558,  1.0318, -.2800, .6936,  .3205,  -.3178,  //
                                          -.1565,  .3926,  .3288,  1.2630, -.1858, .0388});
  {
    Tape tape(random, Tape::inference);
    const Tensor logits =
        model.forward(tape, ids({2, 4}, {6109, 3626, 6100, 345, 6109, 1110, 6622, 257})).value();
    Tensor shown = empty({8, 6});
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t i = 0; i < 3; ++i) {
        shown(row, i) = logits.data()[row * 50257 + i];
        shown(row, 3 + i) = logits.data()[(row + 1) * 50257 - 3 + i];
      }
    expect_near(shown, expected, kFourDecimals);
  }

  const Ids words =
      generate(model, ids({4}, {15496, 11, 314, 716}), {.count = 10, .temperature = 0}, random);
  EXPECT_EQ(std::vector<std::int32_t>(words.begin(), words.end()),
            (std::vector<std::int32_t>{27018, 24086, 47843, 30961, 42348, 7267, 49706, 43231, 47062,
                                       34657}));
}
#endif

}  // namespace
