#include "tests/test.hpp"

namespace {

TEST(AlibiSlopes, MatchPyTorchForAnyNumberOfHeads) {
  const json file = golden("positions.json");
  for (const auto& [heads, slopes] : file["alibi_slopes"].items()) {
    const auto expected = slopes.get<std::vector<double>>();
    const std::vector<double> got = alibi_slopes(std::stoul(heads));
    ASSERT_EQ(got.size(), expected.size());
    // PyTorch's slope i is the i-th power of a rounded base, with an error of up to i / 2 epsilon.
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], static_cast<double>(i + 1) * 0x1p-52 * expected[i]) << heads;
  }
  EXPECT_EQ(alibi_slopes(3), (std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2}));
}

TEST(AlibiBias, GrowsWithTheDistance) {
  expect_exact(alibi_bias(2, 5), {2, 5}, [](const Shape& at) {
    return -(at[0] == 0 ? 0x1p-4 : 0x1p-8) * static_cast<double>(at[1]);
  });
}

TEST(T5Bucket, MatchesPyTorch) {
  const json file = golden("positions.json");
  const auto compare = [&](std::size_t buckets, std::size_t max_distance) {
    const auto expected = file[concat("t5_buckets (", buckets, " buckets, max_distance ",
                                      max_distance, "; distance 0 ..)")]
                              .get<std::vector<std::size_t>>();
    ASSERT_GT(expected.size(), max_distance);
    for (std::size_t distance = 0; distance < expected.size(); ++distance)
      EXPECT_EQ(t5_bucket(distance, buckets, max_distance), expected[distance]) << distance;
  };
  compare(8, 32);
  compare(32, 128);
  EXPECT_EQ(t5_bucket(1'000'000, 32, 128), 31U);
  EXPECT_EQ(t5_bucket(1, 2, 2), 1U);
}

TEST(T5Bias, LooksUpTheBucketsOfDistances) {
  Tape tape;
  const Variable table = tape.input(counting({4, 3}));
  const Tensor bias = t5_bias(table, 9, 8).value();  // bucket 2 begins at distance 2, bucket 3 at 4
  expect_exact(bias, {3, 9}, [](const Shape& at) {
    const std::size_t bucket = at[1] < 2 ? at[1] : at[1] < 4 ? 2 : 3;
    return static_cast<double>(bucket * 3 + at[0] + 1);
  });
  tape.backward(sum(t5_bias(table, 3, 8)));
  EXPECT_EQ(tape.gradient(table).rows().indices(), (Ids32{0, 1, 2}));  // without bucket 3
}

TEST(Rotary, DependsOnlyOnTheDistanceAtLargePositions) {
  Tape tape;
  const Variable q = tape.constant(irregular({1, 8})), k = tape.constant(irregular({1, 8}, 1));
  const auto product = [&](std::size_t first) {
    const RotaryTable table(6, 8, {.first_position = first});
    return sum(rotary(q, table, 1, first + 5) * rotary(k, table, 1, first)).item();
  };
  // The angles, up to 10^6, have rounding errors of up to 2^-34.
  EXPECT_NEAR(product(1'000'000), product(0), std::max(40 * kEpsilon, 1e-9));
  const RotaryTable all(9, 8), last(2, 8, {.first_position = 7});
  EXPECT_EQ(rotary(q, last, 1, 8).value(), rotary(q, all, 1, 8).value());
}

TEST(RelativeRows, CoverOnlyDistancesThatOccur) {
  for (const std::size_t length : {0U, 1U, 2U, 4U, 5U, 100U}) {
    Tape tape;
    const Variable table = tape.input(counting({7, 2}));  // distances up to 3
    const Variable rows = relative_rows(table, length);
    const std::size_t count = std::min<std::size_t>(length, 4);
    expect_exact(rows.value(), {count, 2}, [&](const Shape& at) {
      return static_cast<double>((4 - count + at[0]) * 2 + at[1] + 1);
    });
    tape.backward(sum(rows));
    Ids32 expected;
    for (std::size_t row = 4 - count; row < 4; ++row)
      expected.push_back(static_cast<std::int32_t>(row));
    EXPECT_EQ(tape.gradient(table).rows().indices(), expected);
  }
}

}  // namespace
