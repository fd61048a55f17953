#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/gradients.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/selection.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::expect_near;
using testing::gradients_of;
using testing::irregular;
using testing::kEpsilon;

using Inputs = std::span<const Variable>;

struct RelativeCase {
  std::size_t batch, heads, queries, keys, width, distances;
  double p = 0;
  bool bias = false;

  std::string what() const {
    return concat("batch ", batch, ", heads ", heads, ", queries ", queries, ", keys ", keys,
                  ", width ", width, ", distances ", distances, ", p ", p, ", bias ", bias);
  }
  std::vector<Tensor> inputs() const {
    std::vector<Tensor> all{irregular({batch, queries, heads * width}, 1),
                            irregular({batch, keys, heads * width}, 2),
                            irregular({batch, keys, heads * width}, 3),
                            irregular({distances, width}, 4), irregular({distances, width}, 5)};
    if (bias) all.push_back(irregular({heads, keys}, 6));
    return all;
  }
};

AttentionOptions options_of(Inputs in, const RelativeCase& item) {
  AttentionOptions options{
      .heads = item.heads, .dropout_p = item.p, .relative = RelativeRows{in[3], in[4]}};
  if (item.bias) options.distance_bias = in[5];
  return options;
}

Variable fused_relative(Inputs in, const RelativeCase& item) {
  return causal_attention(in[0], in[1], in[2], options_of(in, item));
}

// By the definition: each query has its own keys and values [batch, heads, queries, keys, width].
Variable plain_relative(Inputs in, const RelativeCase& item) {
  Ids row = Ids::from_shape({item.queries, item.keys});
  Ids distance = row;
  Tensor is_later = empty({item.queries, item.keys});
  for (std::size_t i = 0; i < item.queries; ++i)
    for (std::size_t j = 0; j < item.keys; ++j) {
      const std::size_t position = i + item.keys - item.queries;
      is_later(i, j) = j > position;
      const std::size_t back = j > position ? 0 : position - j;
      distance(i, j) = static_cast<std::int32_t>(back);
      row(i, j) =
          static_cast<std::int32_t>(item.distances - 1 - std::min(back, item.distances - 1));
    }
  const auto by_head = [&](const Variable& x) {
    return transpose(reshape(x, {item.batch, x.shape()[1], item.heads, item.width}), 1, 2);
  };
  const auto seen = [&](const Variable& x, const Variable& table) {
    return unsqueeze(by_head(x), 2) + embedding(table, row);
  };
  Variable scores = sum(unsqueeze(by_head(in[0]), 3) * seen(in[1], in[3]), {-1}) /
                    std::sqrt(static_cast<real>(item.width));
  if (item.bias) scores = scores + permute(embedding(transpose(in[5]), distance), {2, 0, 1});
  const Variable weights = dropout(softmax(masked_fill(scores, in[0].tape().constant(is_later),
                                                       -std::numeric_limits<real>::infinity())),
                                   item.p);
  const Variable mixed = sum(unsqueeze(weights, 4) * seen(in[2], in[4]), {3});
  return reshape(transpose(mixed, 1, 2), in[0].shape());
}

// The largest differences that rounding explains, as for attention without relative rows: keys and
// values with their rows are below 2, the upstream gradient is below 1.5.
struct RelativeTolerance {
  double output;
  std::vector<double> gradients;  // of q, k, v, relative keys and values, bias

  explicit RelativeTolerance(const RelativeCase& item) {
    const auto width = static_cast<double>(item.width);
    const auto keys = static_cast<double>(item.keys);
    const auto queries = static_cast<double>(item.queries);
    const double of_all = static_cast<double>(item.batch * item.heads) * queries;
    const double kept = 1 / (1 - item.p);
    const double of_score = 2 * (width + 5) * (std::sqrt(width) + 1) * kEpsilon;
    const double of_weight = 2 * of_score + (12 + keys) * kEpsilon;
    output = 2 * kept * (of_weight + keys * kEpsilon);
    const double upstream = 1.5 * kept;
    const double of_scores = 4 * upstream * width * (of_weight + 2 * (width + keys) * kEpsilon);
    const double of_q = 2 * of_scores / std::sqrt(width);
    const auto sum = [&](double terms, double of_each, double each) {
      return terms * (of_each + terms * each * kEpsilon);
    };
    const double score = 4 * upstream * std::sqrt(width);
    gradients = {of_q,
                 sum(queries, of_q, score),
                 sum(queries, upstream * of_weight, upstream),
                 sum(of_all, of_q, score),
                 sum(of_all, upstream * of_weight, upstream),
                 sum(of_all, of_scores, score)};
  }
};

void expect_plain_relative(const RelativeCase& item) {
  const std::vector<Tensor> inputs = item.inputs();
  const auto value_of = [&](const auto& op) {
    Random random(7);
    Tape tape(random, Tape::inference);
    std::vector<Variable> variables;
    for (const Tensor& input : inputs) variables.push_back(tape.constant(input));
    return op(variables, item).value();
  };
  const RelativeTolerance tolerance(item);
  expect_near(value_of(fused_relative), value_of(plain_relative), tolerance.output, item.what());
  const auto of_plain = gradients_of([&](Inputs in) { return plain_relative(in, item); }, inputs);
  const auto of_fused = gradients_of([&](Inputs in) { return fused_relative(in, item); }, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    expect_near(of_fused[i].dense(), Gradient(of_plain[i]).take_dense(), tolerance.gradients[i],
                concat(item.what(), ", input ", i));
}

TEST(RelativeAttention, AgreesWithKeysAndValuesForEachQuery) {
  std::size_t turn = 0;
  for (const std::size_t length : {1U, 2U, 17U, 33U, 64U, 65U, 129U})
    for (const std::size_t distances : {1U, 2U, 5U, 16U, 33U, 80U}) {
      ++turn;
      const std::size_t width = turn % 5 == 0 ? 40 : turn % 5;
      expect_plain_relative({turn % 2 + 1, turn % 3 + 1, length, length, width, distances,
                             turn % 4 < 2 ? 0 : 0.3, turn % 2 == 0});
    }
}

TEST(RelativeAttention, TakesQueriesThatAreTheLastOfTheKeys) {
  for (const std::size_t keys : {1U, 5U, 33U, 130U})
    for (const std::size_t queries : {1U, 4U, 33U, 100U})
      if (queries <= keys)
        for (const std::size_t distances : {1U, 4U, 40U})
          expect_plain_relative({2, 2, queries, keys, 5, distances, 0.2});
}

TEST(RelativeAttention, GivesTheLastQueriesTheBitsThatTheyHaveAmongAll) {
  const RelativeCase item{2, 3, 130, 130, 20, 17};
  const std::vector<Tensor> inputs = item.inputs();
  Tape tape(Tape::inference);
  std::vector<Variable> in;
  for (const Tensor& input : inputs) in.push_back(tape.constant(input));
  const Variable all = fused_relative(in, item);
  for (const std::ptrdiff_t count : {1, 2, 13, 64, 129})
    EXPECT_EQ(causal_attention(slice(in[0], 1, -count), in[1], in[2], options_of(in, item)).value(),
              slice(all, 1, -count).value())
        << count;
}

TEST(RelativeAttention, HasTheGradientsOfDifferenceQuotients) {
  for (const RelativeCase& item :
       {RelativeCase{1, 1, 1, 1, 1, 1}, RelativeCase{2, 2, 5, 5, 3, 3},
        RelativeCase{1, 3, 4, 4, 2, 2, 0.3, true}, RelativeCase{2, 1, 3, 6, 4, 3},
        RelativeCase{1, 2, 35, 35, 2, 4}, RelativeCase{1, 2, 4, 4, 3, 9}})
    testing::expect_gradients([&](Inputs in) { return fused_relative(in, item); }, item.inputs(),
                              item.what());
}

TEST(RelativeAttention, HasTheSameBitsForAnyNumberOfThreads) {
  const RelativeCase item{2, 3, 130, 130, 24, 17, 0.1, true};
  const auto run = [&](int threads) {
    const testing::Threads scope(threads);
    return gradients_of([&](Inputs in) { return fused_relative(in, item); }, item.inputs());
  };
  const auto expected = run(1);
  for (const int threads : {2, 3}) {
    const auto got = run(threads);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].dense(), expected[i].dense()) << threads << " threads, " << i;
  }
}

TEST(RelativeAttention, GivesDistancesThatNeverOccurNoGradient) {
  const RelativeCase item{1, 2, 4, 4, 3, 9};
  const auto gradients =
      gradients_of([&](Inputs in) { return fused_relative(in, item); }, item.inputs());
  for (const std::size_t table : {3U, 4U})
    for (std::size_t row = 0; row < 9; ++row)
      for (std::size_t c = 0; c < 3; ++c)
        EXPECT_EQ(gradients[table].dense()(row, c) == 0, row < 5) << row;
}

TEST(RelativeAttention, KeepsNoMoreForBackwardThanAttentionDoes) {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
  GTEST_SKIP() << "the pool keeps nothing under AddressSanitizer";
#endif
  const auto kept = [](bool relative) {
    Tape tape;
    const Variable x = tape.input(irregular({1, 512, 8}));
    const Variable rows = tape.input(irregular({65, 4}));
    AttentionOptions options{.heads = 2};
    if (relative) options.relative = {rows, rows};
    const std::size_t before = BufferPool::statistics().bytes_in_use;
    causal_attention(x, x, x, options);
    return BufferPool::statistics().bytes_in_use - before;
  };
  EXPECT_EQ(kept(true), kept(false));
}

// The paper's formula in PyTorch, in double precision, with whole tables.
TEST(RelativeAttention, GivesTheNumbersOfPyTorch) {
  using testing::wave;
  for (const nlohmann::json& item : testing::golden("shaw.json")) {
    const auto shape = item["shape"].get<std::vector<std::size_t>>();
    const std::size_t length = shape[2], width = shape[3];
    const std::size_t distance = item["distance"];
    const Shape by_head(shape.begin(), shape.end());
    const Shape table{2 * distance + 1, width};
    Tape tape;
    const std::vector<Variable> in{
        tape.input(wave(by_head, 0.7, 0.1, 1.5)), tape.input(wave(by_head, 0.6, 0.9, 1.5)),
        tape.input(wave(by_head, 0.5, 0.4, 1.0)), tape.input(wave(table, 0.8, 0.6, 1.0)),
        tape.input(wave(table, 0.9, 0.2, 1.0))};
    const auto rows = [&](std::size_t i) {
      return reshape(transpose(in[i], 1, 2), {shape[0], length, shape[1] * width});
    };
    const RelativeRows relative{relative_rows(in[3], length), relative_rows(in[4], length)};
    const Variable mixed =
        causal_attention(rows(0), rows(1), rows(2), {.heads = shape[1], .relative = relative});
    const Variable output = transpose(reshape(mixed, {shape[0], length, shape[1], width}), 1, 2);
    tape.backward(output, wave(by_head, 0.23, 0.4, 1.0));

    // In float, inputs are rounded as well; they are at most 1.5 instead of 1.
    const RelativeTolerance rounding({shape[0], shape[1], length, length, width, distance});
    const auto near = [&](const Tensor& got, const nlohmann::json& numbers, double bound) {
      expect_near(got, reshaped(testing::tensor_from(numbers), got.shape()),
                  sizeof(real) == 8 ? 1e-12 : 6 * bound, concat("distance ", distance));
    };
    near(output.value(), item["output"], rounding.output);
    const char* const names[] = {"q", "k", "v", "keys", "values"};
    for (std::size_t i = 0; i < in.size(); ++i)
      near(Gradient(tape.gradient(in[i])).take_dense(), item["gradients"][names[i]],
           rounding.gradients[i]);
  }
}

TEST(RelativeAttention, HasWeightsToLookAt) {
  const RelativeCase item{2, 3, 5, 7, 4, 3, 0, true};
  Tape tape;
  std::vector<Variable> in;
  for (const Tensor& input : item.inputs()) in.push_back(tape.input(input));
  in[4] = tape.constant(zeros({3, 4}));
  const Tensor weights = attention_weights(in[0], in[1], options_of(in, item));
  const Variable values = transpose(reshape(in[2], {2, 7, 3, 4}), 1, 2);
  const Variable mixed = sum(unsqueeze(tape.constant(weights), 4) * unsqueeze(values, 2), {3});
  expect_near(fused_relative(in, item).value(), reshape(transpose(mixed, 1, 2), {2, 5, 12}).value(),
              RelativeTolerance(item).output);
}

TEST(RelativeAttention, RefusesWhatDoesNotFit) {
  Tape tape;
  const auto apply = [&](const Shape& keys, const Shape& values) {
    return error_of<std::invalid_argument>([&] {
      const Variable x = tape.input(zeros({2, 5, 6}));
      const RelativeRows relative{tape.input(zeros(keys)), tape.input(zeros(values))};
      causal_attention(x, x, x, {.heads = 2, .relative = relative});
    });
  };
  for (const Shape& keys : {Shape{4, 6}, Shape{3}, Shape{0, 3}})
    EXPECT_EQ(apply(keys, {4, 3}), concat("causal_attention: relative keys have shape ",
                                          bracketed(keys), ", expected [distances, 3]"));
  EXPECT_EQ(apply({4, 3}, {5, 3}),
            "causal_attention: relative values have shape [5, 3], expected that of the keys, "
            "[4, 3]");
}

TEST(RelativeRows, AreThoseOfTheDistancesThatOccurWithAGradientForNoOthers) {
  for (const std::size_t length : {0U, 1U, 2U, 4U, 5U, 100U}) {
    Tape tape;
    const Variable table = tape.input(testing::counting({7, 2}));  // distances up to 3
    const Variable rows = relative_rows(table, length);
    const std::size_t count = std::min<std::size_t>(length, 4);
    testing::expect_exact(rows.value(), {count, 2}, [&](const Shape& at) {
      return static_cast<double>((4 - count + at[0]) * 2 + at[1] + 1);
    });
    tape.backward(sum(rows));
    std::vector<std::int32_t> expected;
    for (std::size_t row = 4 - count; row < 4; ++row)
      expected.push_back(static_cast<std::int32_t>(row));
    EXPECT_EQ(tape.gradient(table).rows().indices(), expected);
  }
}

TEST(RelativeRows, RefusesWhatIsNoSuchTable) {
  Tape tape;
  for (const Shape& table : {Shape{5}, Shape{6, 2}, Shape{0, 2}, Shape{3, 2, 1}})
    EXPECT_EQ(
        error_of<std::invalid_argument>([&] { relative_rows(tape.input(zeros(table)), 4); }),
        concat("relative_rows: table has shape ", bracketed(table), ", expected [2k + 1, width]"));
}

}  // namespace
}  // namespace rowgrad
