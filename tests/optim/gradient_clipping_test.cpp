#include "tests/test.hpp"

namespace {

constexpr double kOrders[] = {1, 2, HUGE_VAL};

// Returns a parameter with this gradient.
std::unique_ptr<Parameter> with_gradient(Gradient gradient) {
  const Shape shape = gradient.shape();
  auto parameter = std::make_unique<Parameter>("w", zeros(shape));
  parameter->add_gradient(std::move(gradient));
  return parameter;
}

Tensor dense_gradient(const Parameter& parameter) {
  return Gradient(parameter.gradient()).take_dense();
}

// Compares values and signs of zeros; NaN equals NaN.
bool same_values(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.begin(), a.end(), b.begin(), [](real x, real y) {
           return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
         });
}

TEST(GradientClipping, MatchesPyTorch) {
  const json file = golden("clipping.json");
  const auto ids = file["rows"].get<Ids32>();
  const Tensor rows = wave({3, 3}, 0.7, 1.3, 1.5);
  for (const json& item : file["cases"])
    for (const bool as_rows : {false, true}) {
      const RowGradient row_gradient({7, 3}, ids, rows);
      const auto bias = with_gradient(wave({5}, 0.9, 0.4, 2.0));
      const auto table = with_gradient(as_rows ? Gradient(row_gradient) : row_gradient.to_dense());
      Parameter unused("unused", zeros({4}));
      const std::vector<Parameter*> all{bias.get(), &unused, table.get()};
      // Value, norm, factor and product are rounded, for values up to 2. If this test runs in
      // double, PyTorch's rounding errors are of the same size. The relative error of a norm is at
      // most the error of its values plus one rounding.
      const double tolerance = 8 * kEpsilon;
      if (item.contains("limit")) {
        clip_grad_value(all, item["limit"]);
      } else {
        const double p = item["p"] == "inf" ? HUGE_VAL : item["p"].get<double>();
        const double norm = item["norm"];
        const ClipNormOptions options{.p = p};
        EXPECT_NEAR(gradient_norm(all, p), norm, 2 * kEpsilon * norm);
        EXPECT_NEAR(clip_grad_norm(all, item["max_norm"], options), norm, 2 * kEpsilon * norm);
      }
      expect_near(dense_gradient(*bias), tensor_from(item["bias"]), tolerance);
      expect_near(dense_gradient(*table), tensor_from(item["table"]), tolerance);
      EXPECT_EQ(table->gradient().is_rows(), as_rows);
      EXPECT_TRUE(unused.gradient().is_none());
    }
}

TEST(GradientClipping, AcceptsMissingGradients) {
  Parameter none("none", zeros({3}));
  const auto no_rows = with_gradient(RowGradient({5, 2}, {}, zeros({0, 2})));
  const auto empty = with_gradient(zeros({0}));
  for (const std::vector<Parameter*>& all :
       {std::vector<Parameter*>{}, {&none, no_rows.get(), empty.get()}}) {
    for (const double p : kOrders) EXPECT_EQ(clip_grad_norm(all, 1, {.p = p}), 0);
    clip_grad_value(all, 1);
  }
  EXPECT_TRUE(none.gradient().is_none());
  EXPECT_TRUE(no_rows->gradient().is_rows());
}

TEST(ClipGradientNorm, DoesNotChangeSmallGradients) {
  const Tensor gradient = tensor({3}, {3, std::numeric_limits<real>::denorm_min(), -4});
  const auto one = with_gradient(gradient);
  one->set_trainable(false);  // frozen parameters are also clipped
  for (const double max_norm : {5.00001, 6.0, 1e300}) {
    EXPECT_EQ(clip_grad_norm(std::vector{one.get()}, max_norm), 5);
    EXPECT_TRUE(same_values(one->gradient().dense(), gradient));
  }
  // At the limit, the 1e-6 in the denominator has an effect, as in PyTorch.
  EXPECT_EQ(clip_grad_norm(std::vector{one.get()}, 5), 5);
  EXPECT_EQ(one->gradient().dense()(2), -4 * static_cast<real>(5 / (5 + 1e-6)));
}

// torch 1.13: if the norm is inf, gradients are [0, -0, nan]; if it is nan, all are nan.
TEST(ClipGradientNorm, NonFiniteNormMatchesPyTorch) {
  for (const double p : kOrders) {
    const auto infinite = with_gradient(tensor({3}, {1, -2, kInfinity}));
    EXPECT_EQ(clip_grad_norm(std::vector{infinite.get()}, 1, {.p = p}), HUGE_VAL);
    EXPECT_TRUE(same_values(infinite->gradient().dense(), tensor({3}, {0, -0.0, NAN}))) << p;

    const auto undefined = with_gradient(tensor({3}, {1, NAN, kInfinity}));
    const auto finite = with_gradient(RowGradient({5, 1}, {3}, tensor({1, 1}, {2})));
    EXPECT_TRUE(
        std::isnan(clip_grad_norm(std::vector{undefined.get(), finite.get()}, 1, {.p = p})));
    EXPECT_TRUE(same_values(undefined->gradient().dense(), full({3}, NAN))) << p;
    EXPECT_TRUE(same_values(finite->gradient().rows().values(), full({1, 1}, NAN))) << p;
  }
}

TEST(ClipGradientNorm, NonFiniteNormThrowsOnRequest) {
  for (const real value : {kInfinity, real{NAN}}) {
    const auto fine = with_gradient(tensor({2}, {30, 40}));
    const auto wrong = with_gradient(tensor({2}, {1, value}));
    EXPECT_ERROR(
        std::runtime_error,
        concat("clip_grad_norm: the norm of order 2 is ", value,
               ", expected a finite number; the gradients are unchanged"),
        clip_grad_norm(std::vector{fine.get(), wrong.get()}, 1, {.error_if_not_finite = true}));
    EXPECT_EQ(fine->gradient().dense(), tensor({2}, {30, 40}));
    EXPECT_TRUE(same_values(wrong->gradient().dense(), tensor({2}, {1, value})));
    EXPECT_EQ(clip_grad_norm(std::vector{fine.get()}, 1, {.error_if_not_finite = true}), 50);
  }
}

TEST(ClipGradientValue, ClampsEveryValue) {
  const auto dense = with_gradient(tensor({7}, {-3, -1, -0.25, 0, 0.5, kInfinity, -kInfinity}));
  const auto rows = with_gradient(RowGradient({5, 2}, {1, 4}, tensor({2, 2}, {9, -9, 0.75, NAN})));
  Parameter none("none", zeros({3}));
  const std::vector<Parameter*> all{dense.get(), rows.get(), &none};
  clip_grad_value(all, 1e300);
  EXPECT_EQ(dense->gradient().dense()(0), -3);
  clip_grad_value(all, 0.5);
  EXPECT_EQ(dense->gradient().dense(), tensor({7}, {-0.5, -0.5, -0.25, 0, 0.5, 0.5, -0.5}));
  EXPECT_TRUE(same_values(rows->gradient().rows().values(), tensor({2, 2}, {0.5, -0.5, 0.5, NAN})));
}

TEST(GradientClipping, RejectsInvalidArguments) {
  const auto w = with_gradient(tensor({2}, {3, 4}));
  const std::vector<Parameter*> one{w.get()}, twice{w.get(), w.get()}, null{w.get(), nullptr};
  EXPECT_INVALID("gradient_norm: duplicate parameter w", gradient_norm(twice));
  EXPECT_INVALID("clip_grad_norm: duplicate parameter w", clip_grad_norm(twice, 1));
  EXPECT_INVALID("clip_grad_value: duplicate parameter w", clip_grad_value(twice, 1));
  EXPECT_INVALID("clip_grad_value: got a null parameter", clip_grad_value(null, 1));
  for (const double p : {0.0, -1.0, 3.0, -HUGE_VAL, std::nan("")}) {
    const std::string rest = concat(p, ", expected 1, 2 or infinity");
    EXPECT_INVALID("gradient_norm: p is " + rest, gradient_norm(*w, p));
    EXPECT_INVALID("clip_grad_norm: p is " + rest, clip_grad_norm(one, 1, {.p = p}));
  }
  for (const double limit : {-1.0, HUGE_VAL, std::nan("")}) {
    const std::string rest = concat(limit, ", expected a finite number >= 0");
    EXPECT_INVALID("clip_grad_norm: max_norm is " + rest, clip_grad_norm(one, limit));
    EXPECT_INVALID("clip_grad_value: limit is " + rest, clip_grad_value(one, limit));
  }
  EXPECT_EQ(w->gradient().dense(), tensor({2}, {3, 4}));
}

}  // namespace
