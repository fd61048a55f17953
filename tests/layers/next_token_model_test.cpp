#include "tests/test.hpp"

namespace {

std::vector<std::string> names(const NextTokenModel& model) {
  std::vector<std::string> all;
  for (const Parameter* parameter : model.parameters()) all.push_back(parameter->name());
  return all;
}

TEST(NextTokenModel, HasThePartsThatItsOptionsName) {
  const NextTokenModel toy({.vocabulary = 9, .context = 4, .width = 6}, Random(1));
  EXPECT_EQ(names(toy), (std::vector<std::string>{"token.weight", "position.weight", "head.weight",
                                                  "head.bias"}));
  const NextTokenModel deep({.vocabulary = 9,
                             .context = 4,
                             .width = 6,
                             .positions = Positions::kSinusoidal,
                             .look_back = 2,
                             .hidden = {5, 7}},
                            Random(1));
  EXPECT_EQ(names(deep), (std::vector<std::string>{"token.weight", "hidden.0.weight",
                                                   "hidden.0.bias", "hidden.2.weight",
                                                   "hidden.2.bias", "head.weight", "head.bias"}));
  EXPECT_EQ(deep.parameters()[1]->shape(), (Shape{5, 12}));
  EXPECT_EQ(deep.parameters()[5]->shape(), (Shape{9, 7}));
  const NextTokenModel bare(
      {.vocabulary = 9, .context = 4, .width = 6, .positions = Positions::kNone}, Random(1));
  EXPECT_EQ(names(bare).size(), 3U);
}

// PyTorch makes nn.Embedding, nn.Embedding, nn.Linear in this order under one seed.
TEST(NextTokenModel, DrawsItsWeightsInTheOrderOfItsParts) {
  Random random(123);
  const NextTokenModel model({.vocabulary = 10, .context = 4, .width = 4}, Random(123));
  const Embedding token(10, 4, random);
  const PositionalEmbedding position(4, 4, random);
  Linear head(4, 10, random);
  EXPECT_EQ(model.token.weight.value(), token.weight.value());
  EXPECT_EQ(model.position->weight.value(), position.weight.value());
  EXPECT_EQ(model.head.weight.value(), head.weight.value());
}

TEST(NextTokenModel, PredictsFromNoTokenThatIsStillToCome) {
  NextTokenModel model({.vocabulary = 9, .context = 4, .width = 6, .look_back = 3, .hidden = {8}},
                       Random(1));
  Tape tape(Tape::inference);
  const Tensor& first = model.forward(tape, ids({4}, {1, 2, 3, 4})).value();
  const Tensor& second = model.forward(tape, ids({4}, {1, 2, 3, 8})).value();
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(first(t, i), second(t, i)) << t;
  EXPECT_NE(first(3, 0), second(3, 0));
}

TEST(NextTokenModel, RefusesWhatDoesNotFit) {
  EXPECT_INVALID("NextTokenModel: vocabulary 0, context 4 and width 6 must be above 0",
                 NextTokenModel({.vocabulary = 0, .context = 4, .width = 6}, Random(1)));
  EXPECT_INVALID(
      "NextTokenModel: positions of this kind need attention; expected none, learned or "
      "sinusoidal",
      NextTokenModel({.vocabulary = 9, .positions = Positions::kRotary}, Random(1)));
  NextTokenModel model({.vocabulary = 9, .context = 2, .width = 6}, Random(1));
  Tape tape;
  EXPECT_EQ(model.forward(tape, ids({2}, {0, 1})).shape(), (Shape{2, 9}));
  EXPECT_INVALID(
      "linear_cross_entropy: logits have shape [2, 2, 9], expected [3] of the targets and one more "
      "axis",
      model.loss(tape, ids({2, 2}, {0, 8, 8, 4}), ids({3}, {0, 0, 0})));
  EXPECT_INVALID(
      "NextTokenModel: ids have shape [3], expected [..., length] with a length of at most the "
      "context, 2",
      model.forward(tape, ids({3}, {0, 1, 2})));
  EXPECT_THROW(model.forward(tape, ids({1}, {9})), std::invalid_argument);
}

TEST(NextTokenModel, TiesItsHeadToTheTokenTable) {
  const NextTokenModel tied({.vocabulary = 9,
                             .context = 4,
                             .width = 6,
                             .look_back = 2,
                             .hidden = {6},
                             .tie_weights = true},
                            Random(1));
  EXPECT_EQ(names(tied),
            (std::vector<std::string>{"token.weight", "position.weight", "hidden.0.weight",
                                      "hidden.0.bias", "head.bias"}));
  EXPECT_EQ(&tied.head.weight, &tied.token.weight);
  EXPECT_EQ(tied.parameter_count(), 9U * 6 + 4 * 6 + 12 * 6 + 6 + 9);
  EXPECT_HAS(tied.summary(), "head.weight      [9, 6]   tied to token.weight\n") << tied.summary();
}

TEST(NextTokenModel, RefusesToTieAHeadThatReadsAnotherWidth) {
  const auto message = [](std::size_t read) {
    return concat(
        "NextTokenModel: with tied weights the head must read the embedding's width of 6, "
        "but it reads ",
        read, ": make the last hidden layer 6 wide, or do not tie the weights");
  };
  EXPECT_INVALID(message(18),
                 NextTokenModel({.vocabulary = 9, .width = 6, .look_back = 3, .tie_weights = true},
                                Random(1)));
  EXPECT_INVALID(
      message(5),
      NextTokenModel({.vocabulary = 9, .width = 6, .hidden = {6, 5}, .tie_weights = true},
                     Random(1)));
}

class WithPrevious : public NextTokenModel {
 public:
  WithPrevious(const NextTokenOptions& options, Random&& random)
      : NextTokenModel(options, random),
        previous(*this, "previous", options.vocabulary, options.width, random) {}

  Part<Embedding> previous;

 protected:
  Variable before_look_back(const Variable& x, const Ids& ids) override {
    Ids shifted = ids;
    const std::size_t length = ids.shape().back();
    for (std::size_t i = 0; i < ids.size(); ++i)
      shifted.data()[i] = i % length == 0 ? 0 : ids.data()[i - 1];
    return x + previous.forward(x.tape(), shifted);
  }
};

TEST(NextTokenModel, PassesAllThroughWhatADerivedModelPutsInFrontOfTheLookBack) {
  const NextTokenOptions options{.vocabulary = 5, .context = 3, .width = 4, .look_back = 2};
  NextTokenModel base(options, Random(3));
  WithPrevious model(options, Random(3));
  const Ids text = ids({2, 3}, {0, 1, 1, 4, 2, 0});
  const Ids targets = ids({2, 3}, {1, 1, 3, 2, 0, 0});
  Tape tape;
  const Variable logits = model.forward(tape, text);
  EXPECT_NE(logits.value(), base.forward(tape, text).value());
  const Variable loss = model.loss(tape, text, targets);
  EXPECT_NEAR(loss.item(), cross_entropy(logits, targets).item(), 20 * kEpsilon);
  tape.backward(loss);
  EXPECT_EQ(model.previous.weight.gradient().rows().indices(),
            std::vector<std::int32_t>({0, 1, 2, 4}));
  const Tensor read = model.reader()->read(std::vector<std::int32_t>{4, 2, 0});
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(read(i), logits.value()(1, 2, i), 20 * kEpsilon);
}

}  // namespace
