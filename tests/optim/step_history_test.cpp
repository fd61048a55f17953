#include "tests/test.hpp"

namespace {

// Half of the trials drop the first runs of the history.
TEST(StepHistory, ComposesAnyRangeLikeSingleSteps) {
  using History = StepHistory<SgdRule>;
  std::mt19937 random(5);
  for (int trial = 0; trial < 80; ++trial) {
    const bool drops = trial % 2 == 1;
    History history;
    std::vector<History::Map> steps;
    const std::uint32_t runs = 1 + random() % 40;
    for (std::uint32_t run = 0; run < runs; ++run) {
      // If the options equal the previous options, append() extends the last run.
      const SgdOptions options{
          .learning_rate = 0.1 + 0.01 * (random() % 3), .momentum = 0.9, .weight_decay = 0.01};
      const SgdRule rule(options, {.step = 2, .is_first_use = false});
      const std::uint32_t count = random() % 3 == 0 ? 1 + random() % 50 : 1;
      history.append(rule, count);
      steps.insert(steps.end(), count, History::map_without_gradient(rule));
      if (drops && history.runs().size() == 16) history.drop_runs(8);
    }
    ASSERT_EQ(history.steps(), steps.size());
    const std::uint64_t first = drops ? history.runs().front().end : 0;
    for (int query = 0; query < 50; ++query) {
      const std::uint64_t from = first + random() % (steps.size() + 1 - first);
      const std::uint64_t to = from + random() % (steps.size() + 1 - from);
      History::Map expected = identity<History::kArrays>();
      for (std::uint64_t i = from; i < to; ++i) expected = compose(steps[i], expected);
      const History::Map found = history.compose_steps(from, to);
      for (std::size_t i = 0; i < 2; ++i)
        for (std::size_t j = 0; j < 2; ++j)
          ASSERT_NEAR(found[i][j], expected[i][j], 1e-13) << from << " to " << to;
    }
  }
}

}  // namespace
