#include "tests/test.hpp"

namespace {

constexpr std::int32_t kFollowed = 7;
constexpr std::size_t kWordCount = 40;

Ids random_words(std::size_t tokens) {
  Random random(5);
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < tokens; ++i)
    ids.push_back(static_cast<std::int32_t>(random.bits() % kWordCount));
  return to_ids(ids);
}

// What happens to the row in a run, observed apart from RowMovement.
struct WatchedRow : RunObserver {
  explicit WatchedRow(const Parameter& of) : table(of) {}

  Tensor row() const { return table.rows(std::array{kFollowed}); }
  void after_backward(const TrainingRun&, const Tape& tape) override {
    for (const Tape::Lookup& lookup : tape.lookups())
      if (lookup.table == &table)
        lookups += static_cast<std::size_t>(std::ranges::count(lookup.ids, kFollowed));
  }
  void before_update(const TrainingRun& run) override {
    before = row();
    for (const auto [index, values] : table.gradient().rows()) {
      if (index != kFollowed) continue;
      double squares = 0;
      for (const real g : values) squares += static_cast<double>(g) * static_cast<double>(g);
      norms[run.steps() + 1] = std::sqrt(squares);
    }
  }
  void after_step(const TrainingRun& run, double) override {
    const Tensor now = row();
    double squares = 0;
    for (std::size_t i = 0; i < now.size(); ++i)
      squares += std::pow(static_cast<double>(now.data()[i]) - before.data()[i], 2);
    moved[run.steps()] = std::sqrt(squares);
  }

  const Parameter& table;
  Tensor before;
  std::size_t lookups = 0;
  std::map<std::size_t, double> norms, moved;
};

struct FollowedRun {
  explicit FollowedRun(RowMovementOptions options = {})
      : reasons(model, model.token.weight, kFollowed, options) {}

  void train(Optimizer& optimizer, std::size_t steps = 20) {
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .steps = steps});
    run.observe(watched);
    run.observe(reasons);
    run.train();
  }

  Random random{3};
  NextTokenModel model{{.vocabulary = kWordCount, .context = 4, .width = 6}, random};
  DataLoader loader{TokenWindows(random_words(200), {.context = 4, .stride = 4}), {.batch = 2}};
  WatchedRow watched{model.token.weight};
  RowMovement reasons;
};

double sum_of_shares(const RowMovement::Summary& all) {
  return all.by_gradients + all.by_momentum + all.by_decay;
}

TEST(RowMovement, NameTheStepsAndTheWindowsThatMovedTheRow) {
  FollowedRun trained;
  SGD sgd(trained.model.parameters(), {.learning_rate = 0.5});
  trained.train(sgd);
  const RowMovement::Summary all = trained.reasons.summary();
  const WatchedRow& watched = trained.watched;
  ASSERT_GT(watched.norms.size(), 3U);
  EXPECT_EQ(all.lookups, watched.lookups);
  EXPECT_EQ(all.with_gradient, watched.norms.size());
  EXPECT_EQ(all.without, 20 - watched.norms.size());
  ASSERT_EQ(all.steps.size(), watched.norms.size());
  double shares = 0;
  for (const RowMovement::Step& step : all.steps) {
    EXPECT_DOUBLE_EQ(step.gradient_norm, watched.norms.at(step.step));
    EXPECT_NEAR(step.moved, watched.moved.at(step.step), 1e-12);
    shares += step.share;
    std::size_t lookups = 0;
    for (const RowMovement::Window& window : step.windows) {
      EXPECT_EQ(window.tokens.size(), 4U);
      for (const std::size_t position : window.positions)
        EXPECT_EQ(window.tokens[position], kFollowed);
      lookups += window.positions.size();
    }
    EXPECT_EQ(lookups, step.lookups);
    EXPECT_GT(lookups, 0U);
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_NEAR(all.by_gradients, 1, 1e-9);
  EXPECT_EQ(all.by_momentum, 0);
  EXPECT_EQ(all.by_decay, 0);
}

TEST(RowMovement, TellWhatMomentumAndDecayAdded) {
  FollowedRun with_momentum;
  SGD momentum(with_momentum.model.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  with_momentum.train(momentum);
  const RowMovement::Summary all = with_momentum.reasons.summary();
  EXPECT_NEAR(sum_of_shares(all), 1, 1e-9);
  EXPECT_GT(std::abs(all.by_momentum), 0.01);
  EXPECT_EQ(all.by_decay, 0);

  FollowedRun with_decay;
  AdamW adamw(with_decay.model.parameters(), {.learning_rate = 0.01, .weight_decay = 0.5});
  with_decay.train(adamw);
  EXPECT_NEAR(sum_of_shares(with_decay.reasons.summary()), 1, 1e-9);
  EXPECT_NE(with_decay.reasons.summary().by_decay, 0);
  EXPECT_TRUE(with_decay.reasons.summary().knows_decay);

  FollowedRun with_l2;  // decay that goes through the moments
  Adam adam(with_l2.model.parameters(), {.learning_rate = 0.01, .weight_decay = 0.5});
  with_l2.train(adam);
  EXPECT_NEAR(sum_of_shares(with_l2.reasons.summary()), 1, 1e-9);
  EXPECT_FALSE(with_l2.reasons.summary().knows_decay);
}

TEST(RowMovement, KeepTheStepsThatMovedTheRowFarthest) {
  FollowedRun all;
  SGD sgd(all.model.parameters(), {.learning_rate = 0.5});
  all.train(sgd);
  FollowedRun few({.steps = 2, .windows = 1});
  SGD same(few.model.parameters(), {.learning_rate = 0.5});
  few.train(same);
  std::vector<RowMovement::Step> steps = all.reasons.summary().steps;
  std::ranges::sort(steps, std::greater<>(), &RowMovement::Step::moved);
  steps.resize(2);
  std::ranges::sort(steps, {}, &RowMovement::Step::step);
  const RowMovement::Summary summary = few.reasons.summary();
  ASSERT_EQ(summary.steps.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(summary.steps[i].step, steps[i].step);
    EXPECT_EQ(summary.steps[i].share, steps[i].share);
    EXPECT_EQ(summary.steps[i].windows.size(), 1U);
  }
  EXPECT_EQ(summary.with_gradient, all.reasons.summary().with_gradient);
  EXPECT_EQ(summary.by_gradients, all.reasons.summary().by_gradients);
}

TEST(RowMovement, ChangeNothingOfTheRun) {
  FollowedRun watched;
  AdamW adamw(watched.model.parameters());
  watched.train(adamw);
  FollowedRun alone;
  AdamW same(alone.model.parameters());
  TrainingRun run({.model = alone.model,
                   .optimizer = same,
                   .loader = alone.loader,
                   .random = alone.random,
                   .steps = 20});
  run.train();
  EXPECT_EQ(watched.model.token.weight.value(), alone.model.token.weight.value());
}

TEST(RowMovement, RefuseWhatIsNoRow) {
  struct Model : Layer {
    Parameter table{*this, "table", zeros({4, 2})};
    Parameter bias{*this, "bias", zeros({4})};
  } model;
  for (const std::int32_t row : {-1, 4})
    EXPECT_INVALID(concat("RowMovement: row ", row, " of table, which has 4"),
                   RowMovement(model, model.table, row));
  EXPECT_INVALID("RowMovement: bias is no table, of shape [4]", RowMovement(model, model.bias, 0));
}

}  // namespace
