#include "tests/test.hpp"
#include <rowgrad/core/kernels/elementwise.hpp>

namespace {

// Returns the error bound of normalize.cpp for normalized values of at most 1.
double normal_error(std::size_t width) {
  const double terms =
      static_cast<double>(std::min<std::size_t>(width, 1024)) / kernels::kLanes + kernels::kLanes;
  return 16 * (terms + 4) * kEpsilon / 2;
}

Variable mean_of_rows(const Variable& x) { return mean(x, {-1}, KeepAxes::kYes); }

// An op, and the same function composed from basic ops.
struct NormCase {
  const char* name;
  Function fused;
  Function composed;
  std::size_t inputs;
};
const NormCase kNormCases[] = {
    {"layer_norm", [](Inputs in) { return layer_norm(in[0], in[1], in[2]); },
     [](Inputs in) {
       const Variable centered = in[0] - mean_of_rows(in[0]);
       return centered / sqrt(mean_of_rows(centered * centered) + real{1e-5}) * in[1] + in[2];
     },
     3},
    {"rms_norm", [](Inputs in) { return rms_norm(in[0], in[1]); },
     [](Inputs in) { return in[0] / sqrt(mean_of_rows(in[0] * in[0]) + real{1e-5}) * in[1]; }, 2}};

std::vector<Tensor> inputs_of(const NormCase& each, const Shape& shape) {
  const Shape row{shape.back()};
  std::vector<Tensor> inputs{irregular(shape, 1, -2, 3), irregular(row, 2, 0.5, 1.5),
                             irregular(row, 3)};
  inputs.resize(each.inputs);
  return inputs;
}

TEST(Normalize, MatchesBasicOpsForEveryWidth) {
  std::vector<std::size_t> widths{768, 1025};
  for (std::size_t width = 1; width <= 40; ++width) widths.push_back(width);
  for (const NormCase& each : kNormCases)
    for (const std::size_t width : widths)
      for (const std::size_t rows : {1, 2, 3, 67}) {
        const std::string what = concat(each.name, " [", rows, ", ", width, ']');
        const auto inputs = inputs_of(each, {rows, width});
        Tape tape;
        const std::vector<Variable> variables = inputs_on(tape, inputs);
        // Values are below 4. The composed version rounds slightly more often.
        const double error = 2 * 4 * normal_error(width);
        expect_near(each.fused(variables).value(), each.composed(variables).value(), error, what);
        const auto fused = gradients_of(each.fused, inputs);
        const auto composed = gradients_of(each.composed, inputs);
        // For width 1, the variance is 0, so 1 / sqrt(epsilon) amplifies the errors of dx. The
        // gradients of weight and bias are sums over the rows.
        for (std::size_t i = 0; i < inputs.size(); ++i)
          expect_near(Gradient(fused[i]).take_dense(), Gradient(composed[i]).take_dense(),
                      (i > 0        ? static_cast<double>(rows)
                       : width == 1 ? 4 / std::sqrt(1e-5)
                                    : 4) *
                          error,
                      concat(what, ", input ", i));
      }
}

// Compares with the definition, computed in long double from the differences from the first value
// of a row. The differences are exact if all values are close.
TEST(LayerNormOp, IsAccurateForLargeMeansAndOutliers) {
  struct Row {
    double mean, first;  // other values are within 2 of the mean
  };
  for (const std::size_t width : {2, 7, 20, 64, 768, 5000})
    for (const Row& of : std::vector<Row>{
             {0, 0}, {1e3, 1e3}, {-1e6, -1e6}, {1e7, 1e7}, {0, 100}, {0, -1e5}, {0, 1e9}}) {
      if (of.mean != of.first && width < 20) continue;
      Tensor values = irregular({3, width}, 1, -2, 2);
      for (real& value : values.storage()) value = static_cast<real>(value + of.mean);
      if (of.mean != of.first) values(0, 0) = values(2, 0) = static_cast<real>(of.first);
      Tape tape;
      const Tensor y = layer_norm(tape.input(values)).value();
      for (std::size_t row = 0; row < 3; ++row) {
        const auto distance = [&](std::size_t j) {
          return static_cast<long double>(values(row, j)) - values(row, 0);
        };
        long double shift = 0, variance = 0;
        for (std::size_t j = 0; j < width; ++j) shift += distance(j) / width;
        for (std::size_t j = 0; j < width; ++j)
          variance += (distance(j) - shift) * (distance(j) - shift) / width;
        for (std::size_t j = 0; j < width; ++j) {
          const auto expected =
              static_cast<double>((distance(j) - shift) / std::sqrt(variance + 1e-5L));
          ASSERT_NEAR(y(row, j), expected, normal_error(width) * std::max(1.0, std::abs(expected)))
              << "mean " << of.mean << ", first " << of.first << ": " << row << ", " << j << " of "
              << width;
        }
      }
    }
}

TEST(Normalize, ConfinesNonFiniteValuesToTheirRow) {
  for (const NormCase& each : kNormCases)
    for (const real wrong : {kNaN, kInfinity, -kInfinity})
      for (const std::size_t width : {3, 16, 21})
        for (const std::size_t column : {std::size_t{0}, width - 1}) {
          auto inputs = inputs_of(each, {4, width});
          const auto run = [&] {
            Tape tape;
            const std::vector<Variable> in = inputs_on(tape, inputs);
            const Variable y = each.fused(in);
            tape.backward(y, irregular(y.shape(), 5));
            return std::pair(y.value(), tape.gradient(in[0]).dense());
          };
          const auto before = run();
          inputs[0](2, column) = wrong;
          const auto after = run();
          EXPECT_TRUE(std::isnan(after.first(2, column)));
          EXPECT_TRUE(std::isnan(after.second(2, column)));
          for (const std::size_t row : {0, 1, 3})
            for (std::size_t j = 0; j < width; ++j) {
              EXPECT_EQ(after.first(row, j), before.first(row, j));
              EXPECT_EQ(after.second(row, j), before.second(row, j));
            }
        }
}

}  // namespace
