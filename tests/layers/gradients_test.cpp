// The gradients of layers of several ops, against difference quotients.

#include "tests/test.hpp"

#if defined(ROWGRAD_DOUBLE)
namespace {

void expect_gradients_of(const char* name, auto& layer, const auto& output) {
  const GradientCheckResult result = gradient_check(output, layer.parameters());
  EXPECT_TRUE(result.passed) << name << ": " << result.message();
  EXPECT_EQ(result.entries, layer.parameter_count()) << name;
}

TEST(Layers, HaveTheGradientsOfDifferenceQuotients) {
  Random random(4);
  const Tensor x = irregular({2, 3, 5}, 1, -2, 3);
  const Ids inputs = ids({2, 3}, {0, 1, 1, 4, 2, 0}), targets = ids({2, 3}, {1, 1, 3, 2, 0, 0});
  const auto expect = [&](const char* name, auto&& layer) {
    expect_gradients_of(name, layer, [&](Tape& tape) { return layer.forward(tape.constant(x)); });
  };
  expect("LayerNorm", LayerNorm(5));
  expect("LayerNorm without a bias", LayerNorm(5, {.bias = false}));
  expect("RmsNorm", RmsNorm(5));
  expect("Mlp", Mlp({5, 4, 2}, random, {.activation = gelu}));
  Embedding embedding(6, 3, random, {.scale_by_sqrt_width = true});
  expect_gradients_of("Embedding", embedding, [&](Tape& tape) {
    return embedding.forward(tape, ids({2, 3}, {1, 3, 3, 5, 1, 0}));
  });
  for (const bool tied : {false, true}) {
    NextTokenModel model({.vocabulary = 5,
                          .context = 3,
                          .width = 4,
                          .look_back = 2,
                          .hidden = {tied ? 4U : 6U},
                          .tie_weights = tied},
                         Random(3));
    expect_gradients_of("NextTokenModel", model, [&](Tape& tape) {
      return cross_entropy(model.forward(tape, inputs), targets);
    });
  }
}

}  // namespace
#endif
