#include "tests/test.hpp"

namespace {

TEST(Dropout, DrawsTwoWordsPerElementInMemoryOrder) {
  for (const std::size_t count : {1U, 31U, 32U, 33U, 311U, 312U, 313U, 1000U, 300'000U}) {
    const double p = count == 1000 ? 0.9 : 0.3;
    const real kept = 3 * static_cast<real>(1 / (1 - p));
    Random expected(7);
    for (int i = 0; i < 5; ++i) expected.bits();
    Random random = expected;
    Tape tape(random);
    const Tensor y = dropout(tape.input(full({count}, 3)), p).value();
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t high = expected.bits();
      const std::uint64_t drawn = (high << 32 | expected.bits()) & ((std::uint64_t{1} << 53) - 1);
      ASSERT_EQ(y.data()[i], static_cast<double>(drawn) * 0x1p-53 < 1 - p ? kept : 0) << i;
    }
    EXPECT_TRUE(bits_of(random.state_dict()) == bits_of(expected.state_dict())) << count;
  }
}

TEST(Dropout, ReturnsItsArgumentAndDrawsNothingIfPIsZero) {
  Random random(7);
  const std::string state = bits_of(random.state_dict());
  Tape tape(random);
  const Variable x = tape.input(irregular({3}));
  EXPECT_EQ(&dropout(x, 0).value(), &x.value());
  EXPECT_EQ(tape.size(), 1U);
  EXPECT_TRUE(bits_of(random.state_dict()) == state);
}

}  // namespace
