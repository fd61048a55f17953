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

// A GPT with n-gram memories, which keep state between chunks. Each pass decrements `passes_left`,
// and throws in the last block if `passes_left` was 0.
class WithMemories : public GptModel {
 public:
  WithMemories(Positions positions, std::size_t kernel)
      : GptModel(options_with(positions, kernel), Random(3)) {}
  int passes_left = -1;
  bool doubles = false;
  std::size_t positions_read = 0;

  Variable before_block(std::size_t block, const Variable& x, const DecodeContext& text) override {
    if (block == 1 && passes_left-- == 0) throw std::runtime_error("simulated failure");
    if (block == 0) positions_read += x.shape()[1];
    return doubles ? concatenate({x, x}, 1) : GptModel::before_block(block, x, text);
  }

 private:
  static GptOptions options_with(Positions positions, std::size_t kernel) {
    GptOptions options = small(positions);
    options.memories = {.blocks = {1, 0},
                        .ngrams = {.orders = {1, 3}, .heads = 2, .rows = 11},
                        .memory = {.head_width = 3, .kernel = kernel}};
    return options;
  }
};

const std::vector<std::int32_t> kText{3, 1, 10, 0, 7, 7, 2, 5};

// Expects the same logits from chunks as from the whole document, for the last id of each chunk.
// The first attempt to read each chunk fails and must have no effect.
void expect_same_logits_in_chunks(WithMemories& model) {
  model.eval();
  Tape tape(Tape::kInference);
  const Variable whole = model.forward(tape, to_ids(kText));
  const auto decoder = model.decoder();
  std::size_t read = 0;
  for (const std::size_t count : {3, 1, 2, 1, 1}) {
    const auto next = std::span(kText).subspan(read, count);
    model.passes_left = 0;
    EXPECT_THROW(decoder->next_logits(next), std::runtime_error);
    const Tensor logits = decoder->next_logits(next);
    read += count;
    const auto end = static_cast<std::ptrdiff_t>(read);
    expect_near(logits, squeeze(slice(whole, 0, end - 1, end), 0).value(), 500 * kEpsilon,
                concat("after ", read));
  }
  EXPECT_INVALID(
      "GptModel: ids has size 1 after 8 earlier ids, expected at least 1, and in total at most the "
      "context, 8",
      decoder->next_logits(std::span(kText).first(1)));
}

// Expects generate() to continue with the most likely ids, even past the context.
void expect_continued(GptModel& model) {
  std::vector<std::int32_t> expected{3, 1};
  while (expected.size() < 12) {
    Tape tape(Tape::kInference);
    const auto last =
        std::span(expected).last(std::min<std::size_t>(expected.size(), model.context()));
    const Ids best = argmax(model.forward(tape, to_ids(last)), -1);
    expected.push_back(best.data()[best.size() - 1]);
  }
  Random random(1);
  EXPECT_EQ(generate(model, ids({2}, {3, 1}), {.max_new_tokens = 10, .temperature = 0}, random),
            to_ids(std::span(expected).subspan(2)));
}

TEST(GptModel, ReadsChunksLikeTheWholeDocument) {
  for (const Positions positions : kAll)
    for (const std::size_t kernel : {1U, 3U, 4U}) {
      SCOPED_TRACE(concat("positions ", static_cast<int>(positions), ", kernel ", kernel));
      WithMemories model(positions, kernel);
      expect_same_logits_in_chunks(model);
      expect_continued(model);
    }
}

// Computes attention by its formulas: q, k and v [1, length, width] → the same shape. Each position
// sees the last `context` positions, including itself.
Tensor banded_attention(const GptModel& model, const Tensor& q, const Tensor& k, const Tensor& v) {
  const GptOptions& options = model.options();
  const std::size_t width = options.width / options.heads, half = width / 2;
  const std::vector<double> slopes = alibi_slopes(options.heads);
  const bool is_shaw = options.positions == Positions::kShaw;
  const auto rotated = [&](const Tensor& x, std::size_t position, std::size_t h, std::size_t j) {
    const auto at = [&](std::size_t column) -> double {
      return x(0, position, h * width + column);
    };
    if (options.positions != Positions::kRotary) return at(j);
    const double rate = std::pow(options.rotary_base,
                                 -2.0 * static_cast<double>(j % half) / static_cast<double>(width));
    const double angle = static_cast<double>(position) * rate;
    const double a = at(j % half), b = at(j % half + half);
    return j < half ? a * std::cos(angle) - b * std::sin(angle)
                    : a * std::sin(angle) + b * std::cos(angle);
  };
  Tensor result = empty(q.shape());
  for (std::size_t h = 0; h < options.heads; ++h)
    for (std::size_t query = 0; query < q.shape()[1]; ++query) {
      double total = 0;
      std::vector<double> sums(width);
      for (std::size_t distance = 0; distance <= std::min(query, options.context - 1); ++distance) {
        const std::size_t key = query - distance;
        const std::size_t row =
            options.shaw_max_distance - std::min(distance, options.shaw_max_distance);
        double score = 0;
        for (std::size_t j = 0; j < width; ++j)
          score += rotated(q, query, h, j) *
                   (rotated(k, key, h, j) + (is_shaw ? model.shaw_keys->value()(row, j) : 0));
        score /= std::sqrt(static_cast<double>(width));
        if (options.positions == Positions::kAlibi)
          score -= slopes[h] * static_cast<double>(distance);
        if (options.positions == Positions::kT5)
          score += model.t5_table->value()(
              t5_bucket(distance, options.t5_buckets, options.t5_max_distance), h);
        total += std::exp(score);
        for (std::size_t j = 0; j < width; ++j)
          sums[j] += std::exp(score) * (v(0, key, h * width + j) +
                                        (is_shaw ? model.shaw_values->value()(row, j) : 0));
      }
      for (std::size_t j = 0; j < width; ++j)
        result(0, query, h * width + j) = static_cast<real>(sums[j] / total);
    }
  return result;
}

// Returns the logits [1, length, vocabulary] of a document that is longer than the context,
// computed in one pass.
Tensor banded_pass(WithMemories& model, const std::vector<std::int32_t>& text) {
  const EvaluationMode mode(model);
  Tape tape(Tape::kInference);
  const Ids all = ids({1, text.size()}, text);
  Variable x = model.token.forward(tape, all);
  for (std::size_t i = 0; i < model.options().layers; ++i) {
    TransformerBlock& block = model.blocks[i];
    x = model.before_block(i, x, {.ids = all, .kept = nullptr});
    const Variable y = block.norm1.forward(x);
    CausalSelfAttention& attention = block.attention;
    const Tensor attended =
        banded_attention(model, attention.query.forward(y).value(),
                         attention.key.forward(y).value(), attention.value.forward(y).value());
    x = x + attention.out.forward(tape.constant(attended));
    x = x + block.feed_forward.forward(block.norm2.forward(x));
  }
  return model.head.forward(model.norm.forward(x)).value();
}

Tensor row_of(const Tensor& logits, std::size_t position) {
  const std::size_t vocabulary = logits.shape()[2];
  Tensor row = empty({vocabulary});
  std::copy_n(logits.data() + position * vocabulary, vocabulary, row.data());
  return row;
}

std::vector<std::int32_t> long_text() {
  std::vector<std::int32_t> text(30);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int32_t>(i * i * i % 11);
  return text;
}

constexpr Positions kSliding[] = {Positions::kNone, Positions::kRotary, Positions::kAlibi,
                                  Positions::kT5, Positions::kShaw};

TEST(GptModel, SlidingDecoderEqualsBandedAttention) {
  const std::vector<std::int32_t> text = long_text();
  for (const Positions positions : kSliding)
    for (const std::size_t kernel : {1U, 4U}) {
      SCOPED_TRACE(concat("positions ", static_cast<int>(positions), ", kernel ", kernel));
      WithMemories model(positions, kernel);
      const Tensor expected = banded_pass(model, text);
      const auto within = model.decoder(), sliding = model.sliding_decoder();
      for (std::size_t i = 0; i < text.size(); ++i) {
        const auto next = std::span(text).subspan(i, 1);
        const Tensor logits = sliding->next_logits(next);
        expect_near(logits, row_of(expected, i), 500 * kEpsilon, concat("position ", i));
        if (i < model.context()) {
          EXPECT_EQ(logits, within->next_logits(next));
        }
      }
    }
}

TEST(GptModel, SlidingDecoderReadsChunksAndRecoversFromFailures) {
  const std::vector<std::int32_t> text = long_text();
  for (const Positions positions : kSliding) {
    SCOPED_TRACE(concat("positions ", static_cast<int>(positions)));
    WithMemories model(positions, 4);
    const Tensor expected = banded_pass(model, text);
    const auto decoder = model.sliding_decoder();
    std::size_t read = 0;
    for (const std::size_t count : {3, 9, 1, 17}) {
      const auto next = std::span(text).subspan(read, count);
      model.passes_left = static_cast<int>(count) / 4;
      EXPECT_THROW(decoder->next_logits(next), std::runtime_error);
      EXPECT_THROW(decoder->next_logits(std::vector<std::int32_t>{1, 11}), std::invalid_argument);
      read += count;
      expect_near(decoder->next_logits(next), row_of(expected, read - 1), 500 * kEpsilon,
                  concat("after ", read));
    }
  }
}

TEST(GptModel, SlidingGenerationReadsEachTokenOnce) {
  for (const Positions positions : kSliding) {
    SCOPED_TRACE(concat("positions ", static_cast<int>(positions)));
    WithMemories model(positions, 4);
    Random random(1);
    GenerateOptions options{.max_new_tokens = 28, .temperature = 0};
    const Ids prompt = ids({2}, {3, 1});
    const Ids again = generate(model, prompt, options, random);
    options.past_context = PastContext::kSlidingWindow;
    model.positions_read = 0;
    const Ids slid = generate(model, prompt, options, random);
    EXPECT_EQ(model.positions_read, 2 + 27U);
    EXPECT_TRUE(std::equal(slid.begin(), slid.begin() + 7, again.begin()));
    std::vector<std::int32_t> text{3, 1};
    text.insert(text.end(), slid.begin(), slid.end());
    const Ids most_likely = argmax(Tape().constant(banded_pass(model, text)), -1);
    for (std::size_t i = 1; i + 1 < text.size(); ++i)
      EXPECT_EQ(text[i + 1], most_likely.data()[i]) << i;
  }
}

TEST(GptModel, SlidingDecoderIsDeterministicForAnyThreadCount) {
  GptModel model({.vocabulary = 300,
                  .context = 32,
                  .width = 64,
                  .heads = 4,
                  .layers = 2,
                  .positions = Positions::kRotary},
                 Random(3));
  const std::vector<std::int32_t> text(100, 7);
  const auto logits = [&](int count) {
    const Threads threads(count);
    return model.sliding_decoder()->next_logits(text);
  };
  EXPECT_EQ(logits(1), logits(2));
}

TEST(GptModel, CannotSlideWithAbsolutePositions) {
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  const auto message = [](const char* positions) {
    return concat("GptModel: cannot slide past the context of 8 with ", positions,
                  " positions, expected rotary, alibi, t5, shaw or none");
  };
  GptModel learned(small(Positions::kLearned), Random(1));
  EXPECT_INVALID(message("learned"), learned.sliding_decoder());
  EXPECT_INVALID(message("learned"),
                 generate(learned, Ids{1}, {.past_context = PastContext::kSlidingWindow}, random));
  EXPECT_EQ(bits_of(random.state_dict()), before);
  GptModel sinusoidal(small(Positions::kSinusoidal), Random(1));
  EXPECT_INVALID(message("sinusoidal"), sinusoidal.sliding_decoder());
}

TEST(GptModel, MemoriesDoNotChangeOtherInitialWeights) {
  GptModel plain(small(Positions::kShaw), Random(3));
  WithMemories model(Positions::kShaw, 1);
  EXPECT_EQ(model.head.weight.value(), plain.head.weight.value());
  EXPECT_EQ(model.shaw_values->value(), plain.shaw_values->value());
  const Ids text = ids({2, 4}, kText);
  EXPECT_NE(model.attention_weights(text)[0], plain.attention_weights(text)[0]);
}

TEST(GptModel, RejectsBeforeBlockResultsOfAnotherShape) {
  WithMemories model(Positions::kNone, 1);
  model.doubles = true;
  Tape tape;
  EXPECT_ERROR(std::logic_error,
               "GptModel: before_block(0, …) returned shape [1, 8, 12], expected [1, 4, 12]",
               model.forward(tape, ids({1, 4}, {1, 2, 3, 4})));
}

TEST(GptModel, ReadmeExampleWorks) {
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
  for (const Batch& batch : loader.epoch(0)) {
    optimizer.zero_grad();
    Tape tape(random);
    tape.backward(model.loss(tape, batch));
    optimizer.step();
  }
  const Ids more =
      generate(model, prompt, {.max_new_tokens = 10, .temperature = 1.4, .top_k = 25}, random);
  const Tensor weights = model.attention_weights(prompt)[0];  // weights of the first block
  // [gpt]
  EXPECT_EQ(more.size(), 10U);
  EXPECT_EQ(weights.shape(), Shape({1, 3, 3, 3}));
}

TEST(GptModel, AcceptsAnyNumberOfAxesAndEmptyInput) {
  for (const Positions positions : kAll) {
    GptModel model(small(positions), Random(3));
    Tape tape;
    const Variable flat = model.forward(tape, ids({2, 4}, kText));
    const Variable deep = model.forward(tape, ids({2, 1, 4}, kText));
    EXPECT_EQ(deep.shape(), Shape({2, 1, 4, 11}));
    EXPECT_EQ(deep.value(), reshape(flat, deep.shape()).value());
    const Variable none = model.forward(tape, Ids::from_shape({2, 0}));
    EXPECT_EQ(none.shape(), Shape({2, 0, 11}));
    EXPECT_NO_THROW(tape.backward(none, zeros({2, 0, 11}))) << static_cast<int>(positions);
  }
}

TEST(GptModel, ReadsAndReturnsAttentionInEvaluationMode) {
  for (const Positions positions : kAll) {
    GptOptions options = small(positions);
    options.dropout = 0.5;
    GptModel model(options, Random(3));
    EXPECT_EQ(model.decoder()->next_logits(kText), model.decoder()->next_logits(kText));
    const auto weights = model.attention_weights(ids({2, 4}, kText));
    EXPECT_EQ(model.attention_weights(ids({2, 4}, kText)), weights);
    EXPECT_TRUE(model.training());
    ASSERT_EQ(weights.size(), options.layers);
    for (const Tensor& of_block : weights) {
      EXPECT_EQ(of_block.shape(), Shape({2, options.heads, 4, 4}));
      EXPECT_NEAR(xt::sum(of_block)(), 2.0 * 3 * 4, 1e-5);  // 1 for each query
    }
  }
}

TEST(FeedForward, HasNoDropoutByDefault) {
  Random random(1);
  FeedForward layer(8, random);
  Tape tape(random);
  const Variable x = tape.constant(irregular({3, 8}));
  const Tensor trained = layer.forward(x).value();
  layer.eval();
  EXPECT_EQ(layer.forward(x).value(), trained);
}

TEST(GptModel, InitializesLikeGpt2) {
  GptOptions options = small(Positions::kLearned);
  options.width = 60;
  options.vocabulary = 500;
  options.initialization = Initialization::kGpt2;
  GptModel model(options, Random(1));
  const auto expect_stddev = [](const Parameter& parameter, double expected, double tolerance) {
    double squares = 0;
    for (const real x : parameter.value()) squares += static_cast<double>(x) * x;
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(parameter.size())), expected, tolerance)
        << parameter.name();
  };
  expect_stddev(model.token.weight, 0.02, 5e-4);
  expect_stddev(model.blocks[1].attention.query.weight, 0.02, 1e-3);
  expect_stddev(model.blocks[1].attention.out.weight, 0.01, 5e-4);
  expect_stddev(model.blocks[1].feed_forward.down.weight, 0.01, 5e-4);
  expect_stddev(*model.blocks[1].feed_forward.down.bias, 0, 0);
  expect_stddev(model.norm.weight, 1, 0);
}

TEST(GptModel, Gpt2InitializationRejectsTableFilesUnchanged) {
  TemporaryFolder folder;
  TableFile file(folder / "table", {.rows = 11, .width = 3});
  GptOptions options = small(Positions::kNone);
  options.memories = {.blocks = {1},
                      .ngrams = {.orders = {2}, .heads = 1, .rows = 11},
                      .memory = {.head_width = 3},
                      .files = {&file}};
  GptModel model(options, Random(1));
  const Tensor before = model.token.weight.copy();
  Random random(1);
  EXPECT_INVALID(
      "initialize_as_gpt2 draws all values, which needs all rows in memory, but the rows of "
      "memories.0.table.weight are in " +
          file.path().string(),
      initialize_as_gpt2(model, 2, random));
  EXPECT_EQ(model.token.weight.value(), before);
}

TEST(GptModel, RejectsInvalidArguments) {
  const auto message = [](const GptOptions& options) {
    return error_of<std::invalid_argument>([&] { GptModel(options, Random(1)); });
  };
  GptOptions options = small(Positions::kLearned);
  options.layers = 0;
  EXPECT_EQ(message(options),
            "GptModel: vocabulary is 11, context is 8 and layers is 0, expected all above 0");
  options.layers = 1;
  options.heads = 5;
  EXPECT_EQ(message(options),
            "CausalSelfAttention: width is 12, expected a multiple of heads (5), both above 0");
  options = small(Positions::kShaw);
  options.shaw_max_distance = std::size_t{1} << 63;
  EXPECT_EQ(message(options),
            "GptModel: shaw_max_distance is 9223372036854775808, expected less than 2^30");
  options = small(Positions::kLearned);
  GptModel model(options, Random(1));
  Random random(1);
  EXPECT_INVALID("initialize_as_gpt2: layers is 0, expected at least 1",
                 initialize_as_gpt2(model, 0, random));
  Tape tape;
  EXPECT_INVALID(
      "GptModel: ids have shape [9], expected [..., length] with a length of at most the "
      "context, 8",
      model.forward(tape, Ids::from_shape({9})));
}

#ifdef ROWGRAD_DOUBLE
TEST(GptModel, PassesGradientCheck) {
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
            return model.loss(tape, ids({2, 4}, kText), ids({2, 4}, {2, 3, 4, 5, 6, 6, 0, 1}));
          },
          model.parameters());
      EXPECT_TRUE(result.passed) << static_cast<int>(positions) << ' ' << result.message();
    }
}
#else
// Compares with the values that "Build a Large Language Model From Scratch" prints in chapter 4 for
// PyTorch's seed 123.
TEST(Textbook, AnUntrainedGptMatchesTheBook) {
  Random random(123);
  GptModel model({.dropout = 0.1}, random);
  EXPECT_EQ(model.parameter_count(), 163'009'536U);
  {
    Tape tape(random, Tape::kInference);  // with dropout
    const Tensor logits =
        model.forward(tape, ids({2, 4}, {6109, 3626, 6100, 345, 6109, 1110, 6622, 257})).value();
    const real* const first = logits.data();
    const real* const last = first + logits.size() - 1;
    expect_near(Tensor{first[0], first[1], first[2], last[-2], last[-1], last[0]},
                tensor({6}, {.3613, .4222, -.0711, 1.2630, -.1858, .0388}),
                0.5e-4 + 1e-6);  // four decimals are printed
  }
  const Ids words = generate(model, ids({4}, {15496, 11, 314, 716}),
                             {.max_new_tokens = 10, .temperature = 0}, random);
  EXPECT_EQ(std::vector<std::int32_t>(words.begin(), words.end()),
            (std::vector<std::int32_t>{27018, 24086, 47843, 30961, 42348, 7267, 49706, 43231, 47062,
                                       34657}));
}
#endif

}  // namespace
