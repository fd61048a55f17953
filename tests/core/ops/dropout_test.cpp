#include "tests/test.hpp"

namespace {

Tensor dropped(const Tensor& x, double p, std::uint64_t seed) {
  Random random(seed);
  Tape tape(random);
  return dropout(tape.input(x), p).value();
}

TEST(Dropout, DropsTheShareThatIsAskedForAndScalesTheRest) {
  constexpr std::size_t kCount = 100'000;
  for (const double p : {0.1, 0.25, 0.5, 0.9}) {
    const Tensor y = dropped(full({kCount}, 3), p, 1);
    std::size_t zeros = 0;
    for (const real number : y) {
      if (number == 0) {
        ++zeros;
      } else {
        ASSERT_EQ(number, 3 * static_cast<real>(1 / (1 - p)));
      }
    }
    // Five standard deviations of a binomial count: a correct generator deviates that far for one
    // seed in two million.
    EXPECT_NEAR(static_cast<double>(zeros), p * kCount, 5 * std::sqrt(p * (1 - p) * kCount)) << p;
  }
}

TEST(Dropout, DrawsTheMasksThatPyTorchDrawsWithoutMKL) {
  // torch.manual_seed(123); torch.nn.functional.dropout(torch.ones(6, 6), 0.5)
  const Tensor y = dropped(full({6, 6}, 1), 0.5, 123);
  std::string drawn;
  for (const real number : y) drawn += number == 0 ? '0' : number == 2 ? '2' : '?';
  EXPECT_EQ(drawn, "220220000202222202022002020202022220");
}

TEST(Dropout, TakesTwoWordsANumberInTheOrderOfMemory) {
  for (const std::size_t count : {1U, 31U, 32U, 33U, 311U, 312U, 313U, 1000U, 300'000U}) {
    Random expected(7);
    for (int i = 0; i < 5; ++i) expected.bits();
    Random random = expected;
    Tape tape(random);
    const Tensor y = dropout(tape.input(full({count}, 1)), 0.3).value();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t high = expected.bits();
      const std::uint64_t drawn = (high << 32 | expected.bits()) & ((std::uint64_t{1} << 53) - 1);
      ASSERT_EQ(y.data()[i] != 0, static_cast<double>(drawn) * 0x1p-53 < 1 - 0.3) << i;
    }
    EXPECT_TRUE(bits_of(random.state_dict()) == bits_of(expected.state_dict())) << count;
  }
}

TEST(Dropout, PassesGradientsThroughTheSameMask) {
  const Tensor mask = dropped(full({40, 25}, 1), 0.3, 7);  // 0 or 1 / (1 − p)
  Random random(7);
  Tape tape(random);
  const Variable x = tape.input(irregular({40, 25}, 1));
  tape.backward(sum(dropout(x, 0.3)));
  EXPECT_EQ(tape.gradient(x).dense(), mask);
}

TEST(Dropout, GivesTheVariableItselfAndDrawsNothingWhereNothingIsDropped) {
  Random random(7);
  const std::string state = bits_of(random.state_dict());
  Tape tape(random);
  const Variable x = tape.input(irregular({3}));
  EXPECT_EQ(&dropout(x, 0).value(), &x.value());
  EXPECT_EQ(tape.size(), 1U);
  EXPECT_TRUE(bits_of(random.state_dict()) == state);
}

TEST(Dropout, LeavesZerosWhereEverythingIsDropped) {
  Random random(7);
  Tape tape(random);
  const Variable x = tape.input(irregular({3, 5}));
  const Variable y = dropout(x, 1);
  EXPECT_EQ(y.value(), zeros({3, 5}));
  tape.backward(sum(y));
  EXPECT_EQ(tape.gradient(x).dense(), zeros({3, 5}));
}

TEST(Dropout, TakesATensorOfNoNumbers) {
  EXPECT_EQ(dropped(zeros({2, 0}), 0.5, 1).shape(), Shape({2, 0}));
}

}  // namespace
