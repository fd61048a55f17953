#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/gradients.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/core/ops/selection.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

using testing::bits_of;
using testing::error_of;
using testing::expect_gradients;
using testing::expect_near;
using testing::gradients_of;
using testing::irregular;
using testing::kEpsilon;

using Inputs = std::span<const Variable>;

struct AttentionCase {
  std::size_t batch, heads, queries, keys, width;
  bool bias = false;
  double p = 0;
  bool causal = true;
  std::vector<std::size_t> key_lengths = {};

  std::string what() const {
    return concat("batch ", batch, ", heads ", heads, ", queries ", queries, ", keys ", keys,
                  ", width ", width, ", bias ", bias, ", p ", p, ", causal ", causal,
                  ", key_lengths ", bracketed(key_lengths));
  }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all{irregular({batch, queries, heads * width}, 1),
                            irregular({batch, keys, heads * width}, 2),
                            irregular({batch, keys, heads * width}, 3)};
    if (bias) all.push_back(irregular({heads, keys + 2}, 4));
    return all;
  }
};

AttentionOptions options_of(Inputs in, const AttentionCase& item) {
  return {.heads = item.heads,
          .dropout_p = item.p,
          .key_lengths = item.key_lengths,
          .distance_bias = in.size() > 3 ? std::optional(in[3]) : std::nullopt};
}

Variable fused(Inputs in, const AttentionCase& item) {
  const AttentionOptions options = options_of(in, item);
  return item.causal ? causal_attention(in[0], in[1], in[2], options)
                     : attention(in[0], in[1], in[2], options);
}

// The distance from each query back to each key, 0 for later keys, and whether a key is not seen.
struct Distances {
  Ids distance;
  Tensor is_unseen;

  explicit Distances(const AttentionCase& item)
      : distance(Ids::from_shape({item.queries, item.keys})),
        is_unseen(empty({item.batch, 1, item.queries, item.keys})) {
    for (std::size_t i = 0; i < item.queries; ++i)
      for (std::size_t j = 0; j < item.keys; ++j) {
        const std::size_t position = i + item.keys - item.queries;
        const bool later = item.causal && j > position;
        distance(i, j) = later || !item.causal ? 0 : static_cast<std::int32_t>(position - j);
        for (std::size_t b = 0; b < item.batch; ++b)
          is_unseen(b, 0, i, j) = later || (!item.key_lengths.empty() && j >= item.key_lengths[b]);
      }
  }
};

// The ops that attention replaces.
Variable plain(Inputs in, const AttentionCase& item) {
  const Distances distances(item);
  const auto by_head = [&](const Variable& x) {
    return transpose(reshape(x, {item.batch, x.shape()[1], item.heads, item.width}), 1, 2);
  };
  Variable scores =
      matmul(by_head(in[0]), transpose(by_head(in[1]))) / std::sqrt(static_cast<real>(item.width));
  if (in.size() > 3)
    scores = scores + permute(embedding(transpose(in[3]), distances.distance), {2, 0, 1});
  const Variable seen = masked_fill(scores, scores.tape().constant(distances.is_unseen),
                                    -std::numeric_limits<real>::infinity());
  const Variable mixed = matmul(dropout(softmax(seen), item.p), by_head(in[2]));
  return reshape(transpose(mixed, 1, 2), in[0].shape());
}

// The largest differences that rounding explains between two ways of computing an attention of
// numbers in (−1, 1), with an upstream gradient below 1.5, for the output and for the gradients of
// q, k, v and the bias. Each sum of n products errs by at most n epsilon of the sum of their sizes.
struct Tolerance {
  double output;
  std::vector<double> gradients;

  explicit Tolerance(const AttentionCase& item) {
    const auto width = static_cast<double>(item.width);
    const auto keys = static_cast<double>(item.keys);
    const auto queries = static_cast<double>(item.queries);
    const double kept = item.p < 1 ? 1 / (1 - item.p) : 0;
    // A score is at most √width + 1; the weights, relatively, err as the scores do, and by an
    // exponential and a sum over the keys on top of that.
    const double of_score = (width + 4) * (std::sqrt(width) + 1) * kEpsilon;
    const double of_weight = 2 * of_score + (12 + keys) * kEpsilon;
    output = kept * (of_weight + keys * kEpsilon);
    // The gradient of a score is its weight times a difference of two sums of `width` products;
    // over the keys, weights add up to 1.
    const double upstream = 1.5 * kept;
    const double of_scores = 2 * upstream * width * (of_weight + 2 * (width + keys) * kEpsilon);
    const double of_q = of_scores / std::sqrt(width);
    gradients = {of_q, queries * of_q + queries * queries * upstream * std::sqrt(width) * kEpsilon,
                 upstream * queries * (of_weight + queries * kEpsilon),
                 static_cast<double>(item.batch) * queries * (of_scores + queries * kEpsilon)};
  }
};

void expect_plain(const AttentionCase& item) {
  const std::vector<Tensor> inputs = item.inputs();
  const auto value_of = [&](const auto& op) {
    Random random(7);
    Tape tape(random, Tape::inference);
    std::vector<Variable> variables;
    for (const Tensor& input : inputs) variables.push_back(tape.constant(input));
    return op(variables, item).value();
  };
  const Tolerance tolerance(item);
  expect_near(value_of(fused), value_of(plain), tolerance.output, item.what());
  const auto of_plain = gradients_of([&](Inputs in) { return plain(in, item); }, inputs);
  const auto of_fused = gradients_of([&](Inputs in) { return fused(in, item); }, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_near(of_fused[i].dense(), Gradient(of_plain[i]).take_dense(), tolerance.gradients[i],
                concat(item.what(), ", input ", i));
}

// Around the sizes at which the kernel begins a new vector, panel, tile or block.
constexpr std::size_t kLengths[] = {1, 2, 31, 32, 33, 47, 48, 49, 63, 64, 65, 129};

TEST(CausalAttention, AgreesWithTheOpsThatItReplaces) {
  std::size_t turn = 0;
  for (const std::size_t length : kLengths)
    for (const std::size_t width : {1U, 3U, 8U, 64U, 80U}) {
      ++turn;
      expect_plain({turn % 3 + 1, (turn + turn / 3) % 3 + 1, length, length, width, turn % 2 == 0,
                    turn % 4 < 2 ? 0 : 0.3});
    }
}

TEST(CausalAttention, TakesQueriesThatAreTheLastOfTheKeys) {
  for (const std::size_t keys : {1U, 5U, 33U, 64U, 130U})
    for (const std::size_t queries : {1U, 4U, 33U, 100U})
      if (queries <= keys)
        for (const bool bias : {false, true})
          expect_plain({2, 2, queries, keys, 5, bias, bias ? 0.2 : 0});
}

TEST(Attention, AgreesWithTheOpsThatItReplaces) {
  std::size_t turn = 0;
  for (const std::size_t keys : kLengths)
    for (const std::size_t queries : {1U, 33U, 100U}) {
      ++turn;
      const double p = turn % 3 == 0 ? 0.3 : 0;
      expect_plain({2, turn % 2 + 1, queries, keys, 5, false, p, false});
      expect_plain({2, 2, queries, keys, 3, false, p, false, {keys, keys / 2 + 1}});
      if (queries <= keys)
        expect_plain({2, 2, queries, keys, 3, true, p, true, {keys / 2 + 1, keys}});
    }
}

// A text of a batch has the bits that it has alone, whatever its padding: here NaN.
TEST(Attention, GivesPaddedTextsTheBitsThatTheyHaveAlone) {
  constexpr std::size_t kKeys = 130;
  const std::vector<std::size_t> lengths{1, 33, 97, kKeys};
  for (const bool causal : {false, true}) {
    const AttentionCase item{lengths.size(), 2, kKeys, kKeys, 5, causal, 0, causal, lengths};
    std::vector<Tensor> inputs = item.inputs();
    const Tensor upstream = irregular(inputs[0].shape(), 9);
    // The first `length` rows of text b.
    const auto text = [](const Tensor& x, std::size_t b, std::size_t length) {
      const std::size_t width = x.shape()[2];
      Tensor result = empty({1, length, width});
      std::copy_n(x.data() + b * kKeys * width, length * width, result.data());
      return result;
    };
    const auto run = [](const AttentionCase& of, const std::vector<Tensor>& from,
                        const Tensor& gradient) {
      Tape tape;
      std::vector<Variable> in;
      for (const Tensor& input : from) in.push_back(tape.input(input));
      const Variable y = fused(in, of);
      tape.backward(y, gradient);
      std::vector<Tensor> results{y.value()};
      for (std::size_t i = 0; i < 3; ++i) results.push_back(tape.gradient(in[i]).dense());
      return results;
    };
    std::vector<Tensor> filled = inputs;
    for (std::size_t i = 1; i < 3; ++i)
      for (std::size_t b = 0; b < lengths.size(); ++b)
        for (std::size_t key = lengths[b]; key < kKeys; ++key)
          filled[i](b, key, 3) = std::numeric_limits<real>::quiet_NaN();
    const auto together = run(item, filled, upstream);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      // A causal text alone has as many queries as keys; here those of the padding do not count.
      const std::size_t queries = causal ? lengths[b] : kKeys;
      Tensor counted = text(upstream, b, queries);
      AttentionCase alone{1, 2, queries, lengths[b], 5, causal, 0, causal};
      std::vector<Tensor> own{text(inputs[0], b, queries), text(inputs[1], b, lengths[b]),
                              text(inputs[2], b, lengths[b])};
      if (causal) own.push_back(inputs[3]);
      const auto expected = run(alone, own, counted);
      EXPECT_EQ(text(together[0], b, queries), expected[0]) << item.what() << b;
      EXPECT_EQ(text(together[1], b, queries), expected[1]) << item.what() << b;
      for (std::size_t i = 2; i < 4; ++i) {
        if (!causal) {
          EXPECT_EQ(text(together[i], b, lengths[b]), expected[i]) << item.what() << b;
        }
        const Tensor all = text(together[i], b, kKeys);
        for (std::size_t k = lengths[b] * 10; k < all.size(); ++k) ASSERT_EQ(all.data()[k], 0);
      }
    }
  }
}

TEST(CausalAttention, GivesTheLastQueriesTheBitsThatTheyHaveAmongAll) {
  const AttentionCase item{2, 3, 130, 130, 20, true};
  const std::vector<Tensor> inputs = item.inputs();
  Tape tape(Tape::inference);
  const auto in = [&](std::size_t i) { return tape.constant(inputs[i]); };
  const AttentionOptions options{.heads = 3, .distance_bias = in(3)};
  const Variable all = causal_attention(in(0), in(1), in(2), options);
  for (const std::ptrdiff_t count : {1, 2, 13, 64, 129})
    EXPECT_EQ(causal_attention(slice(in(0), 1, -count), in(1), in(2), options).value(),
              slice(all, 1, -count).value())
        << count;
}

TEST(CausalAttention, HasTheGradientsOfDifferenceQuotients) {
  const std::vector<AttentionCase> cases{{1, 1, 1, 1, 1},
                                         {2, 2, 5, 5, 3, true},
                                         {1, 3, 4, 4, 2, true, 0.3},
                                         {2, 1, 3, 6, 4, true},
                                         {1, 2, 35, 35, 2, true},
                                         {1, 1, 6, 6, 3, false, 1},
                                         {2, 2, 5, 4, 3, false, 0.3, false},
                                         {2, 1, 3, 35, 2, false, 0, false, {34, 1}},
                                         {2, 2, 4, 6, 3, true, 0, true, {1, 5}}};
  for (const AttentionCase& item : cases)
    expect_gradients([&](Inputs in) { return fused(in, item); }, item.inputs(), item.what());
}

TEST(CausalAttention, HasTheSameBitsForAnyNumberOfThreads) {
  for (const AttentionCase& item :
       {AttentionCase{2, 3, 130, 130, 24, true, 0.1}, AttentionCase{1, 1, 150, 200, 33, true},
        AttentionCase{2, 1, 150, 90, 24, false, 0.1, false, {90, 31}}}) {
    const auto run = [&](int threads) {
      const testing::Threads scope(threads);
      auto result = gradients_of([&](Inputs in) { return fused(in, item); }, item.inputs());
      Tape tape(Tape::inference);
      std::vector<Variable> in;
      for (const Tensor& input : item.inputs()) in.push_back(tape.constant(input));
      AttentionCase kept = item;
      kept.p = 0;
      result.push_back(fused(in, kept).value());
      return result;
    };
    const auto expected = run(1);
    for (const int threads : {2, 3}) {
      const auto got = run(threads);
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i].dense(), expected[i].dense()) << threads << " threads, " << i;
    }
  }
}

// PyTorch's numbers in double precision; their inputs are in closed form.
TEST(CausalAttention, GivesTheNumbersOfPyTorch) {
  using testing::wave;
  const nlohmann::json file = testing::golden("gpt_ops.json");
  std::size_t cases = 0;
  for (const nlohmann::json& item : file["cases"]) {
    const auto name = item["name"].get<std::string>();
    if (!name.starts_with("causal_attention") || name.find("rope") != std::string::npos) continue;
    ++cases;
    const auto shape = item["output_shape"].get<std::vector<std::size_t>>();
    const AttentionCase sizes{shape[0], shape[1], shape[2], shape[2], shape[3]};
    const Shape by_head(shape.begin(), shape.end());
    const bool t5 = item["gradients"].contains("table");
    std::vector<Tensor> inputs{wave(by_head, 0.7, 0.1, 1.5), wave(by_head, 0.6, 0.9, 1.5),
                               wave(by_head, 0.5, 0.4, 1.0)};
    if (t5) inputs.push_back(wave({8, sizes.heads}, 0.8, 0.6, 1.0));

    Tape tape;
    std::vector<Variable> in;
    for (const Tensor& input : inputs) in.push_back(tape.input(input));
    const auto rows = [&](const Variable& x) {
      return reshape(transpose(x, 1, 2), {shape[0], shape[2], shape[1] * shape[3]});
    };
    AttentionOptions options{.heads = sizes.heads};
    if (t5) options.distance_bias = t5_bias(in[3], sizes.keys, 32);
    if (name.find("alibi") != std::string::npos)
      options.distance_bias = tape.constant(alibi_bias(sizes.heads, sizes.keys));
    const Variable output =
        transpose(reshape(causal_attention(rows(in[0]), rows(in[1]), rows(in[2]), options),
                          {shape[0], shape[2], shape[1], shape[3]}),
                  1, 2);
    tape.backward(output, wave(by_head, 0.23, 0.4, 1.0));

    // In float, inputs are rounded as well; they and the upstream gradient are at most 1.5, so
    // scores are at most 2.25 √width instead of √width + 1.
    const Tolerance rounding(sizes);
    const double exact = 1e-12;
    const bool is_double = sizeof(real) == 8;
    const auto near = [&](const Tensor& got, const nlohmann::json& numbers, double bound) {
      Tensor expected = testing::tensor_from(numbers);
      expected.reshape(got.shape());
      expect_near(got, expected, is_double ? exact : 6 * bound, name);
    };
    near(output.value(), item["output"], rounding.output);
    const char* const names[] = {"q", "k", "v", "table"};
    for (std::size_t i = 0; i < in.size(); ++i)
      near(Gradient(tape.gradient(in[i])).take_dense(), item["gradients"][names[i]],
           rounding.gradients[i]);
  }
  EXPECT_EQ(cases, 6U);
}

TEST(CausalAttention, SeesNoLaterKeys) {
  const AttentionCase item{1, 2, 70, 70, 6};
  std::vector<Tensor> inputs = item.inputs();
  const auto run = [&] {
    Tape tape(Tape::inference);
    return fused(std::vector{tape.constant(inputs[0]), tape.constant(inputs[1]),
                             tape.constant(inputs[2])},
                 item)
        .value();
  };
  const Tensor before = run();
  for (const std::size_t i : {0U, 33U, 69U}) {
    const std::vector<Tensor> original = inputs;
    inputs[1](0, i, 3) += 1;
    inputs[2](0, i, 9) -= 1;
    const Tensor after = run();
    for (std::size_t t = 0; t < 70; ++t) {
      bool same = true;
      for (std::size_t c = 0; c < 12; ++c) same &= before(0, t, c) == after(0, t, c);
      EXPECT_EQ(same, t < i) << i << ", query " << t;
    }
    inputs = original;
  }
}

TEST(CausalAttention, DrawsABitForEveryWeightInTheOrderOfMemory) {
  const AttentionCase item{2, 2, 5, 5, 3, false, 0.4};
  const std::vector<Tensor> inputs = item.inputs();
  Random random(3);
  Random expected(3);
  for (int i = 0; i < 2 * 2 * 2 * 5 * 5; ++i) expected.bits();
  Tape tape(random, Tape::inference);
  fused(std::vector{tape.constant(inputs[0]), tape.constant(inputs[1]), tape.constant(inputs[2])},
        item);
  EXPECT_TRUE(bits_of(random.state_dict()) == bits_of(expected.state_dict()));
}

TEST(CausalAttention, DoesNotOverflowAndTakesKeysThatAreRuledOut) {
  const real never = -std::numeric_limits<real>::infinity();
  const AttentionCase item{2, 2, 70, 70, 4, true};
  std::vector<Tensor> inputs = item.inputs();
  inputs[0] = Tensor(inputs[0] * real{100});  // scores up to 20,000
  inputs[1] = Tensor(inputs[1] * real{100});
  for (std::size_t distance = 5; distance < 72; ++distance) inputs[3](1, distance) = never;
  const auto gradients = gradients_of([&](Inputs in) { return fused(in, item); }, inputs);
  for (const Gradient& gradient : gradients)
    for (const real number : gradient.dense()) ASSERT_TRUE(std::isfinite(number));
  for (std::size_t distance = 5; distance < 72; ++distance)
    EXPECT_EQ(gradients[3].dense()(1, distance), 0);
}

TEST(CausalAttention, KeepsTheDigitsOfLargeScoresThatDifferLittle) {
  // 1 / √width, and every score, is a power of two or a sum of few: what both keys share, 2^14,
  // must not cost their difference, 1/8, its digits.
  Tape tape;
  const Variable q = tape.input(testing::tensor({1, 1, 4}, {256, 1, 0, 0}));
  const Variable k = tape.input(testing::tensor({1, 2, 4}, {128, 0, 0, 0, 128, 0.25, 0, 0}));
  const Variable v = tape.input(testing::tensor({1, 2, 4}, {0, 0, 0, 0, 1, 0, 0, 0}));
  const Variable y = causal_attention(q, k, v, {.heads = 1});
  const double weight = 1 / (1 + std::exp(-0.125));
  EXPECT_NEAR(y.value()(0, 0, 0), weight, 4 * kEpsilon);
  tape.backward(y, testing::tensor({1, 1, 4}, {1, 0, 0, 0}));
  EXPECT_NEAR(tape.gradient(v).dense()(0, 1, 0), weight, 4 * kEpsilon);
  EXPECT_NEAR(tape.gradient(q).dense()(0, 0, 1), weight * (1 - weight) / 8, kEpsilon);
}

TEST(CausalAttention, LetsNaNReachTheQueriesThatSeeIt) {
  const AttentionCase item{1, 1, 40, 40, 3};
  for (const std::size_t input : {1U, 2U}) {
    std::vector<Tensor> inputs = item.inputs();
    inputs[input](0, 33, 1) = std::numeric_limits<real>::quiet_NaN();
    Tape tape(Tape::inference);
    const Tensor y = fused(std::vector{tape.constant(inputs[0]), tape.constant(inputs[1]),
                                       tape.constant(inputs[2])},
                           item)
                         .value();
    for (std::size_t t = 33; t < 40; ++t) EXPECT_TRUE(std::isnan(y(0, t, 1))) << t;
    // Where scores are NaN, earlier queries do not see them.
    for (std::size_t t = 0; t < 33 && input == 1; ++t) EXPECT_FALSE(std::isnan(y(0, t, 1))) << t;
  }
}

TEST(CausalAttention, TakesNoQueriesAndNoBatch) {
  for (const AttentionCase& item :
       {AttentionCase{2, 2, 0, 0, 3, true, 0.5}, AttentionCase{0, 2, 4, 4, 3, true, 0.5},
        AttentionCase{2, 2, 0, 5, 3, true, 0.5}}) {
    const auto gradients = gradients_of([&](Inputs in) { return fused(in, item); }, item.inputs());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      EXPECT_EQ(gradients[i].dense(), zeros(item.inputs()[i].shape())) << item.what() << ' ' << i;
  }
}

TEST(CausalAttention, KeepsNothingOnAnInferenceTape) {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
  GTEST_SKIP() << "the pool keeps nothing under AddressSanitizer";
#endif
  Tape tape(Tape::inference);
  const Variable x = tape.constant(irregular({1, 2048, 4}));
  const std::size_t before = BufferPool::statistics().bytes_in_use;
  BufferPool::release_idle();
  causal_attention(x, x, x, {.heads = 4});
  EXPECT_LE(BufferPool::statistics().bytes_in_use - before, 2048U * 4 * sizeof(real));
  // Nor does it use a table of length × length on the way.
  EXPECT_LT(BufferPool::statistics().bytes_idle, 2048U * 2048 * sizeof(real) / 2);
}

TEST(AttentionWeights, AreThoseThatMixTheValues) {
  const AttentionCase item{2, 3, 5, 7, 4, true, 0, true, {7, 4}};
  const std::vector<Tensor> inputs = item.inputs();
  Tape tape;
  std::vector<Variable> in;
  for (const Tensor& input : inputs) in.push_back(tape.input(input));
  const Tensor weights = attention_weights(in[0], in[1], options_of(in, item));
  ASSERT_EQ(weights.shape(), Shape({2, 3, 5, 7}));
  const Tensor y = fused(in, item).value();
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t h = 0; h < 3; ++h)
      for (std::size_t i = 0; i < 5; ++i) {
        double total = 0;
        for (std::size_t j = 0; j < 7; ++j) {
          EXPECT_EQ(weights(b, h, i, j) == 0, j > i + 2 || j >= item.key_lengths[b]);
          total += weights(b, h, i, j);
        }
        EXPECT_NEAR(total, 1, 7 * kEpsilon);
        for (std::size_t c = 0; c < 4; ++c) {
          double mixed = 0;
          for (std::size_t j = 0; j < 7; ++j)
            mixed += static_cast<double>(weights(b, h, i, j)) * inputs[2](b, j, h * 4 + c);
          EXPECT_NEAR(y(b, i, h * 4 + c), mixed, Tolerance(item).output);
        }
      }
}

TEST(CausalAttention, RefusesWhatDoesNotFit) {
  Random random(1);
  const std::string state = bits_of(random.state_dict());
  Tape tape(random);
  const auto apply = [&](const Shape& q, const Shape& k, const Shape& v, std::size_t heads,
                         double p = 0, std::optional<Shape> bias = std::nullopt) {
    return error_of<std::invalid_argument>([&] {
      AttentionOptions options{.heads = heads, .dropout_p = p};
      if (bias) options.distance_bias = tape.input(zeros(*bias));
      causal_attention(tape.input(zeros(q)), tape.input(zeros(k)), tape.input(zeros(v)), options);
    });
  };
  const Shape x{2, 5, 6};
  EXPECT_EQ(apply(x, x, x, 0), "causal_attention: heads is 0");
  EXPECT_EQ(apply({5, 6}, x, x, 2),
            "causal_attention: q has shape [5, 6], expected [batch, queries, heads · width] for 2 "
            "heads");
  EXPECT_EQ(apply(x, x, x, 4),
            "causal_attention: q has shape [2, 5, 6], expected [batch, queries, heads · width] for "
            "4 heads");
  EXPECT_EQ(apply({2, 5, 0}, {2, 5, 0}, {2, 5, 0}, 2),
            "causal_attention: q has shape [2, 5, 0], expected [batch, queries, heads · width] for "
            "2 heads");
  EXPECT_EQ(
      apply(x, {2, 4, 6}, {2, 4, 6}, 2),
      "causal_attention: k has shape [2, 4, 6], expected [2, keys, 6] with no fewer keys than "
      "the 5 queries");
  EXPECT_EQ(
      apply(x, {1, 5, 6}, x, 2),
      "causal_attention: k has shape [1, 5, 6], expected [2, keys, 6] with no fewer keys than "
      "the 5 queries");
  EXPECT_EQ(apply(x, x, {2, 5, 4}, 2),
            "causal_attention: v has shape [2, 5, 4], expected that of k, [2, 5, 6]");
  EXPECT_EQ(apply(x, x, x, 2, 1.5), "causal_attention: dropout_p is 1.5, expected 0 to 1");
  EXPECT_EQ(apply(x, x, x, 2, std::numeric_limits<double>::quiet_NaN()),
            "causal_attention: dropout_p is nan, expected 0 to 1");
  EXPECT_EQ(
      apply(x, x, x, 2, 0.1, Shape{2, 4}),
      "causal_attention: distance_bias has shape [2, 4], expected [2, distances] with no fewer "
      "distances than the 5 keys");
  EXPECT_EQ(
      apply(x, x, x, 2, 0.1, Shape{3, 5}),
      "causal_attention: distance_bias has shape [3, 5], expected [2, distances] with no fewer "
      "distances than the 5 keys");
  EXPECT_TRUE(bits_of(random.state_dict()) == state);
  Tape plain_tape;
  const Variable y = plain_tape.input(zeros(x));
  EXPECT_NE(error_of<std::logic_error>([&] {
              causal_attention(y, y, y, {.heads = 2, .dropout_p = 0.1});
            }).find("causal_attention"),
            std::string::npos);
}

}  // namespace
}  // namespace rowgrad
