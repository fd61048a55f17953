#include "tests/test.hpp"

namespace {

// Counts of 1,000 draws under torch.manual_seed(123), as "Build a Large Language Model From
// Scratch", chapter 5, prints them.
TEST(DrawToken, DrawsWhatTorchMultinomialDraws) {
  const std::array<real, 9> logits{4.51F,  0.89F,  -1.90F, 6.75F, 1.63F,
                                   -1.62F, -1.89F, 6.28F,  1.79F};
  struct Case {
    double temperature;
    std::array<int, 9> counts;
  };
  for (const Case& item :
       {Case{1, {73, 0, 0, 582, 2, 0, 0, 343, 0}}, Case{0.1, {0, 0, 0, 985, 0, 0, 0, 15, 0}},
        Case{5, {165, 75, 42, 239, 71, 46, 32, 227, 103}}}) {
    Random random(123);
    std::array<int, 9> counts{};
    for (int i = 0; i < 1000; ++i) ++counts[draw_token(logits, item.temperature, 0, random)];
    EXPECT_EQ(counts, item.counts) << item.temperature;
  }
}

TEST(DrawToken, LeavesOutAllButTheLikeliest) {
  const std::array<real, 9> logits{4.51F,  0.89F,  -1.90F, 6.75F, 1.63F,
                                   -1.62F, -1.89F, 6.28F,  1.79F};
  Random random(1);
  std::array<int, 9> counts{};
  constexpr int kDraws = 20'000;
  for (int i = 0; i < kDraws; ++i) ++counts[draw_token(logits, 1, 3, random)];
  // softmax(4.51, 6.75, 6.28); five standard deviations of a count are below 0.018 of all.
  for (const auto& [index, probability] : {std::pair{0, 0.0615}, {3, 0.5775}, {7, 0.3610}})
    EXPECT_NEAR(counts[static_cast<std::size_t>(index)] / double{kDraws}, probability, 0.018);
  EXPECT_EQ(counts[0] + counts[3] + counts[7], kDraws);
  EXPECT_EQ(draw_token(logits, 0, 0, random), 3U);
}

TEST(DrawToken, RefusesWhatIsNoDistribution) {
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  const std::array<real, 2> logits{1, 2};
  const std::array<real, 2> nan{NAN, 1};
  const std::array<real, 2> nothing{-INFINITY, -INFINITY};
  EXPECT_INVALID("draw_token: there are no logits", draw_token({}, 1, 0, random));
  EXPECT_INVALID("draw_token: temperature -1 must be finite and not below 0",
                 draw_token(logits, -1, 0, random));
  for (const auto& wrong : {nan, nothing})
    for (const double temperature : {0, 1})
      EXPECT_TRUE(error_of<std::invalid_argument>([&] {
                    draw_token(wrong, temperature, 0, random);
                  }).starts_with("draw_token: the logits are not finite"));
  EXPECT_TRUE(bits_of(random.state_dict()) == before);
  EXPECT_EQ(draw_token(std::array<real, 2>{-INFINITY, 0}, 1, 0, random), 1U);
}

// The smallest possible model: it inherits the loss.
class Bigram : public LanguageModel {
 public:
  explicit Bigram(Random& random) : logits(*this, "logits", 7, 7, random) {}
  Variable forward(Tape& tape, const Ids& ids) override { return logits.forward(tape, ids); }
  std::size_t context() const override { return 4; }
  std::size_t vocabulary() const override { return 7; }
  Part<Embedding> logits;
};

TEST(LanguageModel, SaysWhatAModelOfOnesOwnLacks) {
  struct Nothing : LanguageModel {
    std::size_t context() const override { return 4; }
    std::size_t vocabulary() const override { return 7; }
  } nothing;
  struct HeadAlone : Nothing {
    explicit HeadAlone(Random& random) : head(*this, "head", 3, 7, random) {}
    Linear* output() override { return &head; }
    Part<Linear> head;
  };
  Random random(1);
  HeadAlone head(random);
  Tape tape;
  const Ids text = {{1, 2}};
  const std::string neither = "TextModel: this model has neither forward() nor output()";
  EXPECT_ERROR(std::logic_error, neither, nothing.forward(tape, text));
  EXPECT_ERROR(std::logic_error, neither, nothing.loss(tape, text, text));
  EXPECT_ERROR(std::logic_error,
               "TextModel: this model has no before_head(), which output() and other heads read",
               head.loss(tape, text, text));
}

TEST(LanguageModel, IsGivenBatchesOnly) {
  class Flat : public Bigram {
   public:
    using Bigram::Bigram;
    Variable forward(Tape& tape, const Ids& ids) override {
      shape.assign(ids.shape().begin(), ids.shape().end());
      const Variable rows = logits.forward(tape, ids);
      return flattens ? reshape(rows, {ids.size(), 7}) : rows;
    }
    std::vector<std::size_t> shape;
    bool flattens = false;
  };
  Random random(1);
  Flat model(random);
  const auto reader = model.reader();
  const std::vector<std::int32_t> text{1, 2, 3};
  model.flattens = true;
  EXPECT_INVALID("LanguageModel: forward returned logits of shape [2, 7], expected [1, 2, 7]",
                 reader->read(std::span(text).first(2)));
  model.flattens = false;
  reader->read(std::span(text).first(2));  // as if nothing had been read before
  const Tensor logits = reader->read(std::span(text).last(1));
  EXPECT_EQ(model.shape, std::vector<std::size_t>({1, 3}));
  EXPECT_TRUE(std::ranges::equal(logits, model.logits.weight.rows(std::span(text).last(1))));
  EXPECT_INVALID("TextReader: there are no ids to read", reader->read({}));
}

TEST(Generate, TakesTheLikeliestTokenAtTemperatureZeroAndRepeatsBySeed) {
  Random random(1);
  NextTokenModel model({.vocabulary = 7, .context = 4, .width = 8, .dropout = 0.5}, random);
  const Ids prompt{1, 2, 3, 4, 5};  // longer than the context
  Random first(2);
  Random second(2);
  EXPECT_EQ(generate(model, prompt, {.count = 10}, first),
            generate(model, prompt, {.count = 10}, second));
  EXPECT_TRUE(model.training());
  Tape tape(Tape::inference);
  const Tensor& logits = model.forward(tape, Ids{2, 3, 4, 5}).value();
  const real* row = logits.data() + 3 * 7;
  EXPECT_EQ(generate(model, prompt, {.count = 1, .temperature = 0}, first)(0),
            std::max_element(row, row + 7) - row);
  EXPECT_INVALID("generate: the prompt has no tokens",
                 generate(model, Ids::from_shape({0}), {}, first));
  EXPECT_THROW(generate(model, prompt, {.temperature = -1}, first), std::invalid_argument);
  EXPECT_THROW(generate(model, prompt, {.temperature = NAN}, first), std::invalid_argument);
}

TEST(Generate, ShowsEachTokenAndStopsWhenItIsTold) {
  Random random(1);
  Bigram model(random);
  std::vector<std::int32_t> seen;
  const Ids ids = generate(model, Ids{1},
                           {.count = 10,
                            .on_token =
                                [&](std::int32_t token) {
                                  seen.push_back(token);
                                  return seen.size() < 3;
                                }},
                           random);
  EXPECT_EQ(std::vector<std::int32_t>(ids.begin(), ids.end()), seen);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Evaluate, IsTheMeanOverAllTokensInEvaluationMode) {
  Random random(1);
  Bigram model(random);
  const Ids text = ids({9}, {0, 1, 2, 3, 4, 5, 6, 0, 1});
  DataLoader loader(TokenWindows(text, {.context = 2, .stride = 2}), {.batch = 3});
  Tape tape(Tape::inference);
  const real whole =
      model.loss(tape, ids({8}, {0, 1, 2, 3, 4, 5, 6, 0}), ids({8}, {1, 2, 3, 4, 5, 6, 0, 1}))
          .item();
  EXPECT_NEAR(evaluate(model, loader)->loss, whole, 20 * kEpsilon);
  EXPECT_TRUE(model.training());
  EXPECT_FALSE(evaluate(model, loader, {.after_batch = [] { return false; }}).has_value());
  loader.rewind();
  const Batch& first = *loader.begin();
  const double part = model.loss(tape, first.inputs(), first.targets()).item();
  for (int i = 0; i < 2; ++i) {
    loader.rewind();
    EXPECT_NEAR(evaluate(model, loader, {.batches = 1})->loss, part, 20 * kEpsilon);
  }
}

// Weights of 0, but for one class.
Tensor one_class(std::int32_t of_class) {
  Tensor weights = zeros({7});
  weights.data()[of_class] = 1;
  return weights;
}

TEST(Evaluate, CountsTheTargetsThatCount) {
  Random random(1);
  Bigram model(random);
  const Ids text = ids({6}, {0, 1, 2, 3, 4, 5});
  Tape tape(Tape::inference);
  const Tensor logits = model.forward(tape, ids({1, 6}, {0, 1, 2, 3, 4, 5})).value();
  const auto likeliest = [&](std::size_t place) {
    const real* row = logits.data() + place * 7;
    return static_cast<std::int32_t>(std::max_element(row, row + 7) - row);
  };
  const std::int32_t wrong = (likeliest(4) + 1) % 7;
  const Ids targets =
      ids({6}, {likeliest(0), kIgnoredTarget, kIgnoredTarget, likeliest(3), wrong, likeliest(5)});
  DataLoader loader(TokenWindows(text, targets, {.context = 3, .stride = 3}), {.batch = 1});
  const auto score = evaluate(model, loader, {.accuracy = true});
  EXPECT_EQ(score->accuracy, 0.75);
  const real loss =
      cross_entropy(tape.constant(logits), ids({1, 6}, {targets.begin(), targets.end()})).item();
  EXPECT_NEAR(score->loss, loss, 20 * kEpsilon);
  EXPECT_NEAR(evaluate(model, loader)->loss, loss, 20 * kEpsilon);
  EXPECT_FALSE(evaluate(model, loader)->accuracy.has_value());
  // Weights make no difference to accuracies, not even those of 0.
  model.set_loss({.class_weights = one_class(likeliest(0))});
  EXPECT_EQ(evaluate(model, loader, {.accuracy = true})->accuracy, 0.75);
  model.set_loss({});
  DataLoader nothing(
      TokenWindows(ids({1}, {0}), ids({1}, {kIgnoredTarget}), {.context = 1, .stride = 1}),
      {.batch = 1});
  EXPECT_INVALID("evaluate: none of the targets counts, so there is no mean",
                 evaluate(model, nothing));
}

TEST(LanguageModel, SaysWhatItCannotDo) {
  Random random(1);
  Bigram model(random);
  EXPECT_ERROR(std::logic_error, "TextClassifier: the model has no head that another could replace",
               TextClassifier(model, 2, random));
  NextTokenModel body({.vocabulary = 7, .context = 3, .width = 4}, random);
  TextClassifier classifier(body, 2, random);
  EXPECT_INVALID(
      "test: the model has 2 classes of its own, expected one that predicts the next token",
      as_language_model(classifier, "test"));
  EXPECT_INVALID("TextClassifier: the text has no tokens", classifier.probabilities({}));
  EXPECT_INVALID("Layer: 'body' is a part of another layer already",
                 TextClassifier(body, 2, random));
}

TEST(TextClassifier, GivesTheProbabilitiesOfItsLogits) {
  Random random(1);
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
    NextTokenModel body({.vocabulary = 7, .context = 3, .width = 4}, random);
    TextClassifier classifier(body, 2, random, {.pooling = pooling});
    const std::vector<std::int32_t> text{1, 2, 3};
    Tape tape(Tape::inference);
    const Tensor all = softmax(classifier.forward(tape, ids({1, 3}, text))).value();
    const Tensor last = classifier.probabilities(text);
    EXPECT_EQ(last.shape(), Shape{2});
    for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(last.data()[k], all(0, 2, k), 4 * kEpsilon);
    // A shorter text has what its last position had in the longer one.
    const Tensor first = classifier.probabilities(std::span(text).first(2));
    for (std::size_t k = 0; k < 2; ++k) EXPECT_NEAR(first.data()[k], all(0, 1, k), 4 * kEpsilon);
  }
}

}  // namespace
