#include "tests/test.hpp"

namespace {

using Rows = std::vector<Ids32>;

// Returns the inputs or the targets of all windows.
Rows rows_of(const TokenWindows& windows, std::size_t array) {
  Rows rows;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(windows.size()); ++i)
    rows.push_back(values(windows.batch({&i, 1}).ids[array]));
  return rows;
}

constexpr std::int32_t kNone = kIgnoredTarget;

TEST(Examples, HaveTheClassOrTheAnswerAsTargets) {
  const Ids text{5, 6, 7};
  EXPECT_EQ(classification_example(text, 2).inputs, (std::vector{5, 6, 7}));
  EXPECT_EQ(classification_example(text, 2).targets, (std::vector{kNone, kNone, 2}));
  EXPECT_EQ(classification_example(text, 1, 2).targets, (std::vector{kNone, 1}));
  const TrainingExample answer = answer_example(Ids{1, 2}, Ids{3, 4}, 9);
  EXPECT_EQ(answer.inputs, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(answer.targets, (std::vector{kNone, 3, 4, 9}));
  const Ids none = to_ids(Ids32());
  EXPECT_INVALID("classification_example: ids has shape [0], expected one axis and at least one id",
                 classification_example(none, 0));
  EXPECT_INVALID("answer_example: prompt has shape [0], expected one axis and at least one id",
                 answer_example(none, text, 0));
  EXPECT_INVALID("answer_example: answer has shape [0], expected one axis and at least one id",
                 answer_example(text, none, 0));
  EXPECT_INVALID("classification_example: max_ids is 0, expected at least 1",
                 classification_example(text, 0, 0));
  EXPECT_INVALID("classification_example: label is 2147483648, expected less than 2^31",
                 classification_example(text, std::size_t{1} << 31));
}

TEST(Examples, ArePaddedOrPackedIntoWindows) {
  const std::vector<TrainingExample> examples{
      {{1, 2, 3}, {kNone, kNone, 7}}, {{4}, {8}}, {{5, 6}, {kNone, 9}}, {{1, 2, 3}, {1, 1, 1}}};
  const TokenWindows padded = padded_windows(examples, {.padding = 50});
  EXPECT_EQ(rows_of(padded, 0), (Rows{{1, 2, 3}, {4, 50, 50}, {5, 6, 50}, {1, 2, 3}}));
  EXPECT_EQ(rows_of(padded, 1),
            (Rows{{kNone, kNone, 7}, {8, kNone, kNone}, {kNone, 9, kNone}, {1, 1, 1}}));
  const TokenWindows packed = packed_windows(examples, {.context = 5});
  EXPECT_EQ(rows_of(packed, 0), (Rows{{1, 2, 3, 4, 0}, {5, 6, 1, 2, 3}}));
  EXPECT_EQ(rows_of(packed, 1), (Rows{{kNone, kNone, 7, 8, kNone}, {kNone, 9, 1, 1, 1}}));

  EXPECT_INVALID("padded_windows: example 0 has 3 ids, expected at most the context, 2",
                 padded_windows(examples, {.context = 2}));
  EXPECT_THROW(padded_windows(examples, {.context = std::size_t{1} << 62}), std::invalid_argument);
  EXPECT_INVALID("packed_windows: there are no examples, expected at least one",
                 packed_windows({}));
  EXPECT_INVALID(
      "packed_windows: example 0 has 1 ids and 0 targets, expected one or more ids, each with a "
      "target",
      packed_windows(std::vector<TrainingExample>{{{1}, {}}}));
}

}  // namespace
