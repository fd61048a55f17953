#include "tests/test.hpp"

namespace {

GptOptions small(Positions positions) {
  return {.vocabulary = 11,
          .context = 8,
          .width = 12,
          .heads = 3,
          .layers = 2,
          .positions = positions,
          .t5_buckets = 4,
          .t5_max_distance = 6,
          .shaw_max_distance = 3};
}

constexpr Positions kAll[] = {Positions::kNone,   Positions::kLearned, Positions::kSinusoidal,
                              Positions::kRotary, Positions::kAlibi,   Positions::kT5,
                              Positions::kShaw};

// In front of the second block, adds a row for the last two tokens, and a projection of each
// position together with the one before it.
class WithBigrams : public GptModel {
 public:
  WithBigrams(const GptOptions& options, Random&& random)
      : GptModel(options, random),
        bigrams(*this, "bigrams", 16, options.width, random),
        mixed(*this, "mixed", options.width, options.width, random) {}

  Part<Embedding> bigrams;
  Part<Linear> mixed;
  bool fails = false;

 protected:
  Variable before_block(std::size_t block, const Variable& x, const TextSoFar& text) override {
    if (block == 0) return x;
    if (fails) throw std::runtime_error("no memory, say");
    const std::size_t batch = x.shape()[0], length = x.shape()[1], width = x.shape()[2];
    const std::size_t positions = text.ids.shape(1);
    Ids hashes = Ids::from_shape({batch, length});
    for (std::size_t i = 0; i < batch; ++i)
      for (std::size_t j = 0; j < length; ++j) {
        const std::size_t at = i * positions + positions - length + j;
        const std::int32_t last = at == i * positions ? 11 : text.ids.data()[at - 1];
        hashes(i, j) = (5 * text.ids.data()[at] + 3 * last) % 16;
      }
    const Variable y = mixed.forward(x);
    const bool begins = text.kept == nullptr || text.kept->size() == 0;
    const Variable first =
        x.tape().constant(begins ? zeros({batch, 1, width}) : reshaped(*text.kept, {1, 1, width}));
    const auto end = static_cast<std::ptrdiff_t>(length);
    const Variable before = concatenate({first, slice(y, 1, 0, end - 1)}, 1);
    if (text.kept != nullptr) *text.kept = slice(y, 1, end - 1, end).value();
    return x + bigrams.forward(x.tape(), hashes) + y * before;
  }
};

double largest_difference(const Tensor& a, const Tensor& b) { return xt::amax(xt::abs(a - b))(); }

const std::vector<std::int32_t> kText{3, 1, 10, 0, 7, 7, 2, 5};

TEST(GptModel, PassesAllThroughWhatADerivedModelPutsInFrontOfABlock) {
  for (const Positions positions : kAll) {
    GptModel base(small(positions), Random(3));
    WithBigrams model(small(positions), Random(3));
    model.eval();
    const Ids text = ids({2, 4}, kText);
    const Ids targets = ids({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    Tape tape;
    const Variable logits = model.forward(tape, text);
    EXPECT_GT(largest_difference(logits.value(), base.forward(tape, text).value()), 0.1);
    const Variable loss = model.loss(tape, text, targets);
    EXPECT_NEAR(loss.item(), cross_entropy(logits, targets).item(), 20 * kEpsilon);
    tape.backward(loss);
    for (const Parameter* parameter : {&model.bigrams.weight, &model.mixed.weight})
      EXPECT_FALSE(parameter->gradient().is_none());

    const auto weights = model.attention_weights(text);
    const auto of_base = base.attention_weights(text);
    EXPECT_EQ(weights[0], of_base[0]);
    EXPECT_GT(largest_difference(weights[1], of_base[1]), 1e-3);
  }
}

// Reads a text in pieces as at once: the logits of the last id of each. `fail` is told before each
// piece whether reading it has to fail, after which it is read as if nothing had happened.
void expect_read_in_pieces(GptModel& model, double tolerance,
                           const std::function<void(bool)>& fail = {}) {
  Tape tape(Tape::inference);
  const Tensor whole = model.forward(tape, to_ids(kText)).value();
  const auto reader = model.reader();
  std::size_t read = 0;
  for (const std::size_t piece : {3, 1, 2, 1, 1}) {
    const auto next = std::span(kText).subspan(read, piece);
    if (fail) {
      fail(true);
      EXPECT_THROW(reader->read(next), std::runtime_error);
      fail(false);
    }
    const Tensor logits = reader->read(next);
    read += piece;
    ASSERT_EQ(logits.shape(), Shape({11}));
    for (std::size_t i = 0; i < 11; ++i)
      EXPECT_NEAR(logits(i), whole(read - 1, i), tolerance) << "after " << read;
  }
  EXPECT_INVALID("GptModel: cannot read 1 ids after 8, the context is 8",
                 reader->read(std::span(kText).first(1)));
}

// Generates the likeliest ids up to this length, beyond the context too, as the whole model does.
void expect_continued(GptModel& model, std::size_t length) {
  std::vector<std::int32_t> expected{3, 1};
  while (expected.size() < length) {
    Tape tape(Tape::inference);
    const auto last =
        std::span(expected).last(std::min<std::size_t>(expected.size(), model.context()));
    const Ids best = argmax(model.forward(tape, to_ids(last)), -1);
    expected.push_back(best.data()[best.size() - 1]);
  }
  Random random(1);
  EXPECT_EQ(generate(model, ids({2}, {3, 1}), {.count = length - 2, .temperature = 0}, random),
            to_ids(std::span(expected).subspan(2)));
}

TEST(GptModel, ReadsPieceByPieceWhatItReadsAtOnceAndContinuesIt) {
  for (const Positions positions : kAll) {
    SCOPED_TRACE(static_cast<int>(positions));
    GptModel model(small(positions), Random(3));
    model.eval();
    expect_read_in_pieces(model, 200 * kEpsilon);
    expect_continued(model, model.context());
    WithBigrams derived(small(positions), Random(3));
    expect_read_in_pieces(derived, 500 * kEpsilon, [&](bool fails) { derived.fails = fails; });
    expect_continued(derived, 12);
  }
}

TEST(GptModel, IsNotSavedAsGpt2IfADerivedModelHasMore) {
  GptOptions options = small(Positions::kLearned);
  options.qkv_bias = true;
  WithBigrams model(options, Random(3));
  EXPECT_INVALID("gpt2_weights: GPT-2 has no \"bigrams.weight\" [16, 12]", gpt2_weights(model));
}

TEST(GptModel, RefusesWhatIsNoInputOfABlock) {
  class Wrong : public GptModel {
   public:
    using GptModel::GptModel;

   protected:
    Variable before_block(std::size_t, const Variable& x, const TextSoFar&) override {
      return concatenate({x, x}, 1);
    }
  } model(small(Positions::kNone), Random(1));
  Tape tape;
  EXPECT_ERROR(std::logic_error,
               "GptModel: before_block(0, …) returned shape [1, 4, 12], expected [1, 2, 12]",
               model.forward(tape, ids({1, 2}, {1, 2})));
}

// The first numbers that PyTorch 1.13 draws for the same modules under seed 123.
TEST(GptModel, StartsFromTheWeightsOfTheTextbook) {
  GptModel model({.context = 256, .layers = 1}, Random(123));
  const auto expect_start = [](const Parameter& parameter, double first, double second) {
    EXPECT_NEAR(parameter.value().data()[0], first, 1e-5) << parameter.name();
    EXPECT_NEAR(parameter.value().data()[1], second, 1e-5) << parameter.name();
  };
  expect_start(model.token.weight, 0.33737, -0.17778);
  expect_start(model.position->weight, 0.87687, 0.25503);
  expect_start(model.blocks[0].attention.query.weight, 0.028347, -0.033219);
  expect_start(model.blocks[0].attention.key.weight, 0.026624, 0.004932);
  // The textbook's count is of twelve blocks and 1,024 positions.
  const std::size_t block = 4 * 768 * 768 + 768 + 2 * 4 * 768 * 768 + 5 * 768 + 4 * 768;
  EXPECT_EQ(model.parameter_count() + 11 * block + 768 * 768, 163'009'536U);
}

TEST(GptModel, GivesGradientsOnlyToRelativeRowsThatWereReached) {
  for (const std::size_t length : {1U, 3U, 8U}) {
    GptModel model(small(Positions::kShaw), Random(3));
    ASSERT_EQ(model.shaw_keys->shape(), Shape({7, 4}));
    Tape tape;
    const Ids text = ids({1, length}, std::vector<std::int32_t>(length, 5));
    tape.backward(model.loss(tape, text, text));
    std::vector<std::int32_t> reached{0, 1, 2, 3};
    if (length < 4) reached.erase(reached.begin(), reached.end() - static_cast<int>(length));
    for (const auto& table : {&model.shaw_keys, &model.shaw_values})
      EXPECT_EQ((*table)->gradient().rows().indices(), reached) << length;
  }
}

TEST(GptModel, ShowsItsAttentionWeights) {
  for (const Positions positions : kAll) {
    GptOptions options = small(positions);
    options.dropout = 0.5;  // not of these weights
    GptModel model(options, Random(3));
    const auto weights = model.attention_weights(ids({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
    EXPECT_TRUE(model.training());
    ASSERT_EQ(weights.size(), options.layers);
    for (const Tensor& of_block : weights) {
      ASSERT_EQ(of_block.shape(), Shape({2, options.heads, 4, 4}));
      for (std::size_t row = 0; row < of_block.size() / 4; ++row) {
        const real* from = of_block.data() + 4 * row;
        EXPECT_NEAR(std::accumulate(from, from + 4, real{0}), 1, 1e-6);
        for (std::size_t key = 0; key < 4; ++key) EXPECT_EQ(from[key] > 0, key <= row % 4);
      }
    }
  }
}

TEST(GptModel, IsTrainedAndAskedAsTheReadmeSays) {
  std::vector<std::int32_t> text(100);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i * i % 62);
  DataLoader loader(TokenWindows(to_ids(text), {.context = 32, .stride = 32}), {.batch = 1});
  const Ids prompt = ids({3}, {1, 4, 9});
  // [gpt]
  Random random(123);
  GptModel model(
      {.vocabulary = 62, .context = 32, .width = 24, .heads = 3, .layers = 2, .dropout = 0.1},
      random);
  AdamW optimizer(model.parameters(), {.learning_rate = 4e-4, .weight_decay = 0.1});
  for (const Batch& batch : loader) {
    optimizer.zero_grad();
    Tape tape(random);
    tape.backward(model.loss(tape, batch));
    optimizer.step();
  }
  const Ids more = generate(model, prompt, {.count = 10, .temperature = 1.4, .top_k = 25}, random);
  const Tensor weights = model.attention_weights(prompt)[0];  // of the first block
  // [gpt]
  EXPECT_EQ(more.size(), 10U);
  EXPECT_EQ(weights.shape(), Shape({1, 3, 3, 3}));
}

TEST(GptModel, TakesBatchesOfAnyRank) {
  GptModel model(small(Positions::kLearned), Random(3));
  model.eval();
  Tape tape(Tape::inference);
  const Tensor flat = model.forward(tape, ids({2, 3}, {1, 2, 3, 4, 5, 6})).value();
  const Tensor deep = model.forward(tape, ids({2, 1, 3}, {1, 2, 3, 4, 5, 6})).value();
  EXPECT_EQ(deep.shape(), Shape({2, 1, 3, 11}));
  EXPECT_TRUE(std::equal(flat.begin(), flat.end(), deep.begin()));
}

TEST(GptModel, TakesTextsOfNoTokens) {
  for (const Positions positions : kAll) {
    GptModel model(small(positions), Random(3));
    Tape tape;
    const Variable logits = model.forward(tape, Ids::from_shape({2, 0}));
    EXPECT_EQ(logits.shape(), Shape({2, 0, 11}));
    EXPECT_NO_THROW(tape.backward(logits, zeros({2, 0, 11}))) << static_cast<int>(positions);
  }
}

TEST(GptModel, IsReadInEvaluationMode) {
  GptOptions options = small(Positions::kLearned);
  options.dropout = 0.5;
  GptModel model(options, Random(3));
  const std::vector<std::int32_t> text{1, 2, 3};
  const Tensor once = model.reader()->read(text);
  EXPECT_EQ(model.reader()->read(text), once);
  EXPECT_TRUE(model.training());
}

#ifdef ROWGRAD_DOUBLE
TEST(GptModel, HasTheGradientsOfItsLoss) {
  for (const Positions positions : kAll)
    for (const bool tied : {false, true}) {
      GptOptions options = small(positions);
      options.layers = 1;
      options.width = 6;
      options.qkv_bias = tied;
      options.tie_weights = tied;
      options.gelu = tied ? Gelu::kErf : Gelu::kTanh;
      GptModel model(options, Random(5));
      const auto result = gradient_check(
          [&](Tape& tape) {
            return model.loss(tape, ids({2, 4}, {1, 2, 3, 4, 5, 6, 6, 0}),
                              ids({2, 4}, {2, 3, 4, 5, 6, 6, 0, 1}));
          },
          model.parameters());
      EXPECT_TRUE(result.passed) << static_cast<int>(positions) << ' ' << result.message();
    }
}
#endif

TEST(GptModel, GivesTheSameBitsForEveryDropoutSeed) {
  GptOptions options = small(Positions::kLearned);
  options.dropout = 0.3;
  GptModel model(options, Random(5));
  const auto loss = [&](std::uint64_t seed) {
    Random random(seed);
    Tape tape(random);
    return model.loss(tape, ids({1, 4}, {1, 2, 3, 4}), ids({1, 4}, {2, 3, 4, 5})).item();
  };
  EXPECT_EQ(loss(1), loss(1));
  EXPECT_NE(loss(1), loss(2));
}

TEST(GptModel, StartsAsGpt2DoesIfAsked) {
  GptOptions options = small(Positions::kLearned);
  options.width = 60;
  options.vocabulary = 500;
  options.initialization = Initialization::kGpt2;
  GptModel model(options, Random(1));
  const auto deviation = [](const Parameter& parameter) {
    double squares = 0;
    for (const real x : parameter.value()) squares += static_cast<double>(x) * x;
    return std::sqrt(squares / static_cast<double>(parameter.size()));
  };
  EXPECT_NEAR(deviation(model.token.weight), 0.02, 5e-4);
  EXPECT_NEAR(deviation(model.blocks[1].attention.query.weight), 0.02, 1e-3);
  EXPECT_NEAR(deviation(model.blocks[1].attention.out.weight), 0.01, 5e-4);
  EXPECT_NEAR(deviation(model.blocks[1].feed_forward.down.weight), 0.01, 5e-4);
  EXPECT_EQ(deviation(*model.blocks[1].feed_forward.down.bias), 0);
  EXPECT_EQ(deviation(model.norm.weight), 1);

  WithBigrams derived(options, Random(1));
  Random same(1), next(2);
  initialize_as_gpt2(derived.mixed, options.layers, next);
  EXPECT_EQ(derived.token.weight.value(), GptModel(options, same).token.weight.value());
  EXPECT_NEAR(deviation(derived.mixed.weight), 0.02, 1e-3);
  EXPECT_EQ(deviation(*derived.mixed.bias), 0);
  EXPECT_INVALID("initialize_as_gpt2: layers is 0, expected at least 1",
                 initialize_as_gpt2(derived, 0, next));
}

TEST(GptModel, LeavesALayerAsItIsWhoseRowsItCannotInitialize) {
  TemporaryFolder folder;
  TableFile file(folder / "table", {.rows = 4, .width = 3});
  struct Both : Layer {
    Both(TableFile& table, Random random)
        : mixed(*this, "mixed", 3, 3, random), rows(*this, "rows", table) {}
    Part<Linear> mixed;
    Part<Embedding> rows;
  } layer(file, Random(1));
  const Tensor before = layer.mixed.weight.value();
  Random random(2);
  EXPECT_INVALID(
      "initialize_as_gpt2 draws all values, which takes a pass over all rows, but those of "
      "rows.weight are in " +
          file.path().string(),
      initialize_as_gpt2(layer, 2, random));
  EXPECT_EQ(layer.mixed.weight.value(), before);
}

TEST(GptModel, RefusesWhatDoesNotFit) {
  const auto message = [](const GptOptions& options) {
    return error_of<std::invalid_argument>([&] { GptModel(options, Random(1)); });
  };
  GptOptions options = small(Positions::kLearned);
  options.layers = 0;
  EXPECT_EQ(message(options), "GptModel: vocabulary 11, context 8 and layers 0 must be above 0");
  options.layers = 1;
  options.heads = 5;
  EXPECT_EQ(message(options),
            "CausalSelfAttention: width 12 is not a multiple of 5 heads, both above 0");
  options = small(Positions::kShaw);
  options.shaw_max_distance = std::size_t{1} << 63;
  EXPECT_EQ(message(options),
            "GptModel: shaw_max_distance is 9223372036854775808, expected less than 2^30");
  GptModel model(small(Positions::kRotary), Random(1));
  Tape tape;
  EXPECT_INVALID(
      "GptModel: ids have shape [9], expected [..., length] with a length of at most the "
      "context, 8",
      model.forward(tape, ids({9}, {0, 0, 0, 0, 0, 0, 0, 0, 0})));
}

}  // namespace
