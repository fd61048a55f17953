#include "tests/support/resumable.hpp"
#include "tests/test.hpp"

namespace {

// Normal values below 4 in magnitude may differ from PyTorch's by a few units in the last place.
constexpr double kTolerance = 2e-6;

void expect_near(const Tensor& got, const json& expected, const std::string& what) {
  rowgrad::testing::expect_near(got, tensor_from(expected), kTolerance, what);
}

// Draws single words, many words at once, two at once, and from a restored state.
TEST(MersenneTwister, EqualsTheStandardLibrary) {
  for (const std::uint32_t seed : {0U, 1U, 5489U, 4294967295U}) {
    std::mt19937 expected(seed);
    MersenneTwister engine(seed);
    for (const std::size_t count :
         {1U, 3U, 10U, 624U, 623U, 1U, 625U, 0U, 1248U, 5000U, 7U, 1247U, 1871U, 2U}) {
      std::vector<std::uint32_t> words(count);
      engine.fill_untempered(words);
      for (const std::uint32_t word : words)
        ASSERT_EQ(MersenneTwister::temper(word), expected()) << count;
      for (int i = 0; i < 700; ++i) ASSERT_EQ(engine(), expected()) << "after " << count;
      engine = MersenneTwister(engine.words(), engine.next());
      std::array<std::uint32_t, 2> pair;
      engine.fill_untempered(pair);
      const std::uint64_t low = expected(), high = expected();
      ASSERT_EQ(MersenneTwister::temper_both(std::uint64_t{pair[1]} << 32 | pair[0]),
                high << 32 | low);
    }
  }
}

TEST(Random, EqualsPyTorchWithTheSameSeed) {
  const auto file = golden("torch_random.json");
  ASSERT_EQ(file["cases"].size(), 66U);
  for (const auto& item : file["cases"]) {
    Random random(item["seed"].get<std::uint64_t>());
    const auto count = item["n"].get<std::size_t>();
    const auto draw = item["draw"].get<std::string>();
    const std::string what = concat(draw, " seed ", item["seed"], " n ", count);
    if (draw == "normal") {
      expect_near(random.normal({count}), item["values"], what);
    } else if (draw == "permutation") {
      EXPECT_EQ(random.permutation(static_cast<std::int64_t>(count)),
                item["values"].get<std::vector<std::int64_t>>())
          << what;
    } else {
      ASSERT_EQ(draw, "uniform(-0.5, 0.25)");
      expect_near(random.uniform({count}, -0.5, 0.25), item["values"], what);
    }
  }
}

TEST(Random, EqualsPyTorchCallAfterCall) {
  const auto file = golden("torch_random.json");
  const auto& calls =
      file["normal(5), normal(5), normal(20), uniform(3) one after another under seed 123"];
  Random random(123);
  expect_near(random.normal({5}), calls[0], "first normal(5)");
  expect_near(random.normal({5}), calls[1], "second normal(5)");
  expect_near(random.normal({20}), calls[2], "normal(20)");
  expect_near(random.uniform({3}), calls[3], "uniform(3)");
}

// Every other step leaves the second value of a normal pair. After 78 steps, all 624 words are
// used.
class RunningRandom : public Running {
 public:
  explicit RunningRandom(bool other) : random_(other ? 0 : 7) {}
  std::string step() override {
    const Tensor drawn = random_.normal({3});
    return concat(drawn(0), ' ', drawn(2), ' ', random_.uniform({1})(0), ' ', random_.bits());
  }
  StateDict save() override { return random_.state_dict(); }
  void load(const StateDict& state) override { random_.load_state_dict(state); }

 private:
  Random random_;
};

TEST(Random, IsResumable) {
  const Resumable random{.name = "random numbers",
                         .make = [](bool other) { return std::make_unique<RunningRandom>(other); },
                         .steps = 90,
                         .stops = {0, 1, 2, 77, 78, 79},
                         .taken = {"no second_normal", "-1 in second_normal", "unknown more"},
                         .failing = {1}};
  EXPECT_EQ(random.after(78)->save().count("next"), 624U);
  expect_resumable(random);
  const StateDict state = random.after(1)->save();
  auto words = state.integers("words");
  words[5] = 1LL << 32;
  for (const StateDict& wrong :
       {with(state, "words", words), with(state, "words", std::vector<std::int64_t>(623)),
        with(state, "next", 625), with(state, "second_normal", HUGE_VAL)})
    EXPECT_THROW(Random(1).load_state_dict(wrong), std::invalid_argument);
  words[5] = 0;  // smallest word; the next line has the largest
  words[6] = (1LL << 32) - 1;
  EXPECT_NO_THROW(Random(1).load_state_dict(with(state, "words", words)));
}

// A quarter of all draws from [1000, 1000 + 2 ulp) round to a float outside the interval. Bounds
// that are not floats round down or up.
TEST(Random, DrawsUniformValuesInsideTheInterval) {
  constexpr double kUlp = 0x1p-14;  // unit in the last place of floats from 512 to 1024
  constexpr std::size_t kCount = 10'000;
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{1000, 1000 + kUlp},
                                                                        {1000, 1000 + 2 * kUlp},
                                                                        {-1000, -1000 + kUlp},
                                                                        {1000 + 0.6 * kUlp, 1001},
                                                                        {1000, 1000 + 3.4 * kUlp},
                                                                        {-0.1, 0.1},
                                                                        {-1e38, 2e38}}) {
    Random random(1), same(1);
    const auto start = static_cast<float>(low), end = static_cast<float>(high);
    for (const real x : random.uniform({kCount}, low, high)) {
      ASSERT_TRUE(x >= low && x < high) << x << " in [" << low << ", " << high << ")";
      // The value equals PyTorch's `sum` if `sum` is inside the interval.
      const float unit = static_cast<float>(same.bits() & 0xFFFFFF) * 0x1p-24F;
      const float sum = unit * (end - start) + start;
      ASSERT_TRUE(x == sum || sum < low || sum >= high) << x;
    }
  }
  for (const double bound : {0.0, 0.1, -0.1, 3e38})
    EXPECT_EQ(Random(1).uniform({1}, bound, bound)(0), static_cast<float>(bound));
}

TEST(Random, RejectsInvalidDistributions) {
  Random random(1);
  const double kMax = std::numeric_limits<float>::max();
  for (const auto& [mean, stddev] : std::vector<std::pair<double, double>>{{0, -1},
                                                                           {0, std::nan("")},
                                                                           {std::nan(""), 1},
                                                                           {HUGE_VAL, 1},
                                                                           {0, 1e300},
                                                                           {kMax, 1e37},
                                                                           {0, kMax / 8},
                                                                           {-1e39, 0}})
    EXPECT_THROW(random.normal({2}, mean, stddev), std::invalid_argument) << mean;
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{{1, 0},
                                                                        {std::nan(""), 1},
                                                                        {0, std::nan("")},
                                                                        {0, HUGE_VAL},
                                                                        {-3e38, 3e38},
                                                                        {0, 1e300},
                                                                        {-1e39, -1e38}})
    EXPECT_THROW(random.uniform({2}, low, high), std::invalid_argument) << low;
  EXPECT_INVALID(
      "Random::uniform: low -3e+38 and high 3e+38, expected low <= high, with both bounds and "
      "high - low in the range of float",
      random.uniform({2}, -3e38, 3e38));
  for (const real x : random.normal({1000}, 0, kMax / 8.7)) EXPECT_TRUE(std::isfinite(x));
  EXPECT_EQ(random.bits(), [] {  // rejected calls draw nothing
    Random other(1);
    other.normal({1000});
    return other.bits();
  }());
  EXPECT_INVALID("Random::permutation: count -1, expected at least 0", random.permutation(-1));
}

}  // namespace
