#include "tests/test.hpp"

namespace {

// "Build a Large Language Model From Scratch", chapter 5: at temperature 5, and of the best three.
TEST(Softmax, GivesTheProbabilitiesThatATextbookPrints) {
  Tape tape(Tape::inference);
  const Variable logits =
      tape.constant(tensor({9}, {4.51, .89, -1.90, 6.75, 1.63, -1.62, -1.89, 6.28, 1.79}));
  EXPECT_NEAR(softmax(logits / 5).value()(6), .0430, 0.5e-4);
  const Variable best = tape.constant(tensor({3}, {4.51, 6.75, 6.28}));
  expect_near(softmax(best).value(), tensor({3}, {.0615, .5775, .3610}), 0.5e-4);
}

TEST(Softmax, SharesEqualNumbersOutEvenly) {
  Tape tape;
  EXPECT_EQ(softmax(tape.input(full({4}, 3))).value(), full({4}, 0.25));
  EXPECT_EQ(softmax(tape.input(full({2, 2}, -7)), 0).value(), full({2, 2}, 0.5));
}

TEST(Softmax, DoesNotOverflowOrLoseDigitsWhereNumbersAreHuge) {
  // The same differences, once near 0 and once near 10,000: results must agree, though the spacing
  // of floats is a thousandth there. All inputs are exact in float.
  for (const real offset : {real{10000}, real{-10000}, real{80000}}) {
    const Tensor near = tensor({4}, {0, -0.5, -1.25, -4});
    Tensor far = near;
    for (real& number : far.storage()) number += offset;
    Tape tape;
    const Variable x = tape.input(near);
    const Variable y = tape.input(far);
    EXPECT_EQ(softmax(y).value(), softmax(x).value());
    EXPECT_EQ(log_softmax(y).value(), log_softmax(x).value());
  }
  Tape tape;
  const Variable spread = tape.input(tensor({3}, {10000, -10000, 0}));
  EXPECT_EQ(softmax(spread).value(), tensor({3}, {1, 0, 0}));
  EXPECT_EQ(log_softmax(spread).value(), tensor({3}, {0, -20000, -10000}));
}

TEST(Softmax, SharesHugeNumbersOutEvenly) {
  const auto log_2 = static_cast<real>(std::numbers::ln2);
  for (const double size : {1e10, 1e16, 3e38, -1e16}) {
    const Tensor x = full({1, 2}, static_cast<real>(size));
    Tape tape;
    const Variable in = tape.input(x);
    EXPECT_EQ(log_softmax(in).value(), full({1, 2}, -log_2)) << size;
    const Variable loss = cross_entropy(in, ids({1}, {1}));
    EXPECT_EQ(loss.item(), log_2) << size;
    const Variable head = linear_cross_entropy(tape.input(full({1, 1}, 1)),
                                               tape.input(reshaped(x, {2, 1})), {}, ids({1}, {1}));
    EXPECT_EQ(head.item(), log_2) << size;
    tape.backward(loss + sum(logsumexp(in)));
    EXPECT_EQ(tape.gradient(in).dense(), tensor({1, 2}, {1, 0})) << size;
  }
}

// As PyTorch 1.13 does it; its logsumexp alone has numbers there.
TEST(Softmax, IsNotANumberBesideInfinityNorAmongMinusInfinitiesAlone) {
  const auto is_nan = [](real number) { return std::isnan(number); };
  for (const Tensor& x : {tensor({1, 3}, {1, kInfinity, 2}), full({1, 3}, -kInfinity)}) {
    Tape tape;
    const Variable in = tape.input(x);
    const Variable loss = cross_entropy(in, ids({1}, {0}));
    for (const Tensor& y :
         {softmax(in).value(), log_softmax(in).value(), loss.value(),
          gradient_of([](Inputs logits) { return cross_entropy(logits[0], ids({1}, {0})); }, x)
              .dense()})
      EXPECT_TRUE(std::all_of(y.begin(), y.end(), is_nan));
    EXPECT_EQ(logsumexp(in).value()(0), x(0, 1));
    const Tensor share =
        gradient_of([](Inputs i) { return logsumexp(i[0] * real{100}); }, x).dense();
    EXPECT_EQ(share(0, 0) == 0, x(0, 0) == 1);
  }
}

TEST(Softmax, HasFiniteGradientsWhereNumbersAreHuge) {
  const Tensor x = tensor({3}, {10000, -10000, 0});
  for (const auto op : {softmax, log_softmax}) {
    const Tensor gradient = gradient_of([op](Inputs in) { return op(in[0], -1); }, x).dense();
    for (const real entry : gradient) EXPECT_TRUE(std::isfinite(entry));
  }
}

TEST(Softmax, GivesNothingToMinusInfinity) {
  Tape tape;
  const Variable masked = tape.input(tensor({3}, {2, -kInfinity, 2}));
  EXPECT_EQ(softmax(masked).value(), tensor({3}, {0.5, 0, 0.5}));
  EXPECT_EQ(log_softmax(masked).value()(1), -kInfinity);
}

}  // namespace
