#include "tests/support/op_cases.hpp"
#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>

namespace {

// As normalize.cpp has it: the error of a normalised value of at most 1.
double normal_error(std::size_t width) {
  const double terms =
      static_cast<double>(std::min<std::size_t>(width, 1024)) / kernels::kLanes + kernels::kLanes;
  return 16 * (terms + 4) * kEpsilon / 2;
}

// Layer normalisation of one row, in long double, from the differences from its first value: these
// are exact where all values are near each other.
std::vector<long double> normalised(const real* x, std::size_t width, double epsilon) {
  const auto count = static_cast<long double>(width);
  std::vector<long double> result;
  long double mean = 0;
  for (std::size_t j = 0; j < width; ++j) {
    result.push_back(static_cast<long double>(x[j]) - x[0]);
    mean += result.back() / count;
  }
  long double variance = 0;
  for (long double& number : result) {
    number -= mean;
    variance += number * number / count;
  }
  for (long double& number : result) number /= std::sqrt(variance + epsilon);
  return result;
}

// layer_norm(x) without weight and bias against the definition.
void expect_normalised(const Tensor& x, double epsilon, const std::string& what) {
  const std::size_t width = x.shape().back();
  Tape tape;
  const Tensor y = layer_norm(tape.input(x), std::nullopt, std::nullopt, epsilon).value();
  ASSERT_EQ(y.shape(), x.shape());
  for (std::size_t row = 0; row < x.size() / width; ++row) {
    const auto expected = normalised(x.data() + row * width, width, epsilon);
    for (std::size_t j = 0; j < width; ++j)
      ASSERT_NEAR(y.data()[row * width + j], static_cast<double>(expected[j]),
                  normal_error(width) * std::max(1.0L, std::abs(expected[j])))
          << what << ": row " << row << ", column " << j;
  }
}

Variable composed_layer_norm(const Variable& x, const Variable& weight, const Variable& bias) {
  const Variable centered = x - mean(x, {-1}, KeepAxes::kYes);
  const Variable variance = mean(centered * centered, {-1}, KeepAxes::kYes);
  return centered / sqrt(variance + real{1e-5}) * weight + bias;
}

Variable composed_rms_norm(const Variable& x, const Variable& weight) {
  return x / sqrt(mean(x * x, {-1}, KeepAxes::kYes) + real{1e-5}) * weight;
}

Variable layer_norm_of(Inputs in) { return layer_norm(in[0], in[1], in[2]); }
Variable rms_norm_of(Inputs in) { return rms_norm(in[0], in[1]); }

// The tests of one op in turn with those of the other.
struct NormCase {
  const char* name;
  Function fused;
  Function composed;
  std::size_t inputs;
};
const NormCase kNormCases[] = {
    {"layer_norm", layer_norm_of,
     [](Inputs in) { return composed_layer_norm(in[0], in[1], in[2]); }, 3},
    {"rms_norm", rms_norm_of, [](Inputs in) { return composed_rms_norm(in[0], in[1]); }, 2}};

std::vector<Tensor> inputs_of(const NormCase& each, const Shape& shape) {
  const Shape row{shape.back()};
  std::vector<Tensor> inputs{irregular(shape, 1, -2, 3), irregular(row, 2, 0.5, 1.5),
                             irregular(row, 3)};
  inputs.resize(each.inputs);
  return inputs;
}

TEST(Normalize, GivesThePublishedNumbersAndGradients) {
  const Shape shape{2, 3, 5}, row{5};
  Tensor weight = wave(row, 0.9, 0.2, 0.5);
  for (real& number : weight.storage()) number += 1;
  for (const NormCase& each : kNormCases) {
    std::vector<std::pair<std::string, Tensor>> inputs{
        {"x", wave(shape, 0.7, 0.1, 2)}, {"weight", weight}, {"bias", wave(row, 1.1, 0.3, 0.5)}};
    inputs.resize(each.inputs);
    // Rows of 5 whose values and weights are below 2: errors of x, x̂, and, in gradients, of sums
    // over 6 rows.
    expect_pytorch(golden_case("gpt_ops.json", each.name), each.fused, inputs,
                   std::vector<double>(4, 100 * kEpsilon), each.name);
  }
}

TEST(Normalize, EqualsTheSameOfBasicOpsForEveryWidth) {
  std::vector<std::size_t> widths{768, 1025};
  for (std::size_t width = 1; width <= 40; ++width) widths.push_back(width);
  for (const NormCase& each : kNormCases)
    for (const std::size_t width : widths)
      for (const std::size_t rows : {1, 2, 3, 67}) {
        const std::string what = concat(each.name, " [", rows, ", ", width, ']');
        const auto inputs = inputs_of(each, {rows, width});
        Tape tape;
        const std::vector<Variable> variables = inputs_on(tape, inputs);
        // Values are below 4; the composed version rounds a little more often.
        const double error = 2 * 4 * normal_error(width);
        expect_near(each.fused(variables).value(), each.composed(variables).value(), error, what);
        const auto fused = gradients_of(each.fused, inputs);
        const auto composed = gradients_of(each.composed, inputs);
        // Of dx: a row of one has a deviation of 0, so that 1 / sqrt(epsilon) multiplies errors. Of
        // weight and bias: sums over the rows.
        for (std::size_t i = 0; i < inputs.size(); ++i)
          expect_near(Gradient(fused[i]).take_dense(), Gradient(composed[i]).take_dense(),
                      (i > 0        ? static_cast<double>(rows)
                       : width == 1 ? 4 / std::sqrt(1e-5)
                                    : 4) *
                          error,
                      concat(what, ", input ", i));
      }
}

TEST(LayerNormOp, IsExactWhereTheMeanIsLarge) {
  for (const std::size_t width : {2, 7, 64, 768, 5000})
    for (const double mean : {0.0, 1e3, -1e6, 1e7}) {
      Tensor x = irregular({5, width}, 1, -2, 2);
      for (real& number : x.storage()) number = static_cast<real>(number + mean);
      expect_normalised(x, 1e-5, concat("width ", width, ", mean ", mean));
    }
}

TEST(LayerNormOp, IsExactWhereTheFirstValueIsFarFromTheMean) {
  for (const std::size_t width : {20, 768, 5000})
    for (const double first : {100.0, -1e5, 1e9}) {
      Tensor x = irregular({3, width}, 1, -2, 2);
      for (std::size_t row = 0; row < 3; row += 2) x(row, 0) = static_cast<real>(first);
      expect_normalised(x, 1e-5, concat("width ", width, ", first value ", first));
    }
}

TEST(LayerNormOp, GivesTheBiasForEqualNumbers) {
  for (const std::size_t width : {1, 3, 16, 100}) {
    Tape tape;
    const Tensor bias = irregular({width});
    const Variable x = tape.input(full({2, width}, static_cast<real>(12345.678)));
    const Variable y = layer_norm(x, tape.constant(irregular({width}, 1)), tape.constant(bias));
    for (std::size_t j = 0; j < width; ++j) {
      EXPECT_EQ(y.value()(0, j), bias(j));
      EXPECT_EQ(y.value()(1, j), bias(j));
    }
  }
}

TEST(Normalize, KeepsWhatIsNotFiniteInItsRow) {
  for (const NormCase& each : kNormCases)
    for (const real wrong : {kNaN, kInfinity, -kInfinity})
      for (const std::size_t width : {3, 16, 21})
        for (const std::size_t column : {std::size_t{0}, width - 1}) {
          auto inputs = inputs_of(each, {4, width});
          const auto run = [&](std::size_t row) {
            Tape tape;
            const std::vector<Variable> variables = inputs_on(tape, inputs);
            const Variable y = each.fused(variables);
            tape.backward(y, irregular(y.shape(), 5));
            const Tensor dx = tape.gradient(variables[0]).dense();
            const auto of = [&](const Tensor& t) {
              return std::vector<real>(t.data() + row * width, t.data() + (row + 1) * width);
            };
            return std::pair(of(y.value()), of(dx));
          };
          std::vector<decltype(run(0))> before;
          for (const std::size_t row : {0, 1, 3}) before.push_back(run(row));
          inputs[0](2, column) = wrong;
          std::size_t i = 0;
          for (const std::size_t row : {0, 1, 3}) EXPECT_EQ(run(row), before[i++]);
          const auto [y, dx] = run(2);
          EXPECT_TRUE(std::isnan(y[column]));
          EXPECT_TRUE(std::isnan(dx[column]));
        }
}

TEST(Normalize, SumsUpGradientsOfWeightsOnlyIfTheyAreNeeded) {
  // Gradients of the rows are moderate, and overflow as soon as some of them are added.
  const Threads scope(1);
  constexpr std::size_t kRows = 64;
  const real large = std::numeric_limits<real>::max() / 8;
  const auto rows_of = [](const std::vector<real>& row) {
    Tensor x = empty({kRows, row.size()});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = row[i % row.size()];
    return x;
  };
  const struct {
    const char* name;
    Function op;
    Tensor upstream;
  } cases[] = {{"layer_norm", [](Inputs in) { return layer_norm(in[0], in[1], in[1]); },
                rows_of({large, -large, large, -large})},
               {"rms_norm", [](Inputs in) { return rms_norm(in[0], in[1]); },
                rows_of({large, -large, large, -large})}};
  for (const auto& each : cases)
    for (const bool needed : {false, true}) {
      Tape tape;
      const Tensor weight = full({4}, 1);
      const std::vector<Variable> in{tape.input(rows_of({1, 1, -1, -1})),
                                     needed ? tape.input(weight) : tape.constant(weight),
                                     tape.input(rows_of({1, real{-0.9}, 1, -1}))};
      const Variable y = each.op(in);
      EXPECT_EQ(raises(FE_OVERFLOW, [&] { tape.backward(y, each.upstream); }), needed) << each.name;
      for (const real number : tape.gradient(in[0]).dense()) ASSERT_TRUE(std::isfinite(number));
    }
}

// The value and all gradients of the rows [first, last) of x.
std::vector<Tensor> results_of(const NormCase& each, std::vector<Tensor> inputs, const Tensor& dy,
                               std::size_t first, std::size_t last) {
  const std::size_t width = dy.shape()[1];
  const auto rows = [&](const Tensor& x) {
    Tensor part = empty({last - first, width});
    std::copy_n(x.data() + first * width, part.size(), part.data());
    return part;
  };
  inputs[0] = rows(inputs[0]);
  Tape tape;
  const std::vector<Variable> variables = inputs_on(tape, inputs);
  const Variable y = each.fused(variables);
  std::vector<Tensor> results{y.value()};
  tape.backward(y, rows(dy));
  for (const Variable& variable : variables) results.push_back(tape.gradient(variable).dense());
  return results;
}

TEST(Normalize, HasTheSameBitsOnOneAndTwoThreads) {
  for (const NormCase& each : kNormCases)
    for (const Shape& shape :
         {Shape{131, 768}, Shape{1037, 61}, Shape{5, 20001}, Shape{40000, 1}}) {
      auto inputs = inputs_of(each, shape);
      inputs[0] = irregular(shape, 1, -20, 20);
      const auto on = [&](int threads) {
        const Threads scope(threads);
        return results_of(each, inputs, irregular(shape, 2), 0, shape[0]);
      };
      EXPECT_TRUE(on(2) == on(1)) << bracketed(shape);
    }
}

TEST(Normalize, GivesARowTheSameBitsWhereverItStands) {
  for (const NormCase& each : kNormCases)
    for (const std::size_t width : {1, 7, 16, 100, 1500}) {
      auto inputs = inputs_of(each, {9, width});
      inputs[0] = irregular({9, width}, 1, -20, 20);
      const Tensor dy = irregular({9, width}, 2);
      const auto all = results_of(each, inputs, dy, 0, 9);
      for (std::size_t row = 0; row < 9; ++row) {
        const auto alone = results_of(each, inputs, dy, row, row + 1);
        for (std::size_t j = 0; j < width; ++j)
          for (const std::size_t i : {0, 1})  // y and dx
            ASSERT_EQ(alone[i](0, j), all[i](row, j)) << row << ", " << j << " of " << width;
      }
    }
}

TEST(Normalize, AddsTheGradientOfXToWhatOtherOpsGave) {
  for (const NormCase& each : kNormCases) {
    const Shape shape{67, 37};
    const Tensor dy = irregular(shape, 2);
    const Tensor before = irregular(shape, 4);
    const Tensor apart = results_of(each, inputs_of(each, shape), dy, 0, 67)[1];
    Tape tape;
    const std::vector<Variable> variables = inputs_on(tape, inputs_of(each, shape));
    const Variable y = each.fused(variables);
    // Recorded later, so that its gradient comes first.
    const Variable other = variables[0] * tape.constant(before);
    tape.backward(sum(y * tape.constant(dy)) + sum(other));
    EXPECT_EQ(tape.gradient(variables[0]).dense(), Tensor(before + apart)) << each.name;
  }
}

TEST(Normalize, TakesOneVariableAsXAndWeight) {
  Tape tape;
  const Variable x = tape.input(tensor({2}, {3, 4}));
  const Variable y = rms_norm(x, x, 0);
  const double root = std::sqrt(12.5);
  EXPECT_NEAR(y.value()(0), 9 / root, 20 * kEpsilon);
  EXPECT_NEAR(y.value()(1), 16 / root, 20 * kEpsilon);
}

}  // namespace
