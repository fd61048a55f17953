#include "tests/test.hpp"

namespace {

using Rows = std::vector<std::vector<std::int32_t>>;

Rows rows_of(const TokenWindows& windows, std::size_t array) {
  Rows rows;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(windows.size()); ++i)
    rows.push_back(values(windows.batch({&i, 1}).ids[array]));
  return rows;
}
Rows inputs_of(const TokenWindows& windows) { return rows_of(windows, 0); }
Rows targets_of(const TokenWindows& windows) { return rows_of(windows, 1); }

constexpr std::int32_t kNone = kIgnoredTarget;

TEST(Examples, HaveTheirClassAtTheEndOrTheirAnswerAsTargets) {
  const TrainingExample of_class = class_example(to_ids(std::vector{5, 6, 7}), 2);
  EXPECT_EQ(of_class.inputs, (std::vector{5, 6, 7}));
  EXPECT_EQ(of_class.targets, (std::vector{kNone, kNone, 2}));
  EXPECT_EQ(class_example(to_ids(std::vector{5, 6, 7}), 1, 2).targets, (std::vector{kNone, 1}));
  const TrainingExample answer =
      answer_example(to_ids(std::vector{1, 2}), to_ids(std::vector{3, 4}), 9);
  EXPECT_EQ(answer.inputs, (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(answer.targets, (std::vector{kNone, 3, 4, 9}));
  const Ids none = to_ids(std::vector<std::int32_t>());
  EXPECT_INVALID("class_example: the text has shape [0], expected a text of at least one id",
                 class_example(none, 0));
  EXPECT_INVALID("answer_example: the prompt has shape [0], expected a text of at least one id",
                 answer_example(none, none, 0));
  EXPECT_INVALID("class_example: at most 0 ids are to be kept, expected at least 1",
                 class_example(to_ids(std::vector{5}), 0, 0));
}

TEST(Examples, ArePaddedOrPackedIntoWindows) {
  const std::vector<TrainingExample> examples{
      {{1, 2, 3}, {kNone, kNone, 7}}, {{4}, {8}}, {{5, 6}, {kNone, 9}}, {{1, 2, 3}, {1, 1, 1}}};
  const TokenWindows padded = padded_windows(examples, {.padding = 50});
  EXPECT_EQ(inputs_of(padded), (Rows{{1, 2, 3}, {4, 50, 50}, {5, 6, 50}, {1, 2, 3}}));
  EXPECT_EQ(targets_of(padded),
            (Rows{{kNone, kNone, 7}, {8, kNone, kNone}, {kNone, 9, kNone}, {1, 1, 1}}));
  const TokenWindows packed = packed_windows(examples, {.context = 5});
  EXPECT_EQ(inputs_of(packed), (Rows{{1, 2, 3, 4, 0}, {5, 6, 1, 2, 3}}));
  EXPECT_EQ(targets_of(packed), (Rows{{kNone, kNone, 7, 8, kNone}, {kNone, 9, 1, 1, 1}}));

  // A loader shuffles them as windows of a text.
  DataLoader loader(packed, {.batch = 2});
  const Batch& batch = *loader.begin();
  EXPECT_EQ(batch.targets(), ids({2, 5}, {kNone, kNone, 7, 8, kNone, kNone, 9, 1, 1, 1}));
  EXPECT_EQ(batch.inputs(), ids({2, 5}, {1, 2, 3, 4, 0, 5, 6, 1, 2, 3}));

  EXPECT_INVALID("padded_windows: example 0 has 3 ids, more than the context of 2",
                 padded_windows(examples, {.context = 2}));
  EXPECT_THROW(padded_windows(examples, {.context = std::size_t{1} << 62}), std::invalid_argument);
  EXPECT_INVALID("class_example: the label is 2147483648, expected less than 2^31",
                 class_example(to_ids(std::vector{5}), std::size_t{1} << 31));
  EXPECT_INVALID("packed_windows: there are no examples", packed_windows({}));
  EXPECT_INVALID("packed_windows: example 0 has 1 ids and 0 targets, expected equally many",
                 packed_windows(std::vector<TrainingExample>{{{1}, {}}}));
  EXPECT_INVALID("TokenWindows: there are 1 targets for 2 tokens",
                 TokenWindows(ids({2}, {1, 2}), ids({1}, {1}), {.context = 1, .stride = 1}));
  EXPECT_INVALID("TokenWindows: the text has 2 tokens, but a window has a context of 3",
                 TokenWindows(ids({2}, {1, 2}), ids({2}, {1, 2}), {.context = 3, .stride = 1}));
}

}  // namespace
