#include "tests/test.hpp"

namespace {

constexpr std::array<real, 9> kLogits{4.51F,  0.89F,  -1.90F, 6.75F, 1.63F,
                                      -1.62F, -1.89F, 6.28F,  1.79F};

std::array<int, 9> counts_of(int draws, double temperature, std::size_t top_k) {
  Random random(123);
  std::array<int, 9> counts{};
  for (int i = 0; i < draws; ++i) ++counts[sample_token(kLogits, temperature, top_k, random)];
  return counts;
}

// Counts of 1,000 draws under torch.manual_seed(123), as printed in "Build a Large Language Model
// From Scratch", chapter 5.
TEST(SampleToken, MatchesTorchMultinomial) {
  using Counts = std::array<int, 9>;
  EXPECT_EQ(counts_of(1000, 1, 0), (Counts{73, 0, 0, 582, 2, 0, 0, 343, 0}));
  EXPECT_EQ(counts_of(1000, 0.1, 0), (Counts{0, 0, 0, 985, 0, 0, 0, 15, 0}));
  EXPECT_EQ(counts_of(1000, 5, 0), (Counts{165, 75, 42, 239, 71, 46, 32, 227, 103}));
}

TEST(SampleToken, TopKDrawsOnlyTheMostLikely) {
  constexpr int kDraws = 20'000;
  const std::array<int, 9> counts = counts_of(kDraws, 1, 3);
  // softmax(4.51, 6.75, 6.28). Five standard deviations of each share are below 0.018.
  for (const auto& [index, probability] : {std::pair{0, 0.0615}, {3, 0.5775}, {7, 0.3610}})
    EXPECT_NEAR(counts[static_cast<std::size_t>(index)] / double{kDraws}, probability, 0.018);
  EXPECT_EQ(counts[0] + counts[3] + counts[7], kDraws);
  EXPECT_EQ(counts_of(1, 0, 0)[3], 1);
}

TEST(SampleToken, RejectsInvalidLogitsAndTemperatures) {
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  EXPECT_INVALID("sample_token: got no logits, expected at least one",
                 sample_token({}, 1, 0, random));
  EXPECT_INVALID("sample_token: temperature is -1, expected a finite number >= 0",
                 sample_token(kLogits, -1, 0, random));
  for (const auto& wrong : {std::array<real, 2>{NAN, 1}, {-INFINITY, -INFINITY}})
    for (const double temperature : {0, 1})
      EXPECT_ERROR_WITH(std::invalid_argument,
                        "expected a finite value, and no NaN among the logits",
                        sample_token(wrong, temperature, 0, random));
  EXPECT_TRUE(bits_of(random.state_dict()) == before);
  EXPECT_EQ(sample_token(std::array<real, 2>{-INFINITY, 0}, 1, 0, random), 1U);
}

// The smallest possible model, which inherits the loss.
class TableOfLogits : public LanguageModel {
 public:
  explicit TableOfLogits(Random& random) : logits(*this, "logits", 7, 7, random) {}
  Variable forward(Tape& tape, const Ids& ids) override { return logits.forward(tape, ids); }
  std::size_t context() const override { return 4; }
  std::size_t vocabulary() const override { return 7; }
  Submodule<Embedding> logits;
};

TEST(LanguageModel, ReportsMissingOverrides) {
  struct Nothing : LanguageModel {
    std::size_t context() const override { return 4; }
    std::size_t vocabulary() const override { return 7; }
  } nothing;
  struct HeadAlone : Nothing {
    explicit HeadAlone(Random& random) : head(*this, "head", 3, 7, random) {}
    Linear* output_layer() override { return &head; }
    Submodule<Linear> head;
  };
  Random random(1);
  HeadAlone head(random);
  Tape tape;
  const Ids text = {{1, 2}};
  EXPECT_ERROR(std::logic_error,
               "TextModel: this model overrides neither forward() nor output_layer()",
               nothing.forward(tape, text));
  EXPECT_ERROR(
      std::logic_error,
      "TextModel: this model does not override hidden_states(), which computes the head's input",
      head.loss(tape, text, text));
  EXPECT_ERROR(std::logic_error, "TextClassifier: the model has no head, expected one to replace",
               TextClassifier(nothing, 2, random));
  TextClassifier classifier(head, 2, random);
  EXPECT_INVALID("test: the model predicts 2 classes, expected one that predicts the next token",
                 as_language_model(classifier, "test"));
  EXPECT_INVALID("TextClassifier: got no ids, expected at least one", classifier.probabilities({}));
}

TEST(LanguageModel, DefaultDecoderPassesBatchesOfOne) {
  struct Flat : TableOfLogits {
    using TableOfLogits::TableOfLogits;
    Variable forward(Tape& tape, const Ids& ids) override {
      tokens = ids.size();
      const Variable rows = logits.forward(tape, ids);
      return flattens ? reshape(rows, {ids.size(), 7}) : rows;
    }
    bool flattens = true;
    std::size_t tokens = 0;
  };
  Random random(1);
  Flat model(random);
  const auto decoder = model.decoder();
  const std::vector<std::int32_t> first{1, 2}, second{3};
  EXPECT_INVALID("LanguageModel: forward returned logits of shape [2, 7], expected [1, 2, 7]",
                 decoder->next_logits(first));
  model.flattens = false;
  decoder->next_logits(first);  // the failed call had no effect
  EXPECT_TRUE(std::ranges::equal(decoder->next_logits(second), model.logits.weight.rows(second)));
  EXPECT_EQ(model.tokens, 3U);
  EXPECT_INVALID("IncrementalDecoder: got no ids, expected at least one", decoder->next_logits({}));
}

TEST(Generate, TakesTheMostLikelyTokenAtTemperatureZero) {
  Random random(1);
  NextTokenModel model({.vocabulary = 7, .context = 4, .width = 8, .dropout = 0.5}, random);
  const Ids prompt{1, 2, 3, 4, 5};  // longer than the context
  Tape tape(Tape::kInference);
  const Tensor& logits = model.forward(tape, Ids{2, 3, 4, 5}).value();
  const real* row = logits.data() + 3 * 7;
  EXPECT_EQ(generate(model, prompt, {.max_new_tokens = 1, .temperature = 0}, random)(0),
            std::max_element(row, row + 7) - row);
  EXPECT_TRUE(model.training());
  EXPECT_INVALID("generate: the prompt has no tokens, expected at least one",
                 generate(model, Ids(), {}, random));
  EXPECT_INVALID("generate: max_new_tokens is -1 and top_k is 0, expected both >= 0",
                 generate(model, prompt, {.max_new_tokens = ~std::size_t{0}}, random));
  EXPECT_INVALID("generate: max_new_tokens is 1 and top_k is -5, expected both >= 0",
                 generate(model, prompt, {.max_new_tokens = 1, .top_k = ~std::size_t{4}}, random));
  for (const double temperature : {-1.0, static_cast<double>(NAN)})
    EXPECT_INVALID(
        concat("generate: temperature is ", temperature, ", expected a finite number >= 0"),
        generate(model, prompt, {.temperature = temperature}, random));
}

TEST(Generate, UsesSlidingDecoderOfCustomModels) {
  struct Sliding : TableOfLogits {
    using TableOfLogits::TableOfLogits;
    struct Decoder : IncrementalDecoder {
      explicit Decoder(Sliding& of) : model(of) {}
      Tensor next_logits(std::span<const std::int32_t> ids) override {
        model.seen.insert(model.seen.end(), ids.begin(), ids.end());
        return reshaped(model.logits.weight.rows(ids.last(1)), {7});
      }
      Sliding& model;
    };
    std::unique_ptr<IncrementalDecoder> sliding_decoder() override {
      return std::make_unique<Decoder>(*this);
    }
    std::vector<std::int32_t> seen;
  };
  Random random(1);
  TableOfLogits table(random);
  EXPECT_INVALID(
      "LanguageModel: this model has no sliding_decoder(), which PastContext::kSlidingWindow needs",
      generate(table, Ids{1}, {.past_context = PastContext::kSlidingWindow}, random));
  Sliding model(random);
  const Ids more =
      generate(model, Ids{6, 1, 2, 3, 4},
               {.max_new_tokens = 9, .past_context = PastContext::kSlidingWindow}, random);
  std::vector<std::int32_t> expected{1, 2, 3, 4};  // the end of the prompt, then new ids
  expected.insert(expected.end(), more.begin(), more.end() - 1);
  EXPECT_EQ(model.seen, expected);
}

TEST(Generate, CallsOnTokenAndStopsWhenItReturnsFalse) {
  Random random(1);
  TableOfLogits model(random);
  std::vector<std::int32_t> seen;
  const auto on_token = [&](std::int32_t token) {
    seen.push_back(token);
    return seen.size() < 3;
  };
  EXPECT_EQ(values(generate(model, Ids{1}, {.max_new_tokens = 10, .on_token = on_token}, random)),
            seen);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Evaluate, AveragesOverAllTokensInEvaluationMode) {
  Random random(1);
  TableOfLogits model(random);
  const Ids text = ids({9}, {0, 1, 2, 3, 4, 5, 6, 0, 1});
  DataLoader loader(TokenWindows(text, {.context = 2, .stride = 2}), {.batch = 3});
  Tape tape(Tape::kInference);
  const auto loss_of_first = [&](std::size_t count) {
    const std::span all(text.data(), text.size());
    return model.loss(tape, to_ids(all.first(count)), to_ids(all.subspan(1, count))).item();
  };
  EXPECT_NEAR(evaluate(model, loader)->loss, loss_of_first(8), 20 * kEpsilon);
  EXPECT_TRUE(model.training());
  EXPECT_FALSE(evaluate(model, loader, {.after_batch = [] { return false; }}).has_value());
  for (int i = 0; i < 2; ++i)
    EXPECT_NEAR(evaluate(model, loader, {.batches = 1})->loss, loss_of_first(6), 20 * kEpsilon);
}

TEST(Evaluate, SkipsMaskedTargets) {
  Random random(1);
  TableOfLogits model(random);
  Tensor table = irregular({7, 7});
  for (std::size_t i = 0; i < 7; ++i) table(i, (i + 1) % 7) = 2;  // the most likely next token
  model.logits.weight.assign(table);
  const Ids text = ids({6}, {0, 1, 2, 3, 4, 5});
  constexpr std::int32_t kWrong = 0;
  const Ids targets = ids({6}, {1, kIgnoredTarget, kIgnoredTarget, 4, kWrong, 6});
  DataLoader loader(TokenWindows(text, targets, {.context = 3, .stride = 3}), {.batch = 1});
  const auto score = evaluate(model, loader, {.accuracy = true});
  EXPECT_EQ(score->accuracy, 0.75);
  Tape tape(Tape::kInference);
  const real loss = cross_entropy(model.forward(tape, text), targets).item();
  EXPECT_NEAR(score->loss, loss, 20 * kEpsilon);
  const auto loss_alone = evaluate(model, loader);
  EXPECT_NEAR(loss_alone->loss, loss, 20 * kEpsilon);
  EXPECT_FALSE(loss_alone->accuracy.has_value());
  // Weights do not affect accuracies, not even weights of 0.
  model.set_loss({.class_weights = Tensor{0, 1, 0, 0, 0, 0, 0}});
  EXPECT_EQ(evaluate(model, loader, {.accuracy = true})->accuracy, 0.75);
  model.set_loss({});
  DataLoader nothing(
      TokenWindows(ids({1}, {0}), ids({1}, {kIgnoredTarget}), {.context = 1, .stride = 1}),
      {.batch = 1});
  EXPECT_INVALID("evaluate: all targets have weight 0, expected at least one with nonzero weight",
                 evaluate(model, nothing));
}

TEST(TextClassifier, ProbabilitiesMatchLogits) {
  Random random(1);
  for (const Pooling pooling : {Pooling::kLast, Pooling::kMean}) {
    NextTokenModel body({.vocabulary = 7, .context = 3, .width = 4}, random);
    TextClassifier classifier(body, 2, random, {.pooling = pooling});
    const std::vector<std::int32_t> text{1, 2, 3};
    Tape tape(Tape::kInference);
    const Tensor all = softmax(classifier.forward(tape, ids({1, 3}, text))).value();
    // A prefix has the same probabilities as its last position in the longer document.
    for (const std::size_t length : {2U, 3U})
      expect_near(classifier.probabilities(std::span(text).first(length)),
                  Tensor{all(0, length - 1, 0), all(0, length - 1, 1)}, 4 * kEpsilon);
  }
}

}  // namespace
