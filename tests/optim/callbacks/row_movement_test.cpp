#include "tests/optim/training/runs.hpp"

namespace {

constexpr std::int32_t kTracked = 7;
// A callback that records the gradient norm of row kTracked in each step.
struct Norms : TrainingCallback {
  void before_update(const TrainingRun& run) override {
    const Gradient& gradient = run.options().optimizer.parameters()[0]->gradient();
    if (!gradient.is_rows()) return;
    for (const auto [index, values] : gradient.rows()) {
      if (index != kTracked) continue;
      double squares = 0;
      for (const real g : values) squares += static_cast<double>(g) * static_cast<double>(g);
      of_steps[run.steps() + 1] = std::sqrt(squares);
    }
  }
  std::map<std::size_t, double> of_steps;
};

// A run with a RowMovement of row 7 and a history of all rows.
struct TrackedRun {
  explicit TrackedRun(const AnyOptions& options, const RowMovementOptions& kept = {},
                      bool tied = false)
      : model({.vocabulary = kTokens,
               .context = kContext,
               .width = 6,
               .hidden = {6},
               .tie_weights = tied},
              random),
        optimizer(make_optimizer(options, model.parameters())),
        movement(model, model.token.weight, kTracked, kept) {
    run.add(norms);
    run.add(history);
    run.add(movement);
    run.train();
    all = movement.summary();
  }

  Random random{3};
  NextTokenModel model;
  std::unique_ptr<Optimizer> optimizer;
  DataLoader loader{text_windows(40, 5), {.batch = 2}};
  TrainingRun run{
      {.model = model, .optimizer = *optimizer, .loader = loader, .random = random, .steps = 20}};
  Norms norms;
  RowHistory history{model};
  RowMovement movement;
  RowMovement::Summary all;
};

TEST(RowMovement, ListsStepsAndWindows) {
  const TrackedRun tracked(SgdOptions{.learning_rate = 0.5});
  const RowMovement::Summary& all = tracked.all;
  const TableHistory& history = tracked.history.tables()[0];
  const std::size_t index = history.index_of(kTracked).value();
  const auto& norms = tracked.norms.of_steps;
  ASSERT_GT(norms.size(), 3U);
  EXPECT_EQ(all.lookups, history.row(index).lookups);
  EXPECT_EQ(all.with_gradient, norms.size());
  EXPECT_EQ(all.without, 20 - norms.size());
  ASSERT_EQ(all.steps.size(), norms.size());
  double shares = 0, path = 0;
  for (const RowMovement::Step& step : all.steps) {
    EXPECT_DOUBLE_EQ(step.gradient_norm, norms.at(step.step));
    path += step.moved;
    shares += step.share;
    std::size_t lookups = 0;
    for (const RowMovement::Window& window : step.windows) {
      EXPECT_EQ(window.tokens.size(), kContext);
      for (const std::size_t position : window.positions)
        EXPECT_EQ(window.tokens[position], kTracked);
      lookups += window.positions.size();
    }
    EXPECT_EQ(lookups, step.lookups);
    EXPECT_GT(lookups, 0U);
  }
  EXPECT_NEAR(path, history.row(index).path, 1e-7);
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(all.by_gradients, 1, 1e-9);
  EXPECT_EQ(all.by_momentum, 0);
  EXPECT_EQ(all.by_decay, 0);

  // Only the two steps that moved the row farthest are kept.
  const TrackedRun few(SgdOptions{.learning_rate = 0.5}, {.steps = 2, .windows = 1});
  EXPECT_EQ(few.all.with_gradient, all.with_gradient);
  EXPECT_EQ(few.all.by_gradients, all.by_gradients);
  ASSERT_EQ(few.all.steps.size(), 2U);
  const std::vector<TableHistory::Step> history_steps = history.steps(index);
  for (const TableHistory::Step& far : std::span(history_steps).first(2)) {
    const auto kept = std::ranges::find(few.all.steps, far.step, &RowMovement::Step::step);
    const auto step = std::ranges::find(all.steps, far.step, &RowMovement::Step::step);
    ASSERT_NE(kept, few.all.steps.end());
    EXPECT_EQ(kept->share, step->share);
    EXPECT_NEAR(kept->moved, far.moved, 1e-7);
    EXPECT_EQ(kept->windows.size(), 1U);
  }
  EXPECT_LT(few.all.steps[0].step, few.all.steps[1].step);
}

// A row of a tied table has a gradient in all steps.
TEST(RowMovement, PrefersStepsThatLookedTheRowUp) {
  const auto steps_kept = [](std::size_t most) {
    return TrackedRun(SgdOptions{.learning_rate = 0.5}, {.steps = most}, true).all.steps;
  };
  const auto looked_up = [](const RowMovement::Step& step) { return step.lookups > 0; };
  const auto all = steps_kept(20);
  ASSERT_EQ(all.size(), 20U);
  const auto count = static_cast<std::size_t>(std::ranges::count_if(all, looked_up));
  const auto few = steps_kept(count);
  EXPECT_EQ(few.size(), count);
  EXPECT_TRUE(std::ranges::all_of(few, looked_up)) << count;
}

TEST(RowMovement, SeparatesMomentumAndDecay) {
  const auto summary_of = [](const AnyOptions& options) {
    const RowMovement::Summary all = TrackedRun(options).all;
    EXPECT_NEAR(all.by_gradients + all.by_momentum + all.by_decay, 1, 1e-9);
    return all;
  };
  const auto momentum = summary_of(SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
  EXPECT_GT(std::abs(momentum.by_momentum), 0.01);
  EXPECT_EQ(momentum.by_decay, 0);
  const auto decay = summary_of(AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.5});
  EXPECT_NE(decay.by_decay, 0);
  EXPECT_TRUE(decay.knows_decay);
  // Adam's decay is part of the gradient.
  EXPECT_FALSE(summary_of(AdamOptions{.learning_rate = 0.01, .weight_decay = 0.5}).knows_decay);
}

}  // namespace
