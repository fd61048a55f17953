#include "tests/test.hpp"

namespace {

TEST(AlibiSlopes, AreThoseOfPyTorchForAnyNumberOfHeads) {
  const json file = golden("gpt_ops.json");
  for (const auto& [heads, slopes] : file["alibi_slopes"].items()) {
    const auto expected = slopes.get<std::vector<double>>();
    const std::vector<double> got = alibi_slopes(std::stoul(heads));
    ASSERT_EQ(got.size(), expected.size());
    // There, slope i is the i-th power of a rounded number, which is off by up to i / 2 epsilon.
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

TEST(T5Bucket, IsThatOfPyTorch) {
  const json file = golden("gpt_ops.json");
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

TEST(T5Bucket, BeginsAtThePublishedDistances) {
  // Of the 32 buckets that see in both directions, half are for earlier keys.
  const auto firsts = [](std::size_t buckets) {
    std::vector<std::size_t> distances;
    for (std::size_t distance = 1; distance < 300; ++distance)
      if (const std::size_t bucket = t5_bucket(distance, buckets, 128);
          bucket >= buckets / 2 && bucket != t5_bucket(distance - 1, buckets, 128))
        distances.push_back(distance);
    return distances;
  };
  EXPECT_EQ(firsts(16), (std::vector<std::size_t>{8, 12, 16, 23, 32, 46, 64, 91}));
  EXPECT_EQ(firsts(32), (std::vector<std::size_t>{16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67,
                                                  77, 87, 99, 113}));
}

TEST(T5Bias, GivesTheNumbersOfOnnxRuntime) {
  // Its tables [heads, 2, 2] of a query and a key, below the diagonal and on it.
  Tape tape(Tape::inference);
  const auto bias = [&](const Shape& table) {
    return t5_bias(tape.constant(counting(table)), 2, 128).value();
  };
  EXPECT_EQ(bias({4, 3}), tensor({3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(bias({2, 2}), tensor({2, 2}, {1, 3, 2, 4}));  // the earlier half of 4 buckets
}

TEST(T5Bias, LooksUpTheBucketsOfDistances) {
  Tape tape;
  const Variable table = tape.input(counting({4, 3}));
  const Tensor bias = t5_bias(table, 9, 8).value();  // buckets 0, 1, 2 from 2 on, 3 from 4 on
  expect_exact(bias, {3, 9}, [](const Shape& at) {
    const std::size_t bucket = at[1] < 2 ? at[1] : at[1] < 4 ? 2 : 3;
    return static_cast<double>(bucket * 3 + at[0] + 1);
  });
}

TEST(T5Bias, GivesAGradientOnlyToBucketsThatWereReached) {
  Tape tape;
  const Variable table = tape.input(irregular({8, 2}));
  tape.backward(sum(t5_bias(table, 6, 32)));
  const Gradient& gradient = tape.gradient(table);
  ASSERT_TRUE(gradient.is_rows());
  EXPECT_EQ(gradient.rows().indices(), (std::vector<std::int32_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(gradient.rows().values(), tensor({5, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 2, 2}));
  expect_gradients([](Inputs in) { return t5_bias(in[0], 40, 32); }, {irregular({8, 3})});
}

}  // namespace
