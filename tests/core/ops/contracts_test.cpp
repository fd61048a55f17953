// What every op promises, for the ops in one table: the gradients of difference quotients,
// PyTorch's numbers, the same bits for any number of threads, and arguments that are refused.

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/gradients.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/core/ops/selection.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::expect_gradients;
using testing::irregular;
using testing::kEpsilon;

using Inputs = std::span<const Variable>;

struct NamedOp {
  std::string name;  // in golden/ops.json, too
  testing::Function op;
  std::vector<Shape> small;
  std::vector<Shape> large;  // where several threads work
};

// Ids [x.shape[0], 4, x.shape[2]] into axis 1, some of them twice.
Ids picked(const Variable& x) {
  Ids ids(Ids::shape_type{x.shape()[0], 4, x.shape()[2]});
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids.data()[k] = static_cast<std::int32_t>((5 * k + k / 3) % x.shape()[1]);
  return ids;
}

AttentionOptions padded(const Variable& keys) {
  AttentionOptions options{.heads = 2};
  for (std::size_t i = 0; i < keys.shape()[0]; ++i)
    options.key_lengths.push_back(keys.shape()[1] - i * (keys.shape()[1] / 3));
  return options;
}

const std::vector<Shape> kMatrix{{3, 4}};
const std::vector<Shape> kLargeMatrix{{300, 257}};
const std::vector<Shape> kBlock{{2, 3, 5}};
const std::vector<Shape> kLargeBlock{{5, 130, 130}};
const std::vector<Shape> kPair{{2, 4}, {2, 4}};
const std::vector<Shape> kLargePair{{300, 257}, {300, 257}};
const std::vector<Shape> kTexts{{3, 7, 4}, {3, 7, 4}, {3, 7, 4}};
const std::vector<Shape> kLargeTexts{{3, 150, 40}, {3, 150, 40}, {3, 150, 40}};

const std::vector<NamedOp> kNamedOps{
    {"log1p", [](Inputs in) { return log1p(in[0] + 2.5); }, kMatrix, kLargeMatrix},
    {"sin", [](Inputs in) { return sin(in[0]); }, kMatrix, kLargeMatrix},
    {"cos", [](Inputs in) { return cos(in[0]); }, kMatrix, kLargeMatrix},
    {"log_sigmoid", [](Inputs in) { return log_sigmoid(in[0]); }, kMatrix, kLargeMatrix},
    {"softplus", [](Inputs in) { return softplus(in[0]); }, kMatrix, kLargeMatrix},
    {"leaky_relu", [](Inputs in) { return leaky_relu(in[0]); }, kMatrix, kLargeMatrix},
    {"leaky_relu, slope 0.3", [](Inputs in) { return leaky_relu(in[0], 0.3); }, kMatrix,
     kLargeMatrix},
    {"silu", [](Inputs in) { return silu(in[0]); }, kMatrix, kLargeMatrix},
    {"logsumexp", [](Inputs in) { return logsumexp(in[0]); }, kMatrix, kLargeMatrix},
    {"logsumexp, axis 1 kept", [](Inputs in) { return logsumexp(in[0], 1, KeepAxes::kYes); },
     kBlock, kLargeBlock},
    {"cumsum", [](Inputs in) { return cumsum(in[0], 1); }, kBlock, kLargeBlock},
    {"cumsum of the last axis", [](Inputs in) { return cumsum(in[0], -1); }, kMatrix, kLargeMatrix},
    {"min", [](Inputs in) { return min(in[0], 1); }, kBlock, kLargeBlock},
    {"var", [](Inputs in) { return var(in[0]); }, kMatrix, kLargeMatrix},
    {"var, correction 0, kept",
     [](Inputs in) {
       return var(in[0], {0, 2}, {.correction = 0, .keep = KeepAxes::kYes});
     },
     kBlock, kLargeBlock},
    {"stddev", [](Inputs in) { return stddev(in[0]); }, {{5}}, kLargeMatrix},
    {"stddev of the last axis", [](Inputs in) { return stddev(in[0], {-1}); }, kMatrix,
     kLargeMatrix},
    {"norm", [](Inputs in) { return norm(in[0]); }, kMatrix, kLargeMatrix},
    {"norm of axis 0, kept", [](Inputs in) { return norm(in[0], {0}, KeepAxes::kYes); }, kMatrix,
     kLargeMatrix},
    {"gather", [](Inputs in) { return gather(in[0], 1, picked(in[0])); }, kBlock, kLargeBlock},
    {"mse_loss", [](Inputs in) { return mse_loss(in[0], in[1]); }, kPair, kLargePair},
    {"mse_loss, sum", [](Inputs in) { return mse_loss(in[0], in[1], LossReduction::kSum); }, kPair,
     kLargePair},
    {"binary_cross_entropy_with_logits",
     [](Inputs in) { return binary_cross_entropy_with_logits(in[0], in[1]); }, kPair, kLargePair},
    {"binary_cross_entropy_with_logits, sum",
     [](Inputs in) { return binary_cross_entropy_with_logits(in[0], in[1], LossReduction::kSum); },
     kPair, kLargePair},
    {"attention",
     [](Inputs in) { return attention(in[0], in[1], in[2], {.heads = 2}); },
     {{3, 9, 4}, {3, 7, 4}, {3, 7, 4}},
     {{3, 200, 40}, {3, 150, 40}, {3, 150, 40}}},
    {"attention of padded keys",
     [](Inputs in) { return attention(in[0], in[1], in[2], padded(in[1])); }, kTexts, kLargeTexts},
    {"causal_attention of padded keys",
     [](Inputs in) { return causal_attention(in[0], in[1], in[2], padded(in[1])); }, kTexts,
     kLargeTexts},
};

std::vector<Tensor> irregular_inputs(const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(irregular(shape, static_cast<int>(inputs.size()) + 1, -2, 2));
  return inputs;
}

TEST(NamedOps, HaveTheGradientsOfDifferenceQuotients) {
  for (const NamedOp& item : kNamedOps)
    expect_gradients(item.op, irregular_inputs(item.small), item.name);
}

TEST(NamedOps, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const NamedOp& item : kNamedOps) {
    const std::vector<Tensor> inputs = irregular_inputs(item.large);
    const auto run = [&](int threads) {
      const testing::Threads scope(threads);
      Tape tape;
      std::vector<Variable> in;
      for (const Tensor& input : inputs) in.push_back(tape.input(input));
      const Variable y = item.op(in);
      tape.backward(y, irregular(y.shape(), 9));
      std::vector<Tensor> results{y.value()};
      for (const Variable& x : in) results.push_back(tape.gradient(x).dense());
      return results;
    };
    const std::vector<Tensor> expected = run(1);
    for (const int threads : {2, 3}) EXPECT_EQ(run(threads), expected) << item.name << threads;
  }
}

// Of each number: NaN for NaN, and otherwise within the rounding of sums of up to 60 terms of at
// most 3, which are rounded on their way into float, too.
void expect_number(const Tensor& got, const nlohmann::json& json, const std::string& what) {
  const Tensor expected = testing::tensor_from(json);
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double a = got.data()[k];
    const double b = expected.data()[k];
    if (std::isfinite(b)) {
      EXPECT_NEAR(a, b, 100 * kEpsilon * std::max(1.0, std::abs(b))) << what << " at " << k;
    } else {
      EXPECT_TRUE(std::isnan(b) ? std::isnan(a) : a == b) << what << " at " << k << ": " << a;
    }
  }
}

TEST(NamedOps, GiveTheNumbersOfPyTorch) {
  std::set<std::string> compared;
  for (const nlohmann::json& item : testing::golden("ops.json")) {
    const auto name = item["op"].get<std::string>();
    const auto op = std::find_if(kNamedOps.begin(), kNamedOps.end(),
                                 [&](const NamedOp& other) { return other.name == name; });
    ASSERT_NE(op, kNamedOps.end()) << name;
    compared.insert(name);
    Tape tape;
    std::vector<Variable> in;
    for (const nlohmann::json& input : item["inputs"])
      in.push_back(tape.input(testing::tensor_from(input)));
    const Variable y = op->op(in);
    expect_number(y.value(), item["output"], name);
    tape.backward(y, testing::wave(y.shape(), 0.23, 0.4, 1));
    for (std::size_t i = 0; i < in.size(); ++i)
      expect_number(tape.gradient(in[i]).dense(), item["gradients"][i],
                    concat(name, ", gradient ", i, ", input ", item["inputs"].dump()));
  }
  EXPECT_EQ(compared.size(), kNamedOps.size());
}

TEST(NamedOps, DetachStopsTheGradient) {
  Tape tape;
  const Variable x = tape.input(testing::tensor({2}, {2, 3}));
  const Variable y = detach(x);
  EXPECT_FALSE(y.needs_gradient());
  EXPECT_EQ(y.value(), x.value());
  tape.backward(x * y, full({2}, 1));
  EXPECT_EQ(tape.gradient(x).dense(), x.value());
}

TEST(NamedOps, TakeNoValuesAsPyTorchDoes) {
  Tape tape;
  const Variable nothing = tape.input(zeros({2, 0}));
  EXPECT_EQ(logsumexp(nothing).value(), full({2}, -testing::kInfinity));
  EXPECT_EQ(logsumexp(nothing, 0).shape(), Shape({0}));
  EXPECT_EQ(cumsum(nothing, 1).shape(), Shape({2, 0}));
  EXPECT_EQ(norm(nothing).value(), scalar(0));
  EXPECT_EQ(norm(nothing, {1}).value(), zeros({2}));
  EXPECT_EQ(mse_loss(nothing, nothing, LossReduction::kSum).value(), scalar(0));
  EXPECT_EQ(gather(tape.input(zeros({2, 3})), 1, testing::ids({2, 0}, {})).shape(), Shape({2, 0}));
  EXPECT_EQ(argmin(tape.input(zeros({0, 3})), 1).shape(), std::vector<std::size_t>({0}));
}

TEST(NamedOps, RefuseWhatDoesNotFit) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 3}));
  const Variable nothing = tape.input(zeros({2, 0}));
  const Variable heads = tape.input(zeros({2, 5, 6}));
  const std::vector<std::pair<std::function<void()>, std::string>> refused{
      {[&] { logsumexp(x, 2); }, "logsumexp: axis 2 is outside a rank of 2"},
      {[&] { cumsum(x, -3); }, "cumsum: axis -3 is outside a rank of 2"},
      {[&] { min(nothing, 1); }, "min: axis 1 of [2, 0] has no entries"},
      {[&] { argmin(x, 2); }, "argmin: axis 2 is outside a rank of 2"},
      {[&] { norm(x, {2}); }, "norm: axis 2 is outside a rank of 2"},
      {[&] { stddev(x, {-3}); }, "stddev: axis -3 is outside a rank of 2"},
      {[&] { var(x, {0}, {.correction = 2}); },
       "var: 2 values with a correction of 2 leave nothing to divide by"},
      {[&] { stddev(nothing, {1}, {.correction = 0}); },
       "stddev: 0 values with a correction of 0 leave nothing to divide by"},
      {[&] {
         gather(x, 1, testing::ids({2}, {0, 1}));
       },
       "gather: ids have shape [2], x has [2, 3], expected as many axes, none of them longer, but "
       "axis 1"},
      {[&] {
         gather(x, 1, testing::ids({3, 1}, {0, 1, 0}));
       },
       "gather: ids have shape [3, 1], x has [2, 3], expected as many axes, none of them longer, "
       "but axis 1"},
      {[&] {
         gather(x, -1, testing::ids({2, 1}, {0, 3}));
       },
       "gather: id 3 at [1, 0] is outside axis -1 of [2, 3]"},
      {[&] {
         gather(x, 0, testing::ids({1, 2}, {0, -1}));
       },
       "gather: id -1 at [0, 1] is outside axis 0 of [2, 3]"},
      {[&] { mse_loss(x, tape.input(zeros({3}))); },
       "mse_loss: input has shape [2, 3], target [3], expected the same"},
      {[&] {
         binary_cross_entropy_with_logits(x, tape.input(zeros({3, 2})));
       },
       "binary_cross_entropy_with_logits: input has shape [2, 3], target [3, 2], expected the "
       "same"},
      {[&] { mse_loss(nothing, nothing); }, "mse_loss: there are no values, so there is no mean"},
      {[&] {
         attention(heads, tape.input(zeros({2, 0, 6})), tape.input(zeros({2, 0, 6})), {.heads = 2});
       },
       "attention: k has shape [2, 0, 6], expected [2, keys, 6] with no fewer keys than 1"},
      {[&] {
         attention(heads, heads, heads, {.heads = 2, .distance_bias = tape.input(zeros({2, 5}))});
       },
       "attention: distance_bias and relative are for causal_attention, where distances go back"},
      {[&] { attention(heads, heads, heads, {.heads = 2, .key_lengths = {5}}); },
       "attention: there are 1 key_lengths, expected one for each of the 2 rows of the batch"},
      {[&] {
         causal_attention(heads, heads, heads, {.heads = 2, .key_lengths = {5, 6}});
       },
       "causal_attention: key_lengths[1] is 6, expected 1 to the 5 keys"},
      {[&] {
         attention(heads, heads, heads, {.heads = 2, .key_lengths = {0, 5}});
       },
       "attention: key_lengths[0] is 0, expected 1 to the 5 keys"},
  };
  for (const auto& [action, message] : refused)
    EXPECT_EQ(error_of<std::invalid_argument>(action), message);
}

TEST(NamedOps, DoNotOverflowOnTheWay) {
  Tape tape;
  const auto huge = static_cast<real>(std::sqrt(std::numeric_limits<real>::max()) * 4);
  const auto tiny = static_cast<real>(std::sqrt(std::numeric_limits<real>::min()) / 4);
  for (const real unit : {huge, tiny}) {
    const Variable x = tape.input(testing::tensor({2, 2}, {3 * unit, 4 * unit, 0, unit}));
    EXPECT_NEAR(norm(x, {1}).value()(0) / unit, 5, 10 * kEpsilon);
    EXPECT_NEAR(norm(tape.input(testing::tensor({2}, {3 * unit, -4 * unit}))).item() / unit, 5,
                10 * kEpsilon);
  }
  const Tensor gradient = testing::gradients_of([](Inputs in) { return norm(in[0]); },
                                                {testing::tensor({2}, {3 * huge, 4 * huge})})[0]
                              .dense();
  EXPECT_NEAR(gradient(0) / gradient(1), 0.75, 10 * kEpsilon);
}

}  // namespace
}  // namespace rowgrad
