#include "tests/test.hpp"
#include <rowgrad/examples/support/checkpoint_difference.hpp>

namespace {

using Kind = CheckpointDifference::Kind;

Checkpoint small_state() {
  Checkpoint state;
  state.put("table", Tensor{{1, 2}, {3, 4}, {5, 6}});
  state.put("rate", 0.1);
  state.put("steps", std::vector<std::int64_t>{1, 2});
  state.put("note", "a text");
  return state;
}

Checkpoint small_state_with(const std::string& name, Checkpoint::Value value) {
  Checkpoint state = small_state();
  state.erase(name);
  state.put(name, std::move(value));
  return state;
}

TEST(Differences, AreNoneBetweenEqualCheckpoints) {
  EXPECT_TRUE(differences(small_state(), small_state()).empty());
  EXPECT_TRUE(differences(Checkpoint(), Checkpoint()).empty());
}

TEST(Differences, NameTheFirstNumberItsRowAndHowMany) {
  const auto all =
      differences(small_state(), small_state_with("table", Tensor{{1, 2}, {3, 4.5}, {4, 6.25}}));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "table");
  EXPECT_EQ(all[0].kind, Kind::numbers);
  EXPECT_EQ(all[0].row, 1U);
  EXPECT_EQ(all[0].column, 1U);
  EXPECT_EQ(all[0].first, 4);
  EXPECT_EQ(all[0].second, 4.5);
  EXPECT_EQ(all[0].rows, 2U);
  EXPECT_EQ(all[0].rows_in_all, 3U);
  EXPECT_EQ(all[0].largest_difference, 1);
}

TEST(Differences, AreOfBits) {
  const real nan = std::numeric_limits<real>::quiet_NaN();
  EXPECT_TRUE(
      differences(small_state_with("table", Tensor{nan}), small_state_with("table", Tensor{nan}))
          .empty());
  const auto zeros = differences(small_state_with("table", Tensor{0}),
                                 small_state_with("table", Tensor{-real{0}}));
  ASSERT_EQ(zeros.size(), 1U);
  EXPECT_EQ(zeros[0].largest_difference, 0);
  const auto with_nan = differences(small_state_with("table", Tensor{1, nan, 7}),
                                    small_state_with("table", Tensor{1, 2, 3}));
  ASSERT_EQ(with_nan.size(), 1U);
  EXPECT_TRUE(std::isnan(with_nan[0].largest_difference));
  EXPECT_EQ(with_nan[0].row, 1U);
}

TEST(Differences, AreFoundInScalarsIntegersAndTexts) {
  const auto rate =
      differences(small_state(), small_state_with("rate", Checkpoint::Doubles{{}, {0.2}}));
  ASSERT_EQ(rate.size(), 1U);
  EXPECT_EQ(rate[0].rows_in_all, 1U);
  EXPECT_EQ(rate[0].second, 0.2);
  const auto steps =
      differences(small_state(), small_state_with("steps", Checkpoint::Integers{{2}, {1, 3}}));
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].row, 1U);
  const auto note = differences(small_state(), small_state_with("note", "another"));
  ASSERT_EQ(note.size(), 1U);
  EXPECT_EQ(note[0].kind, Kind::text);
}

TEST(Differences, AreAlsoOfNamesTypesAndShapes) {
  Checkpoint other = small_state();
  other.erase("rate");
  other.put("b", 1);
  const auto names = differences(small_state(), other);
  ASSERT_EQ(names.size(), 2U);
  EXPECT_EQ(names[0].name, "b");
  EXPECT_EQ(names[0].kind, Kind::only_in_second);
  EXPECT_EQ(names[1].name, "rate");
  EXPECT_EQ(names[1].kind, Kind::only_in_first);
  for (Checkpoint::Value value : {Checkpoint::Value(Tensor{{1, 2, 3}, {4, 5, 6}}),
                                  Checkpoint::Value("a text"), Checkpoint::Value(Tensor())}) {
    const auto shapes = differences(small_state(), small_state_with("table", value));
    ASSERT_EQ(shapes.size(), 1U);
    EXPECT_EQ(shapes[0].kind, Kind::type_or_shape);
  }
}

TEST(Differences, CopeWithNoNumbers) {
  EXPECT_TRUE(differences(small_state_with("table", empty({0, 2})),
                          small_state_with("table", empty({0, 2})))
                  .empty());
  EXPECT_TRUE(differences(small_state_with("table", empty({2, 0})),
                          small_state_with("table", empty({2, 0})))
                  .empty());
}

}  // namespace
