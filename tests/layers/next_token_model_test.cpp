#include "tests/test.hpp"

namespace {

TEST(NextTokenModel, StartsWithPyTorchWeightsInOrder) {
  const NextTokenModel model({.vocabulary = 10, .context = 4, .width = 4}, Random(123));
  const json file = golden("torch_random.json");
  const json& expected =
      file["Embedding(10, 4), Embedding(4, 4), Linear(4 -> 10) made in this order under seed 123"];
  const auto check = [&](const Parameter& parameter, const char* name) {
    expect_near(parameter.value(), tensor_from(expected[name]), 2e-6, name);
  };
  check(model.token.weight, "token");
  check(model.position->weight, "position");
  check(model.head.weight, "head.weight");
  check(*model.head.bias, "head.bias");
  const auto expect_parts = [](const NextTokenOptions& options, const std::string& summary) {
    EXPECT_HAS(NextTokenModel(options, Random(1)).summary(), summary);
  };
  NextTokenOptions options{.vocabulary = 9, .width = 6, .positions = Positions::kNone};
  expect_parts(options,
               "token.weight  [9, 6]  54\n"
               "head.weight   [9, 6]  54\n");
  options.positions = Positions::kSinusoidal;
  options.window = 2;
  options.hidden = {5, 6};
  options.tie_weights = true;
  expect_parts(options,
               "token.weight      [9, 6]   54\n"
               "sinusoidal.table  [4, 6]   buffer\n"
               "hidden.0.weight   [5, 12]  60\n"
               "hidden.0.bias     [5]      5\n"
               "hidden.2.weight   [6, 5]   30\n"
               "hidden.2.bias     [6]      6\n"
               "head.weight       [9, 6]   tied to token.weight\n"
               "head.bias         [9]      9\n");
}

TEST(NextTokenModel, RejectsInvalidArguments) {
  const auto refusal = [](const NextTokenOptions& options) {
    return error_of<std::invalid_argument>([&] { NextTokenModel(options, Random(1)); });
  };
  EXPECT_EQ(refusal({.vocabulary = 0, .context = 4, .width = 6}),
            "NextTokenModel: vocabulary is 0, context is 4 and width is 6, expected all above 0");
  EXPECT_EQ(refusal({.vocabulary = 9, .positions = Positions::kRotary}),
            "NextTokenModel: got positions for attention, expected kNone, kLearned or kSinusoidal");
  const auto tied = [](std::size_t inputs) {
    return concat("NextTokenModel: the head has ", inputs,
                  " inputs, expected the 6 of the tied token table: make the last hidden layer 6 "
                  "wide, or do not tie the weights");
  };
  EXPECT_EQ(refusal({.vocabulary = 9, .width = 6, .window = 3, .tie_weights = true}), tied(18));
  EXPECT_EQ(refusal({.vocabulary = 9, .width = 6, .hidden = {6, 5}, .tie_weights = true}), tied(5));
  NextTokenModel model({.vocabulary = 9, .context = 2, .width = 6}, Random(1));
  Tape tape;
  EXPECT_EQ(model.forward(tape, ids({2}, {0, 1})).shape(), (Shape{2, 9}));
  EXPECT_INVALID(
      "NextTokenModel: ids have shape [3], expected [..., length] with a length of at most the "
      "context, 2",
      model.forward(tape, ids({3}, {0, 1, 2})));
}

TEST(NextTokenModel, TransformEmbeddingsAppliesToForwardAndLoss) {
  class Doubled : public NextTokenModel {
   public:
    using NextTokenModel::NextTokenModel;

   protected:
    Variable transform_embeddings(const Variable& x, const Ids&) override { return x * real{2}; }
  };
  const NextTokenOptions options{.vocabulary = 5,
                                 .context = 3,
                                 .width = 4,
                                 .positions = Positions::kNone,
                                 .window = 2,
                                 .hidden = {6}};
  Doubled model(options, Random(3));
  NextTokenModel same(options, Random(3));
  same.token.weight.assign(same.token.weight.value() * real{2});
  const Ids text = ids({2, 3}, {0, 1, 1, 4, 2, 0});
  Tape tape;
  EXPECT_EQ(model.forward(tape, text).value(), same.forward(tape, text).value());
  const Variable loss = model.loss(tape, text, text);
  EXPECT_EQ(loss.item(), same.loss(tape, text, text).item());
  tape.backward(loss);
  for (const Parameter* parameter : model.parameters())
    EXPECT_FALSE(parameter->gradient().is_none()) << parameter->name();
}

TEST(NextTokenModel, SamplesClassesOnlyForTraining) {
  NextTokenModel model({.vocabulary = 30, .context = 3, .width = 5, .head_bias = false}, Random(1));
  const Ids inputs = ids({2, 3}, {1, 2, 3, 4, 5, 6}), targets = ids({2, 3}, {2, 3, 4, 5, 6, 29});
  const NegativeSampler sampler(std::vector<double>(30, 1));
  const auto loss_on = [&](Tape& tape) { return model.loss(tape, inputs, targets); };
  Tape before(Tape::kInference);
  const real expected = loss_on(before).item();

  model.sample_loss(sampler, 4);
  Random random(7), same(7);
  Tape tape(random);
  const Variable sampled = loss_on(tape);
  EXPECT_EQ(sampled.item(), sampled_softmax_loss(model.hidden_states(tape, inputs),
                                                 tape.parameter(model.head.weight), std::nullopt,
                                                 targets, sampler.draw({4}, same))
                                .item());
  tape.backward(sampled);
  EXPECT_LE(model.head.weight.gradient().rows().size(), 10U);
  Tape inference(Tape::kInference);
  EXPECT_EQ(loss_on(inference).item(), expected);
  Tape evaluation(random);
  const EvaluationMode mode(model);
  EXPECT_EQ(loss_on(evaluation).item(), expected);
}

TEST(NextTokenModel, RejectsWrongSamplesOfTheLoss) {
  NextTokenModel model({.vocabulary = 6, .context = 3, .width = 5}, Random(1));
  const std::string expected = ", expected 6 weights and a count from 1 to 6";
  EXPECT_INVALID("TextModel::sample_loss: got 5 weights and a count of 2" + expected,
                 model.sample_loss(NegativeSampler(std::vector<double>(5, 1)), 2));
  const NegativeSampler sampler(std::vector<double>(6, 1));
  for (const std::size_t count : {0, 7})
    EXPECT_INVALID(concat("TextModel::sample_loss: got 6 weights and a count of ", count, expected),
                   model.sample_loss(sampler, count));
  model.sample_loss(sampler, 2);
  Random random(1);
  Tape tape(random);
  EXPECT_INVALID(
      "TextModel: got class_weights, target_weights or label_smoothing, expected none after "
      "sample_loss()",
      model.loss(tape, ids({1}, {2}), ids({1}, {3}), {.class_weights = full({6}, 1)}));
}

}  // namespace
