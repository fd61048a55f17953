#include "tests/test.hpp"

namespace {

SgdRule sgd(double rate, double momentum = 0.9, double decay = 0.01) {
  return SgdRule({.learning_rate = rate, .momentum = momentum, .weight_decay = decay},
                 {.step = 2, .first_of_state = false});
}

using SgdHistory = StepHistory<SgdRule>;

TEST(IdleMap, IsTheRuleWithoutGradient) {
  const SgdRule rule = sgd(0.1);
  const auto map = SgdHistory::idle_map(rule);
  // v = 0.9 v + 0.01 w, w = w − 0.1 v; the coefficients are numbers of type real.
  const double momentum = rule.momentum, decay = rule.decay, rate = rule.rate;
  EXPECT_DOUBLE_EQ(map[1][0], decay);
  EXPECT_DOUBLE_EQ(map[1][1], momentum);
  EXPECT_DOUBLE_EQ(map[0][0], 1 - rate * decay);
  EXPECT_DOUBLE_EQ(map[0][1], -rate * momentum);
}

TEST(IdleMap, OfAdamIsThatOfFadedMeans) {
  const AdamWRule rule({.learning_rate = 0.1, .weight_decay = 0.5, .amsgrad = true}, {.step = 9});
  using History = StepHistory<AdamWRule>;
  const History::Map map = History::idle_map(rule);
  const History::Map expected{
      {{rule.decay_factor, 0, 0, 0}, {0, rule.beta1, 0, 0}, {0, 0, rule.beta2, 0}, {0, 0, 0, 1}}};
  EXPECT_EQ(map, expected);
}

TEST(IdleMap, OfCenteredRmsPropIsFinite) {
  const RmsPropRule rule({.momentum = 0.5, .centered = true}, {});
  for (const auto& row : StepHistory<RmsPropRule>::idle_map(rule))
    for (const double entry : row) EXPECT_TRUE(std::isfinite(entry));
}

TEST(StepHistory, ComposesAnyStretchLikeTheStepsOneByOne) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 40; ++trial) {
    SgdHistory history;
    std::vector<SgdHistory::Map> steps;
    const std::uint32_t runs = 1 + random() % 40;
    for (std::uint32_t run = 0; run < runs; ++run) {
      // Now and then the same rule again, which lengthens the last run.
      const SgdRule rule = sgd(0.1 + 0.01 * (random() % 3));
      const std::uint32_t count = random() % 3 == 0 ? 1 + random() % 50 : 1;
      history.append(rule, count);
      steps.insert(steps.end(), count, SgdHistory::idle_map(rule));
    }
    ASSERT_EQ(history.steps(), steps.size());
    for (int query = 0; query < 50; ++query) {
      const std::uint64_t from = random() % (steps.size() + 1);
      const std::uint64_t to = from + random() % (steps.size() + 1 - from);
      SgdHistory::Map expected = SgdHistory::identity();
      for (std::uint64_t i = from; i < to; ++i) expected = SgdHistory::compose(steps[i], expected);
      const SgdHistory::Map found = history.compose_steps(from, to);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
          ASSERT_NEAR(found[i][j], expected[i][j], 1e-13) << from << " to " << to;
    }
  }
}

TEST(StepHistory, KeepsEqualStepsAsOneRun) {
  SgdHistory history;
  EXPECT_EQ(history.steps(), 0U);
  for (int i = 0; i < 1000; ++i) history.append(sgd(0.1));
  history.append(sgd(0.2));
  EXPECT_EQ(history.runs().size(), 2U);
  EXPECT_EQ(history.steps(), 1001U);
  EXPECT_EQ(history.run_of(1), 0U);
  EXPECT_EQ(history.run_of(1000), 0U);
  EXPECT_EQ(history.run_of(1001), 1U);
  history = {};
  EXPECT_EQ(history.steps(), 0U);
}

TEST(StepHistory, KnowsWhereAClosedFormEnds) {
  StepHistory<RmsPropRule> history;
  const RmsPropRule closed({}, {});
  const RmsPropRule open({.weight_decay = 0.1}, {});
  history.append(closed, 5);
  EXPECT_EQ(history.closed_until(2), 5U);
  EXPECT_FALSE(history.has_replay(0));
  history.append(open, 3);
  history.append(closed, 4);
  EXPECT_TRUE(history.has_replay(7));
  EXPECT_FALSE(history.has_replay(8));
  EXPECT_EQ(history.closed_until(0), 5U);
  EXPECT_EQ(history.closed_until(5), 5U);
  EXPECT_EQ(history.closed_until(7), 7U);
  EXPECT_EQ(history.closed_until(8), 12U);
}

TEST(StepHistory, ReplaysStepsThatMakeNumbersGrowWithoutBound) {
  const auto idle = [](const SgdOptions& options) {
    SgdHistory history;
    history.append(SgdRule(options, {.step = 2, .first_of_state = false}));
    return history.runs().front().idle;
  };
  EXPECT_EQ(idle({.learning_rate = 1, .momentum = 0.999, .weight_decay = 0.9}), IdleStep::kLinear);
  EXPECT_EQ(idle({.learning_rate = 1, .momentum = 1}), IdleStep::kLinear);
  EXPECT_EQ(idle({.learning_rate = 1, .weight_decay = 1.9}), IdleStep::kLinear);
  EXPECT_EQ(idle({.learning_rate = 1, .weight_decay = 2.1}), IdleStep::kReplay);
  EXPECT_EQ(idle({.learning_rate = 1, .momentum = 1.1}), IdleStep::kReplay);
  EXPECT_EQ(idle({.learning_rate = 1e30, .momentum = 0.5}), IdleStep::kReplay);
}

TEST(StepHistory, KeepsItsSecondHalfWhenItForgetsTheFirst) {
  SgdHistory whole, half;
  for (int i = 0; i < 50; ++i) {
    for (auto* history : {&whole, &half}) history->append(sgd(0.1 + 0.001 * i), 1 + i % 3);
    if (half.runs().size() == 16) half.forget(8);
  }
  ASSERT_LT(half.runs().size(), 16U);
  ASSERT_EQ(half.steps(), whole.steps());
  const std::uint64_t first = half.runs().front().end;
  for (std::uint64_t from = first; from <= half.steps(); ++from)
    for (std::uint64_t to = from; to <= half.steps(); ++to) {
      const SgdHistory::Map found = half.compose_steps(from, to);
      const SgdHistory::Map expected = whole.compose_steps(from, to);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
          ASSERT_NEAR(found[i][j], expected[i][j], 1e-13) << from << " to " << to;
    }
}

}  // namespace
