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

}  // namespace
