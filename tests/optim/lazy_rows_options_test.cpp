// Rows with postponed updates while options change, or whose values leave the range of `real`.

#include "tests/optim/lazy_rows.hpp"

namespace {

TEST(LazyRowsOf, OptionsOfAdamThatChangeWhileRowsRestAreHeeded) {
  const std::vector<AdamOptions> phases{{.learning_rate = 0.1},
                                        {.learning_rate = 0.1, .amsgrad = true},
                                        {.learning_rate = 0.1, .beta1 = 0.5, .beta2 = 0.9999},
                                        {.learning_rate = 0.1, .epsilon = 1e-12}};
  RowsAndDense<Adam> twins(irregular({6, 4}), AdamOptions{});
  int step = 0;
  for (const AdamOptions& options : phases) {
    twins.both([&](Adam& each) { each.set_options(options); });
    for (int i = 0; i < 1001; ++i, ++step)
      twins.step(gradient({6, 4}, i == 0 ? std::vector{1, 2} : std::vector{2}, step));
  }
  const double tolerance = sizeof(real) == 8 ? 1e-11 : 1e-3;
  twins.expect_equal_rows({0, 1, 2}, tolerance);
}

// In the dense optimizer, a gradient whose square is infinite stops a row permanently.
template <class Made>
void expect_the_same_after_overflow(const typename Made::Options& options) {
  RowsAndDense<Made> twins(irregular({4, 5}), options);
  const auto huge = static_cast<real>(sizeof(real) == 8 ? 1e160 : 1e22);
  for (int i = 0; i < 900; ++i)
    twins.step(i == 3 ? RowGradient({4, 5}, {1}, full({1, 5}, huge)) : gradient({4, 5}, {2}, i));
  for (const real number : twins.table->rows(std::vector<std::int32_t>{1}))
    EXPECT_TRUE(std::isfinite(number));
  twins.expect_equal_rows({1}, 900 * kEpsilon);
}

TEST(LazyRowsOf, AnOverflowAreFiniteWhereTheDenseOnesAre) {
  expect_the_same_after_overflow<Adam>({});
  expect_the_same_after_overflow<AdamW>({});
  expect_the_same_after_overflow<RMSprop>({});
  // Momentum above 1 diverges where there was a gradient; a row of zeros stays zero.
  Parameter table("table", zeros({3, 2}));
  SGD optimizer({&table}, {.learning_rate = 1, .momentum = 2});
  for (int i = 0; i < 3000; ++i) step(optimizer, table, {1}, i);
  EXPECT_EQ(table.rows(std::vector<std::int32_t>{0}), zeros({1, 2}));
}

// Row 0 gets a gradient in the first step, the first without amsgrad and the last; 160 steps each.
real after_phases_of_amsgrad(const std::vector<bool>& phases) {
  Parameter table("table", full({2, 1}, 1));
  AdamOptions options{.learning_rate = 0.1, .beta1 = 0.5};
  Adam optimizer({&table});
  const auto step_with = [&](const RowGradient& rows) {
    optimizer.zero_grad();
    table.add_gradient(rows);
    optimizer.step();
  };
  for (std::size_t phase = 0; phase < phases.size(); ++phase) {
    options.amsgrad = phases[phase];
    optimizer.set_options(options);
    for (int i = 0; i < 160; ++i)
      step_with(i == 0 && (phase == 0 || !options.amsgrad)
                    ? RowGradient({2, 1}, {0}, full({1, 1}, 1 + 2 * static_cast<real>(phase)))
                    : RowGradient({2, 1}, {1}, full({1, 1}, 1)));
  }
  step_with(RowGradient({2, 1}, {0}, full({1, 1}, static_cast<real>(0.1))));
  return table.value()(0, 0);
}

TEST(LazyRowsOf, AmsgradSwitchedOnWhileARowRestsAreHeededAtOnce) {
  // The numbers are those of PyTorch's formula, step by step, in double.
  EXPECT_NEAR(after_phases_of_amsgrad({false, true}), 0.70942584, 1e-5);
  EXPECT_NEAR(after_phases_of_amsgrad({true, false, true}), -0.4041264, 1e-5);
}

}  // namespace
