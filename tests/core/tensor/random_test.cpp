#include "tests/test.hpp"

namespace {

// The generator's own float arithmetic against PyTorch's: a few units in the last place of |x| < 4.
constexpr double kTolerance = 2e-6;

void expect_near(const Tensor& got, const json& expected, const std::string& what) {
  rowgrad::testing::expect_near(got, tensor_from(expected), kTolerance, what);
}

TEST(Random, DrawsPyTorchsNumbersUnderTheSameSeed) {
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

TEST(Random, DrawsPyTorchsNumbersCallAfterCall) {
  const auto file = golden("torch_random.json");
  const auto& calls =
      file["normal(5), normal(5), normal(20), uniform(3) one after another under seed 123"];
  Random random(123);
  expect_near(random.normal({5}), calls[0], "first normal(5)");
  expect_near(random.normal({5}), calls[1], "second normal(5)");
  expect_near(random.normal({20}), calls[2], "normal(20)");
  expect_near(random.uniform({3}), calls[3], "uniform(3)");
}

TEST(Random, ContinuesFromASavedStateBitForBit) {
  Random random(7);
  random.normal({3});  // leaves the second of a pair waiting
  Random restored(0);
  restored.load_state_dict(random.state_dict());
  EXPECT_EQ(random.normal({5}), restored.normal({5}));
  EXPECT_EQ(random.uniform({40}), restored.uniform({40}));
  EXPECT_EQ(random.bits(), restored.bits());
}

TEST(Random, ContinuesFromAStateWhoseWordsAreUsedUp) {
  Random random(7);
  for (int i = 0; i < 624; ++i) random.bits();
  ASSERT_EQ(random.state_dict().count("next"), 624U);
  Random restored(0);
  restored.load_state_dict(random.state_dict());
  EXPECT_EQ(random.bits(), restored.bits());
}

TEST(Random, RefusesAForeignStateAndKeepsItsOwn) {
  Random random(7);
  random.normal({3});
  const Checkpoint state = random.state_dict();
  auto words = state.integers("words");
  words[5] = 1LL << 32;
  for (const Checkpoint& foreign :
       {Checkpoint(), without(state, "words"), without(state, "next"), with(state, "words", words),
        with(state, "words", std::vector<std::int64_t>(623)), with(state, "next", 625),
        with(state, "next", -1), with(state, "second_normal", "a text"),
        with(state, "second_normal", std::numeric_limits<double>::infinity())})
    EXPECT_THROW(random.load_state_dict(foreign), std::invalid_argument);
  EXPECT_TRUE(bits_of(random.state_dict()) == bits_of(state));
}

TEST(Random, RefusesImpossibleDistributions) {
  Random random(1);
  EXPECT_THROW(random.normal({2}, 0, -1), std::invalid_argument);
  EXPECT_THROW(random.uniform({2}, 1, 0), std::invalid_argument);
  EXPECT_INVALID("Random::permutation: count -1 is negative", random.permutation(-1));
}

TEST(Random, HasItsStateWholeOrThrows) {
  Random drawn(1);
  drawn.normal({3});
  const Checkpoint state = drawn.state_dict();
  for_every_failure([] { return std::make_unique<Checkpoint>(); },
                    [&](Checkpoint& found) { found = drawn.state_dict(); },
                    [&](const Checkpoint& found, bool finished) {
                      EXPECT_TRUE(bits_of(found) == bits_of(finished ? state : Checkpoint()));
                    });
  for_every_failure([] { return std::make_unique<Random>(2); },
                    [&](Random& random) { random.load_state_dict(state); },
                    [&](const Random& random, bool finished) {
                      EXPECT_TRUE(bits_of(random.state_dict()) ==
                                  bits_of(finished ? state : Random(2).state_dict()));
                    });
}

}  // namespace
