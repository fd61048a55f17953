#include "tests/test.hpp"

namespace {

using Weights = std::vector<double>;

const Weights kWeights{0.5, 0, 3, 1e-9, 2, 0.25, 7, 0, 1};

TEST(NegativeSampler, HasTheProbabilitiesOfTheWeights) {
  Weights many(100'000);
  for (std::size_t i = 0; i < many.size(); ++i)
    many[i] = i % 7 == 0 ? 0 : 1 / static_cast<double>(i + 10);
  const Weights huge{1e308, 1e308, 1e-300, 5e307};
  for (const Weights& weights : {kWeights, many, huge, Weights{5}, Weights{0, 1}}) {
    const NegativeSampler sampler(weights);
    const double largest = *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (const double weight : weights) total += weight / largest;
    ASSERT_EQ(sampler.classes(), weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double p = sampler.probability(static_cast<std::int32_t>(i));
      EXPECT_NEAR(p, weights[i] / largest / total, 1e-12);
      EXPECT_EQ(p == 0, weights[i] / largest / total == 0);
    }
  }
}

TEST(NegativeSampler, RaisesCountsToAPower) {
  const std::vector<std::uint64_t> counts{16, 0, 81, 1};
  const auto sampler = NegativeSampler::from_counts(counts);
  const Weights expected{8.0 / 36, 0, 27.0 / 36, 1.0 / 36};
  for (std::int32_t i = 0; i < 4; ++i)
    EXPECT_NEAR(sampler.probability(i), expected[static_cast<std::size_t>(i)], 1e-15);
  EXPECT_NEAR(NegativeSampler::from_counts(counts, 1).probability(0), 16.0 / 98, 1e-15);
  EXPECT_EQ(NegativeSampler::from_counts(counts, 0).probability(1), 0);
}

// Returns Σ (observed − expected)² / expected over the classes that can be drawn.
double chi_square(const NegativeSampler& sampler, const Ids& ids) {
  std::vector<double> counts(sampler.classes());
  for (const std::int32_t id : ids) ++counts[static_cast<std::size_t>(id)];
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double expected =
        sampler.probability(static_cast<std::int32_t>(i)) * static_cast<double>(ids.size());
    if (expected < 1) {
      EXPECT_LE(counts[i], 20 * expected) << i;
    } else {
      sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
  }
  return sum;
}

TEST(NegativeSampler, DrawsInProportionToTheWeights) {
  const NegativeSampler sampler(kWeights);
  Random random(1);
  const NegativeSamples samples = sampler.draw({20'000, 5}, random);
  EXPECT_LT(chi_square(sampler, samples.ids), 20.5);  // 99.9 % for 5 degrees of freedom
  EXPECT_EQ(samples.ids.shape(), Ids::shape_type({20'000, 5}));
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_NEAR(samples.log_expected_counts.data()[i],
                std::log(5 * sampler.probability(samples.ids.data()[i])), 1e-5);
  Random again(1);
  std::vector<std::int32_t> filled(100'000);
  sampler.fill(filled, again);
  EXPECT_TRUE(std::equal(filled.begin(), filled.end(), samples.ids.begin()));
}

// A class occurs in a set as often as its expected counts say, on average, and Σ 1 / count is the
// number of classes.
TEST(NegativeSampler, DrawsDistinctClasses) {
  const NegativeSampler sampler(Weights{5, 1, 0, 2, 8, 1e-3, 4});
  Random random(2);
  constexpr int kDraws = 20'000;
  for (const std::size_t count : {1, 3, 5}) {
    std::vector<double> inverse(sampler.classes()), squares(sampler.classes());
    double first = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      const NegativeSamples samples = sampler.draw_distinct(count, random);
      EXPECT_EQ(std::set<std::int32_t>(samples.ids.begin(), samples.ids.end()).size(), count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto id = static_cast<std::size_t>(samples.ids.data()[i]);
        const double weight = std::exp(-samples.log_expected_counts.data()[i]) / kDraws;
        inverse[id] += weight;
        squares[id] += weight * weight;
      }
      first += samples.ids.data()[0] == 4;
    }
    EXPECT_NEAR(first / kDraws, sampler.probability(4), 0.015);
    for (const std::size_t id : {0, 1, 3, 4, 6})
      EXPECT_NEAR(inverse[id], 1, 5 * std::sqrt(squares[id])) << id << " of " << count;
    EXPECT_EQ(inverse[2], 0);
  }
  const NegativeSamples all = sampler.draw_distinct(6, random);
  EXPECT_EQ(std::set<std::int32_t>(all.ids.begin(), all.ids.end()),
            (std::set<std::int32_t>{0, 1, 3, 4, 5, 6}));
  EXPECT_EQ(all.log_expected_counts, zeros({6}));
}

TEST(NegativeSampler, RefusesWrongWeightsAndCounts) {
  const auto make = [](const Weights& weights) { return NegativeSampler(weights); };
  EXPECT_INVALID("NegativeSampler: there are 0 weights, expected 1 to 2147483647", make({}));
  EXPECT_INVALID("NegativeSampler: all 2 weights are 0, expected one above 0", make({0, 0}));
  EXPECT_INVALID("NegativeSampler: weight 1 is -1, expected a finite number >= 0", make({1, -1}));
  EXPECT_INVALID("NegativeSampler: weight 0 is nan, expected a finite number >= 0",
                 make({std::nan(""), 1}));
  EXPECT_INVALID("NegativeSampler: weight 0 is inf, expected a finite number >= 0",
                 make({HUGE_VAL}));
  const NegativeSampler sampler = make({1, 0, 1});
  Random random(1);
  const std::string before = bits_of(random.state_dict());
  EXPECT_INVALID("NegativeSampler::draw: the shape is [], expected a last extent above 0",
                 sampler.draw({}, random));
  EXPECT_INVALID("NegativeSampler::draw: the shape is [2, 0], expected a last extent above 0",
                 sampler.draw({2, 0}, random));
  for (const std::size_t count : {0, 3})
    EXPECT_INVALID(concat("NegativeSampler::draw_distinct: count is ", count,
                          ", expected 1 to 2, the number of classes with nonzero weight"),
                   sampler.draw_distinct(count, random));
  for (const std::int32_t id : {-1, 3})
    EXPECT_INVALID(
        concat("NegativeSampler::probability: id ", id, " is out of range: there are 3 classes"),
        sampler.probability(id));
  EXPECT_EQ(bits_of(random.state_dict()), before);
}

}  // namespace
