// Runs each rowgrad expression of the table "From PyTorch" in layers/README.md, and checks values
// or shapes of the results. tests/readme.sh checks that no expression is missing here.

#include "tests/test.hpp"

namespace {

TEST(PyTorchNames, TensorsAndTapes) {
  const Tensor pair = Tensor{1, 2};
  EXPECT_EQ(pair, tensor({2}, {1, 2}));
  EXPECT_EQ(zeros({2, 3}).size() + full({2, 3}, 7).size(), 12U);
  Random random(123);
  EXPECT_EQ(random.normal({2, 3}).shape(), Shape({2, 3}));

  Parameter weight("weight", Tensor{3, 4});
  Tape tape;
  const Variable w = tape.parameter(weight);
  const Variable x = tape.input(pair);
  const Variable c = tape.constant(pair);
  const Variable loss = sum(w * x + c);
  tape.backward(loss);
  EXPECT_EQ(loss.item(), 14);
  EXPECT_EQ(tape.gradient(x).dense(), weight.value());
  EXPECT_EQ(weight.gradient().dense(), pair);
  EXPECT_EQ(x.shape(), x.value().shape());

  Tape inference(Tape::kInference);
  EXPECT_FALSE(inference.input(pair).needs_gradient());
  const auto square = [](Inputs in) { return in[0] * in[0]; };
  EXPECT_TRUE(gradient_check(square, {pair}).passed);
}

TEST(PyTorchNames, Shapes) {
  Tape tape;
  const Variable x = tape.input(counting({2, 3}));
  const Variable y = tape.input(counting({2, 3}));
  EXPECT_EQ(concatenate({x, y}, 0).shape(), Shape({4, 3}));
  EXPECT_EQ(stack({x, y}).shape(), Shape({2, 2, 3}));
  EXPECT_EQ(reshape(x, {3, 2}).value(), counting({3, 2}));
  EXPECT_EQ(permute(x, {1, 0}).value(), transpose(x).value());
  EXPECT_EQ(unsqueeze(x, 0).shape(), Shape({1, 2, 3}));
  EXPECT_EQ(slice(x, 1, 1).value(), tensor({2, 2}, {2, 3, 5, 6}));
  EXPECT_EQ(squeeze(slice(x, 0, 0, 1), 0).value(), counting({3}));
  EXPECT_EQ(split(x, 2, 1).size(), 2U);
  EXPECT_EQ(embedding(x, Ids{1, 1, 0}).shape(), Shape({3, 3}));
  EXPECT_EQ(expand(x, {4, 2, 3}).shape(), Shape({4, 2, 3}));
  EXPECT_EQ(flip(roll(x, 1, 1), {0, 1}).value(), tensor({2, 3}, {5, 4, 6, 2, 1, 3}));
  EXPECT_EQ(pad(x, {0, 1}).value(), tensor({2, 4}, {1, 2, 3, 0, 4, 5, 6, 0}));
}

TEST(PyTorchNames, Selections) {
  Tape tape;
  const Variable x = tape.input(counting({2, 3}));
  EXPECT_EQ(index_select(x, 0, Ids{-1}).value(), tensor({1, 3}, {4, 5, 6}));
  {
    const Variable mask = eq(x, 6);
    EXPECT_EQ(masked_select(x, mask).value(), tensor({1}, {6}));
  }
  const Variable mask = gt(max(x, 1), 3);
  EXPECT_EQ(index_select(x, 0, nonzero(mask)).value(), tensor({1, 3}, {4, 5, 6}));
  EXPECT_EQ(index_select(x, 1, Ids{2, 0}).value(), tensor({2, 2}, {3, 1, 6, 4}));
  const Sorted sorted = sort(x, 1, SortOrder::kDescending);
  EXPECT_EQ(slice(sorted.values, 1, 0, 2).value(), topk(x, 2).values.value());
  EXPECT_EQ(sorted.indices, argsort(x, 1, SortOrder::kDescending));
}

TEST(PyTorchNames, Reductions) {
  Tape tape;
  const Variable x = tape.input(counting({2, 3}));
  EXPECT_EQ(sum(x, {1}, KeepAxes::kYes).value(), tensor({2, 1}, {6, 15}));
  EXPECT_EQ(mean(x, {0, 1}).item(), real{3.5});
  EXPECT_NEAR(var(x, {1}, {.correction = 0}).value()(0), 2.0 / 3, kEpsilon);
  EXPECT_EQ(stddev(x, {1}).value(), full({2}, 1));
  EXPECT_NEAR(norm(x, {0}).value()(0), std::sqrt(17.0), 4 * kEpsilon);
  EXPECT_EQ(cumsum(x, 1).value()(1, 2), 15);
  EXPECT_EQ(max(x, 1).value() - min(x, 1).value(), full({2}, 2));
  EXPECT_EQ(amax(x, {0, 1}).value(), max(x).value());
  EXPECT_EQ(amin(x, {1}).value(), tensor({2}, {1, 4}));
  EXPECT_EQ(argmax(x, 1, KeepAxes::kYes).shape(), Shape({2, 1}));
  EXPECT_NEAR(vector_norm(x, 3, {0}).value()(0), std::cbrt(65.0), 10 * kEpsilon);
  EXPECT_GT(logsumexp(x, 1).value()(0), 3);
}

TEST(PyTorchNames, Functions) {
  Tape tape;
  const Variable x = tape.input(irregular({2, 3}));
  const Variable w = tape.input(irregular({4, 3}));
  EXPECT_EQ(matmul(x, transpose(w)).value(), linear(x, w).value());
  EXPECT_NEAR(pow(x, 2).value()(0), std::pow(x.value()(0), 2), kEpsilon);
  const Variable y = exp(x);
  EXPECT_NEAR(pow(y, x).value()(0), std::exp(std::pow(x.value()(0), 2)), 8 * kEpsilon);
  EXPECT_EQ((gt(x, 0) + le(x, 0) + eq(x, y)).value(), full({2, 3}, 1));
  for (const Variable& z :
       {gelu_tanh(x), silu(x), softplus(x), log_sigmoid(x), softmax(x), log_softmax(x, 0)})
    EXPECT_EQ(z.shape(), x.shape());
}

TEST(PyTorchNames, Attention) {
  Tape tape;
  const Variable q = tape.input(irregular({2, 5, 6}));
  const Variable all = attention(q, q, q, {.heads = 2});
  const Variable past = causal_attention(q, q, q, {.heads = 2});
  const Variable padded = attention(q, q, q, {.heads = 2, .key_lengths = {5, 3}});
  EXPECT_EQ(slice(all, 1, -1).value(), slice(past, 1, -1).value());
  EXPECT_EQ(slice(all, 0, 0, 1).value(), slice(padded, 0, 0, 1).value());
  const Tensor mask{1, 1, 1, 0, 0};
  const Variable bias = tape.constant(Tensor{0, 0, 0, -kInfinity, -kInfinity});
  const Variable masked = attention(q, q, q, {.heads = 2, .mask = mask});
  EXPECT_EQ(masked.value(), attention(q, q, q, {.heads = 2, .bias = bias}).value());
  expect_near(slice(masked, 0, 1).value(), slice(padded, 0, 1).value(), 8 * kEpsilon);
  const Variable k = slice(q, 2, 0, 3);
  EXPECT_EQ(attention(q, k, k, {.heads = 2, .key_value_heads = 1}).shape(), q.shape());
}

TEST(PyTorchNames, Losses) {
  Tape tape;
  const Variable x = tape.input(irregular({2, 3}));
  const Variable y = tape.constant(full({2, 3}, 1));
  const Variable log_p = log_softmax(x);
  const Ids targets{2, 0};
  const Tensor& p = log_p.value();
  const double first = -p(0, 2), second = -p(1, 0);  // losses of the targets
  const double all = -std::accumulate(p.begin(), p.end(), 0.0);
  const double bound = 16 * kEpsilon;
  EXPECT_GT(std::abs(first - second), 0.01);
  EXPECT_NEAR(cross_entropy(x, targets, {.ignore_index = 0}).item(), first, bound);
  const Tensor w{1, 2, 3};
  EXPECT_NEAR(cross_entropy(x, targets, {.class_weights = w}).item(), (3 * first + second) / 4,
              bound);
  EXPECT_NEAR(cross_entropy(x, targets, {.label_smoothing = 0.1}).item(),
              0.9 * (first + second) / 2 + 0.1 * all / 6, bound);
  EXPECT_NEAR(cross_entropy(x, y).item(), all / 2, bound);
  EXPECT_EQ(cross_entropy(x, targets, {.reduction = LossReduction::kNone}).shape(), Shape({2}));
  EXPECT_NEAR(nll_loss(log_p, targets).item(), (first + second) / 2, bound);
  EXPECT_NEAR(kl_div(log_p, y, {.batch_mean = true}).item(), all / 2, bound);
  double squares = 0, binary = 0, smooth = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double element = x.value().data()[i];
    const double distance = std::abs(element - 1);
    squares += distance * distance;
    smooth += (distance < 0.5 ? distance * distance : distance - 0.25) / 6;
    binary += static_cast<double>(i % 3 + 1) * std::log1p(std::exp(-element)) / 6;
  }
  EXPECT_NEAR(mse_loss(x, y, LossReduction::kSum).item(), squares, bound);
  EXPECT_NEAR(binary_cross_entropy_with_logits(x, y, {.pos_weight = w}).item(), binary, bound);
  EXPECT_EQ(huber_loss(tape.constant(zeros({2, 3})), y, 0.5).item(), real{0.375});
  EXPECT_NEAR(smooth_l1_loss(x, y, 0.5).item(), smooth, bound);
  EXPECT_EQ(cosine_similarity(y, y, -1).shape(), Shape({2}));
}

TEST(PyTorchNames, LearningRates) {
  Parameter first("first", Tensor{1}), second("second", Tensor{1});
  SGD optimizer({{.parameters = {&first}, .options = {.learning_rate = 2}},
                 {.parameters = {&second}, .options = {.learning_rate = 2}}});
  const auto f = [](std::uint64_t) { return 0.5; };
  const auto g = [](std::uint64_t) { return 0.25; };
  (void)LearningRateSchedule(optimizer, {Schedule::lambda(f), Schedule::lambda(g)});
  EXPECT_EQ(optimizer.learning_rate(0), 1);
  EXPECT_EQ(optimizer.learning_rate(1), 0.5);
  const Schedule constant = Schedule::constant();
  EXPECT_TRUE(LearningRateSchedule(optimizer, constant, PlateauOptions{}).observes());
  EXPECT_EQ(Schedule::cosine({.steps = 9, .restart_multiplier = 1}).factor(9), 1);
  EXPECT_NEAR(Schedule::milestones({3, 6}).factor(6), 0.01, 1e-12);
  const Schedule warmup = Schedule::linear_warmup({.steps = 3}),
                 cosine = Schedule::cosine({.steps = 9});
  EXPECT_EQ((warmup * cosine).factor(0), 1.0 / 3);
}

class Tower : public Layer {
 public:
  explicit Tower(Random& random)
      : blocks(*this, "blocks", 2, 3, 3, random), head(*this, "head", 3, 1, random) {}

  Submodule<LayerList<Linear>> blocks;
  Submodule<Linear> head;
  Buffer mean{*this, "mean", zeros({3})};
};

TEST(PyTorchNames, LayersAndTraining) {
  Random random(123);
  // Textbooks print 0.3374.
  EXPECT_NEAR(Embedding(6, 3, random).weight.value()(0, 0), 0.3374, 5e-5);
  const Tensor pair = counting({2, 3});
  EXPECT_FALSE(Embedding(pair, {.frozen = true}).weight.trainable());
  Sequential model;
  model.add<Linear>(3, 4, random);
  model.add(silu);
  EXPECT_EQ(Tower(random).parameters().size(), 6U);
  EXPECT_TRUE(Tower(random).state_dict().contains("mean"));
  AdamW optimizer(model.parameters(), {.learning_rate = 1e-3});
  Tape tape;
  optimizer.zero_grad();
  tape.backward(mean(model.forward(tape.constant(counting({2, 3})))));
  EXPECT_GT(clip_grad_norm(model.parameters(), 1), 0);
  optimizer.step();
  optimizer.set_learning_rate(1e-4);
  EXPECT_EQ(model.named_layers<Layer>().size(), 2U);

  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "model.safetensors";
  write_safetensors(path, model.state_dict());
  model.load_state_dict(read_safetensors(path));
  model.freeze();
  EXPECT_EQ(model.trainable_parameter_count(), 0U);
  model.unfreeze("0.*");
  EXPECT_EQ(model.trainable_parameter_count(), 16U);
  const std::vector<real> logits{0, 50};
  EXPECT_EQ(sample_token(logits, 1, 2, random), 1U);
}

}  // namespace
