#include "tests/test.hpp"

namespace {

TEST(Norms, UseEpsilonAndOptionalBias) {
  LayerNorm norm(4, {.epsilon = 0.5, .bias = false});
  RmsNorm rms(4, 0.5);
  Tape tape;
  const Variable x = tape.constant(irregular({2, 3, 4}, 3));
  EXPECT_EQ(norm.parameters(), std::vector<Parameter*>{&norm.weight});
  EXPECT_EQ(norm.forward(x).value(), layer_norm(x, {}, {}, 0.5).value());
  EXPECT_EQ(rms.forward(x).value(), rms_norm(x, {}, 0.5).value());
  EXPECT_INVALID("LayerNorm: width is 0, expected at least 1", LayerNorm(0));
  EXPECT_INVALID("RmsNorm: width is 0, expected at least 1", RmsNorm(0));
  EXPECT_INVALID("LayerNorm: epsilon is -1, expected a finite number >= 0",
                 LayerNorm(4, {.epsilon = -1}));
  EXPECT_INVALID("RmsNorm: epsilon is inf, expected a finite number >= 0", RmsNorm(4, HUGE_VAL));
}

TEST(Linear, BorrowsWeightAndDrawsOnlyTheBias) {
  Random random(7), same(7);
  Parameter weight("token.weight", tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
  Linear head(weight, random);
  EXPECT_EQ(&head.weight, &weight);
  EXPECT_EQ(weight.name(), "token.weight");
  const double bound = 1 / std::sqrt(2.0);
  EXPECT_EQ(head.bias->value(), same.uniform({3}, -bound, bound));
  head.bias->assign(tensor({3}, {10, 20, 30}));
  Tape tape;
  const Variable y = head.forward(tape.constant(tensor({1, 2}, {1, -1})));
  EXPECT_EQ(y.value(), tensor({1, 3}, {9, 19, 29}));
  tape.backward(sum(y));
  EXPECT_EQ(weight.gradient().dense(), tensor({3, 2}, {1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(Linear(weight, random, {.bias = false}).parameters(), std::vector<Parameter*>{&weight});
  EXPECT_EQ(random.bits(), same.bits());
}

TEST(Linear, AddsAndMergesAdapter) {
  Random random(3), same(3);
  Linear layer(Tensor{{1, 2}, {3, 4}, {5, 6}}, Tensor{1, 0, -1});
  layer.add_lora(random, {.rank = 1, .alpha = 2});
  EXPECT_EQ(layer.lora_a->value(), same.uniform({1, 2}, -1 / std::sqrt(2.0), 1 / std::sqrt(2.0)));
  EXPECT_EQ(layer.lora_b->value(), zeros({3, 1}));
  EXPECT_FALSE(layer.weight.trainable() || layer.bias->trainable());
  EXPECT_EQ(layer.state_dict().names(),
            (std::vector<std::string>{"bias", "lora_a", "lora_b", "lora_scale", "weight"}));
  EXPECT_ERROR(std::logic_error, "Linear::add_lora: weight already has an adapter",
               layer.add_lora(random));
  layer.lora_a->assign(Tensor{{1, -1}});
  layer.lora_b->assign(tensor({3, 1}, {1, 0, -1}));
  Tape tape;
  const Variable x = tape.constant(Tensor{{1, 10}});
  EXPECT_EQ(layer.forward(x).value(), (Tensor{{22 - 18, 43, 64 + 18}}));
  layer.merge_lora();
  EXPECT_FALSE(layer.has_lora());
  EXPECT_EQ(layer.weight.value(), (Tensor{{3, 0}, {3, 4}, {3, 8}}));
  EXPECT_EQ(layer.state_dict().names(), (std::vector<std::string>{"bias", "weight"}));
}

TEST(Linear, RejectsInvalidArguments) {
  Random random(3);
  EXPECT_INVALID("Linear: inputs is 0 and outputs is 2, expected both above 0",
                 Linear(0, 2, random));
  EXPECT_THROW(Linear(2, 0, random), std::invalid_argument);
  EXPECT_INVALID("Linear: the bias has shape [2], expected [3]", Linear(zeros({3, 2}), zeros({2})));
  EXPECT_INVALID("Linear: weight has shape [3], expected [outputs, inputs], both above 0",
                 Linear(zeros({3})));
  for (const Shape& shape : {Shape{4}, Shape{0, 4}, Shape{4, 0}, Shape{1, 2, 3}}) {
    Parameter weight("token.weight", zeros(shape));
    EXPECT_INVALID(concat("Linear: token.weight has shape ", bracketed(shape),
                          ", expected [outputs, inputs], both above 0"),
                   Linear(weight, random));
  }
  Linear layer(zeros({3, 2}));
  EXPECT_INVALID("Linear::add_lora: rank is 0, expected at least 1",
                 layer.add_lora(random, {.rank = 0}));
  EXPECT_INVALID("Linear::add_lora: alpha is inf, expected a finite number",
                 layer.add_lora(random, {.alpha = std::numeric_limits<double>::infinity()}));
  Parameter weight("token.weight", zeros({3, 2}));
  Linear borrower(weight, random);
  EXPECT_ERROR(std::logic_error,
               "Linear::add_lora: token.weight is borrowed from another layer, expected a weight "
               "that this layer owns",
               borrower.add_lora(random));
  EXPECT_TRUE(weight.trainable());
}

TEST(Lora, RejectsMismatchedModelsUnchanged) {
  Random random(3);
  Mlp model({2, 3, 4}, random);
  EXPECT_INVALID(R"(add_lora: no linear layer matches "1"; the first names are ["0", "2"])",
                 add_lora(model, "0,1", {}, random));
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1} << 60})
    EXPECT_THROW(add_lora(model, "*", {.rank = rank}, random), std::invalid_argument);
  EXPECT_EQ(model.trainable_parameter_count(), model.parameter_count());
  EXPECT_THROW(lora_state(model), std::invalid_argument);
  EXPECT_EQ(add_lora(model, "2", {.rank = 1}, random), 1U);
  const StateDict state = lora_state(model);

  Mlp other({2, 3, 5}, random);
  EXPECT_INVALID(R"(StateDict: "2.lora_b" has shape [4, 1], expected [5, 1])",
                 load_lora(other, state));
  Mlp shorter({2, 3}, random);
  EXPECT_INVALID(
      "load_lora: got adapters for 0 linear layers of the model and 3 adapter tensors for other "
      "layers, expected adapters for layers of the model only",
      load_lora(shorter, state));
  EXPECT_ERROR(std::logic_error, "load_lora: 2.weight already has an adapter",
               load_lora(model, state));
  Mlp partly({2, 3, 4}, random);  // has an adapter in another layer
  add_lora(partly, "0", {.rank = 1}, random);
  EXPECT_ERROR(std::logic_error, "load_lora: 0.weight already has an adapter",
               load_lora(partly, state));
  EXPECT_EQ(partly.named_layers<Linear>()[1].second->has_lora(), false);
  for (Layer* layer : {static_cast<Layer*>(&other), static_cast<Layer*>(&shorter)})
    EXPECT_EQ(layer->trainable_parameter_count(), layer->parameter_count());
}

}  // namespace
