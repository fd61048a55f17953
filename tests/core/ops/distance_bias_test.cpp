#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/gradients.hpp"
#include <rowgrad/core/ops/distance_bias.hpp>
#include <rowgrad/core/ops/reduction.hpp>

namespace rowgrad {
namespace {

using testing::error_of;
using testing::expect_gradients;
using testing::irregular;

using Inputs = std::span<const Variable>;

TEST(AlibiSlopes, AreThoseOfPyTorchForAnyNumberOfHeads) {
  const nlohmann::json file = testing::golden("gpt_ops.json");
  for (const auto& [heads, slopes] : file["alibi_slopes"].items()) {
    const auto expected = slopes.get<std::vector<double>>();
    const std::vector<double> got = alibi_slopes(std::stoul(heads));
    ASSERT_EQ(got.size(), expected.size());
    // There, slope i is the i-th power of a rounded number, which is off by up to i / 2 epsilon.
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], expected[i], static_cast<double>(i + 1) * 0x1p-52 * expected[i]) << heads;
  }
  EXPECT_EQ(alibi_slopes(3), (std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2}));
  EXPECT_EQ(error_of<std::invalid_argument>([] { alibi_slopes(0); }), "alibi_slopes: heads is 0");
}

TEST(AlibiBias, GrowsWithTheDistance) {
  testing::expect_exact(alibi_bias(2, 5), {2, 5}, [](const Shape& at) {
    return -(at[0] == 0 ? 0x1p-4 : 0x1p-8) * static_cast<double>(at[1]);
  });
}

TEST(T5Bucket, IsThatOfPyTorch) {
  const nlohmann::json file = testing::golden("gpt_ops.json");
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
  const Variable table = tape.input(testing::counting({4, 3}));
  const Tensor bias = t5_bias(table, 9, 8).value();  // buckets 0, 1, 2 from 2 on, 3 from 4 on
  testing::expect_exact(bias, {3, 9}, [](const Shape& at) {
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
  EXPECT_EQ(gradient.rows().values(), testing::tensor({5, 2}, {1, 1, 1, 1, 1, 1, 1, 1, 2, 2}));
  expect_gradients([](Inputs in) { return t5_bias(in[0], 40, 32); }, {irregular({8, 3})});
}

TEST(T5Bias, RefusesWhatDoesNotFit) {
  Tape tape;
  const auto apply = [&](const Shape& table, std::size_t max_distance) {
    return error_of<std::invalid_argument>(
        [&] { t5_bias(tape.input(zeros(table)), 4, max_distance); });
  };
  EXPECT_EQ(apply({4}, 8), "t5_bias: table has shape [4], expected [buckets, heads]");
  EXPECT_EQ(apply({1, 2}, 8), "t5_bias: there are 1 buckets, expected at least 2");
  EXPECT_EQ(apply({8, 2}, 4),
            "t5_bias: max_distance is 4, expected more than half of the 8 buckets");
  EXPECT_EQ(error_of<std::invalid_argument>([] { t5_bucket(3, 0, 8); }),
            "t5_bucket: there are 0 buckets, expected at least 2");
}

}  // namespace
}  // namespace rowgrad
