#include "tests/test.hpp"

namespace {

TEST(Linear, ReadsABorrowedWeightAndPassesItsGradientOn) {
  Random random(1);
  Parameter weight("token.weight", tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
  Linear head(weight, random);
  EXPECT_EQ(&head.weight, &weight);
  EXPECT_EQ(weight.name(), "token.weight");
  head.bias->assign(tensor({3}, {10, 20, 30}));
  Tape tape;
  const Variable y = head.forward(tape.constant(tensor({1, 2}, {1, -1})));
  EXPECT_EQ(y.value(), tensor({1, 3}, {9, 19, 29}));
  tape.backward(sum(y));
  EXPECT_EQ(weight.gradient().dense(), tensor({3, 2}, {1, -1, 1, -1, 1, -1}));
}

TEST(Linear, DrawsOnlyTheBiasBesideABorrowedWeight) {
  Random random(7);
  Random same(7);
  Parameter weight("weight", zeros({5, 4}));
  Linear head(weight, random);
  EXPECT_EQ(head.bias->value(), same.uniform({5}, -0.5, 0.5));  // 1 / sqrt(4)
  EXPECT_EQ(weight.value(), zeros({5, 4}));
  EXPECT_EQ(Linear(weight, random, {.bias = false}).parameters(), std::vector<Parameter*>{&weight});
  EXPECT_EQ(random.bits(), same.bits());
}

TEST(Linear, StartsFromTheValuesThatAreGiven) {
  Linear layer(Tensor{{1, 2}, {3, 4}, {5, 6}}, Tensor{1, 0, -1});
  Linear without(zeros({3, 2}));
  Tape tape;
  const Variable x = tape.constant(Tensor{{1, 10}});
  EXPECT_EQ(layer.forward(x).value(), (Tensor{{22, 43, 64}}));
  EXPECT_EQ(without.forward(x).value(), zeros({1, 3}));
  EXPECT_EQ(layer.parameter_count(), 9U);
  EXPECT_EQ(without.parameter_count(), 6U);
  EXPECT_INVALID("Linear: the bias has shape [2], expected [3]", Linear(zeros({3, 2}), zeros({2})));
  EXPECT_INVALID("Linear: weight has shape [3], expected [outputs, inputs], both above 0",
                 Linear(zeros({3})));
}

TEST(Linear, RefusesToBorrowWhatIsNoWeight) {
  Random random(1);
  for (const Shape& shape : {Shape{4}, Shape{0, 4}, Shape{4, 0}, Shape{1, 2, 3}}) {
    Parameter weight("token.weight", zeros(shape));
    EXPECT_INVALID(concat("Linear: token.weight has shape ", bracketed(shape),
                          ", expected [outputs, inputs], both above 0"),
                   Linear(weight, random));
  }
}

}  // namespace
