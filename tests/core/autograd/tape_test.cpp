#include "tests/test.hpp"

namespace {

// --- Values -------------------------------------------------------------------------------------

TEST(Tape, KeepsValuesInPlaceWhileItGrows) {
  Tape tape;
  const Variable first = tape.constant(tensor({2}, {1, 2}));
  const Tensor* address = &first.value();
  for (int i = 0; i < 1000; ++i) tape.constant(scalar(0));
  EXPECT_EQ(&first.value(), address);
  EXPECT_EQ(first.value(), tensor({2}, {1, 2}));
  EXPECT_EQ(tape.size(), 1001U);
}

TEST(Tape, DoesNotCopyParameters) {
  Parameter weight("weight", tensor({2}, {1, 2}));
  Tape tape;
  EXPECT_EQ(&tape.parameter(weight).value(), &weight.value());
}

TEST(Tape, SettlesWhatNeedsAGradientWhenItIsRecorded) {
  Parameter trained("trained", scalar(1));
  Parameter frozen("frozen", scalar(1));
  frozen.set_trainable(false);
  Tape tape;
  const Variable constant = tape.constant(scalar(1));
  const Variable input = tape.input(scalar(1));
  EXPECT_FALSE(constant.needs_gradient());
  EXPECT_FALSE(tape.parameter(frozen).needs_gradient());
  EXPECT_TRUE(input.needs_gradient());
  EXPECT_TRUE(tape.parameter(trained).needs_gradient());
  EXPECT_FALSE((constant * constant).needs_gradient());
  EXPECT_TRUE((constant * input).needs_gradient());
}

TEST(Tape, KeepsNothingForBackwardInInference) {
  Parameter weight("weight", scalar(3));
  Tape tape(Tape::inference);
  EXPECT_TRUE(tape.is_inference());
  const Variable x = tape.input(scalar(2));
  const Variable y = x * tape.parameter(weight);
  EXPECT_EQ(y.item(), 6);
  EXPECT_FALSE(x.needs_gradient());
  EXPECT_FALSE(y.needs_gradient());
  EXPECT_ERROR(std::logic_error, "Tape::backward: an inference tape keeps nothing to go back on",
               tape.backward(y));
}

TEST(Variable, GivesTheNumberOfAValueThatHasOne) {
  Tape tape;
  EXPECT_EQ(tape.constant(scalar(4)).item(), 4);
  EXPECT_EQ(tape.constant(tensor({1, 1}, {5})).item(), 5);
  EXPECT_INVALID("Variable::item: shape [2, 3] has 6 numbers, expected one",
                 tape.constant(zeros({2, 3})).item());
  EXPECT_THROW(tape.constant(zeros({0})).item(), std::invalid_argument);
}

// --- Gradients ----------------------------------------------------------------------------------

TEST(Backward, GivesDenseGradientsOfInputsAndParameters) {
  Parameter weight("weight", tensor({2}, {3, 4}));
  Tape tape;
  const Variable x = tape.input(tensor({2}, {5, 6}));
  tape.backward(sum(x * tape.parameter(weight)));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({2}, {3, 4}));
  EXPECT_EQ(weight.gradient().dense(), tensor({2}, {5, 6}));
}

TEST(Backward, StartsFromALossOfOneNumberOfAnyRank) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}})
    for (const bool is_input : {true, false}) {
      Tape tape;
      const Variable x = tape.input(full(shape, 3));
      tape.backward(is_input ? x : x * x);
      EXPECT_EQ(tape.gradient(x).dense(), full(shape, is_input ? 1 : 6));
    }
}

TEST(Backward, OfAParameterAloneGivesItsGradient) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  tape.backward(tape.parameter(weight));
  EXPECT_EQ(weight.gradient().dense(), scalar(1));
}

TEST(Backward, StartsFromAGradientOfAnyShape) {
  const Tensor upstream = tensor({2, 2}, {1, -2, 3, 0.5});
  Parameter table("table", tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
  Tape tape;
  const Variable x = tape.input(tensor({2}, {3, 5}));
  const Variable rows = embedding(tape.parameter(table), ids({2}, {2, 0}));
  tape.backward(rows * x, upstream);
  EXPECT_EQ(table.gradient().rows().values(), tensor({2, 2}, {9, 2.5, 3, -10}));
  EXPECT_EQ(tape.gradient(x).dense(), tensor({2}, {1 * 5 + 3 * 1, -2 * 6 + 0.5 * 2}));

  Tape other;
  const Variable y = other.input(tensor({2}, {1, 2}));
  EXPECT_INVALID("Tape::backward: the gradient has shape [2, 2], expected [2]",
                 other.backward(y, upstream));
  other.backward(y, tensor({2}, {7, 8}));
  EXPECT_EQ(other.gradient(y).dense(), tensor({2}, {7, 8}));
}

TEST(Backward, LeavesTheGradientItStartsFromAsItIs) {
  const Tensor upstream = tensor({2, 2}, {1, 2, 3, 4});
  const Tensor kept = upstream;
  Tape tape;
  const Variable x = tape.input(tensor({2, 2}, {5, 6, 7, 8}));
  tape.backward(exp(x), upstream);  // its rule reuses the memory of the gradient
  EXPECT_EQ(upstream, kept);
}

TEST(Backward, AddsUpOverAllUsesOfAVariableAndOfAParameterOnAllTapes) {
  Parameter weight("weight", scalar(3));
  for (int pass = 1; pass <= 2; ++pass) {
    Tape tape;
    const Variable x = tape.input(scalar(3)), square = x * x;
    const Variable here = tape.parameter(weight), there = tape.parameter(weight);
    tape.backward(square * square + x + x + here * there * real{5});  // x⁴ + 2x + 5w²
    EXPECT_EQ(tape.gradient(x).dense(), scalar(4 * 27 + 2));
    EXPECT_EQ(weight.gradient().dense(), scalar(static_cast<real>(30 * pass)));
  }
}

TEST(Backward, KeepsSeveralTapesApart) {
  Parameter weight("weight", scalar(3));
  Tape first;
  Tape second;
  const Variable x = first.input(scalar(5));
  const Variable y = second.input(scalar(7));
  const Variable of_first = x * first.parameter(weight);
  const Variable of_second = y * second.parameter(weight);
  second.backward(of_second);
  EXPECT_EQ(weight.gradient().dense(), scalar(7));
  first.backward(of_first);
  EXPECT_EQ(weight.gradient().dense(), scalar(12));
  EXPECT_EQ(first.gradient(x).dense(), scalar(3));
  EXPECT_EQ(second.gradient(y).dense(), scalar(3));
}

TEST(Backward, IgnoresWhatWasRecordedAfterTheLoss) {
  Parameter used("used", scalar(2));
  Parameter later("later", scalar(2));
  Tape tape;
  const Variable loss = tape.parameter(used) * real{3};
  const Variable after = loss * tape.parameter(later);
  later.mutable_values()[0] = 9;  // does not affect the loss
  tape.backward(loss);
  EXPECT_EQ(used.gradient().dense(), scalar(3));
  EXPECT_TRUE(later.gradient().is_none());
  EXPECT_EQ(after.item(), 12);
}

TEST(Backward, LeavesNoGradientWhereTheLossDoesNotDepend) {
  Parameter unused("unused", scalar(2));
  Tape tape;
  const Variable x = tape.input(scalar(1));
  const Variable elsewhere = tape.input(scalar(1));
  tape.parameter(unused);
  const Variable dead_end = exp(elsewhere);
  EXPECT_TRUE(dead_end.needs_gradient());
  tape.backward(x * real{2});
  EXPECT_TRUE(tape.gradient(elsewhere).is_none());
  EXPECT_TRUE(unused.gradient().is_none());
}

TEST(Backward, SkipsFrozenParametersAndCostsNothingForThem) {
  Parameter frozen("frozen", tensor({2}, {3, 4}));
  frozen.set_trainable(false);
  Parameter trained("trained", tensor({2}, {5, 6}));
  Tape tape;
  const Variable fixed = tape.parameter(frozen);
  bool asked = true;
  bool ran = false;
  const Variable through_frozen =
      record("through_frozen", {fixed}, fixed.value(), [&](Backward&) { ran = true; });
  const Variable weight = tape.parameter(trained);
  const Variable y =
      record("first_alone", {weight, through_frozen}, weight.value(), [&](Backward& node) {
        asked = node.needs(1);
        node.give(0, node.gradient());
      });
  tape.backward(sum(y));
  EXPECT_FALSE(ran);
  EXPECT_FALSE(asked);
  EXPECT_TRUE(frozen.gradient().is_none());
  EXPECT_EQ(trained.gradient().dense(), full({2}, 1));
}

TEST(Backward, DropsWhatARuleGivesForAnInputThatNeedsNothing) {
  Tape tape;
  const Variable x = tape.input(scalar(2));
  const Variable fixed = tape.constant(scalar(3));
  tape.backward(record("generous", {x, fixed}, scalar(6), [](Backward& node) {
    node.give(0, scalar(3));
    node.give(1, scalar(2));
    node.give(1, zeros({7}));  // ignored
  }));
  EXPECT_EQ(tape.gradient(x).dense(), scalar(3));
}

TEST(Backward, TakesNoneForAGradientOfZeros) {
  Parameter weight("weight", scalar(3));
  Tape tape;
  const Variable w = tape.parameter(weight);
  bool reached = false;
  const Variable before = record("before", {w}, scalar(3), [&](Backward& node) {
    reached = true;
    node.give(0, node.gradient());
  });
  tape.backward(record("step", {before}, scalar(1), [](Backward& node) { node.give(0, {}); }));
  EXPECT_FALSE(reached);
  EXPECT_TRUE(weight.gradient().is_none());
}

TEST(Backward, ShowsARuleItsInputsAndOutput) {
  Tape tape;
  const Variable a = tape.input(tensor({2}, {2, 3}));
  const Variable b = tape.constant(tensor({2}, {5, 7}));
  Tensor seen_a, seen_b, seen_y, seen_gradient, left_behind;
  const Variable y = record("spy", {a, b}, tensor({2}, {10, 21}), [&](Backward& node) {
    seen_a = node.input(0);
    seen_b = node.input(1);
    seen_y = node.output();
    EXPECT_TRUE(node.needs(0));
    EXPECT_FALSE(node.needs(1));
    EXPECT_THROW(node.input(2), std::logic_error);
    EXPECT_THROW(node.needs(2), std::logic_error);
    seen_gradient = node.take_gradient();
    node.give(0, seen_gradient);
  });
  tape.backward(sum(y * real{4}));
  EXPECT_EQ(seen_a, a.value());
  EXPECT_EQ(seen_b, b.value());
  EXPECT_EQ(seen_y, y.value());
  EXPECT_EQ(seen_gradient, full({2}, 4));
}

TEST(Backward, LetsARuleAddToWhatOtherOpsHaveGiven) {
  Tape tape;
  const Variable a = tape.input(tensor({2}, {2, 3}));
  std::vector<bool> given;
  const auto tripled = [&] {
    return record("triple", {a}, tensor({2}, {6, 9}), [&](Backward& node) {
      Tensor* const sum = node.gradient_so_far(0);
      given.push_back(sum != nullptr);
      EXPECT_THROW(node.gradient_so_far(1), std::logic_error);
      if (sum == nullptr) return node.give(0, Tensor(real{3} * node.gradient()));
      *sum += real{3} * node.gradient();
      node.give(0, {});
    });
  };
  tape.backward(sum(tripled() + tripled() + a));
  EXPECT_EQ(given, (std::vector{true, true}));
  EXPECT_EQ(tape.gradient(a).dense(), full({2}, 7));
}

TEST(Backward, ComputesAGradientInPlaceWhereItIsNeeded) {
  Parameter table("table", tensor({2, 1}, {2, 3}));
  Tape tape;
  const Variable a = tape.input(tensor({2}, {2, 3}));
  const Variable rows = tape.parameter(table);
  const Variable constant = tape.constant(tensor({2}, {1, 1}));
  std::vector<bool> added;
  const auto tripled = [&] {
    return record("triple", {a, rows, constant}, tensor({2}, {6, 9}), [&](Backward& node) {
      const auto write = [&](real* to, bool add) {
        added.push_back(add);
        for (std::size_t k = 0; k < 2; ++k)
          to[k] = (add ? to[k] : 0) + 3 * node.gradient().data()[k];
      };
      for (const std::size_t i : {0, 1, 2}) node.into(i, write);
      EXPECT_THROW(node.into(3, write), std::logic_error);
    });
  };
  // The table has a row gradient first, to which the dense one is added, but not in place.
  const Variable first = tripled();
  tape.backward(sum(first + tripled()) + sum(embedding(rows, ids({1}, {1}))));
  EXPECT_EQ(added, (std::vector{false, false, true, true}));
  EXPECT_EQ(tape.gradient(a).dense(), full({2}, 6));
  EXPECT_EQ(table.gradient().dense(), tensor({2, 1}, {6, 7}));
}

TEST(Backward, TurnsRowsIntoADenseGradientWhereATableIsNotALeaf) {
  Parameter table("table", tensor({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  Tape tape;
  const Variable looked_up = embedding(tape.parameter(table) * real{2}, ids({3}, {1, 3, 1}));
  EXPECT_EQ(looked_up.value(), tensor({3, 2}, {6, 8, 14, 16, 6, 8}));
  tape.backward(sum(looked_up));
  EXPECT_EQ(table.gradient().dense(), tensor({4, 2}, {0, 0, 4, 4, 0, 0, 2, 2}));
}

TEST(Backward, KeepsRowsWhereATableIsLookedUpTwice) {
  Parameter table("table", zeros({6, 1}));
  Tape tape;
  const Variable weights = tape.parameter(table);
  tape.backward(sum(embedding(weights, ids({2}, {5, 0}))) +
                sum(embedding(tape.parameter(table), ids({2}, {3, 5}))));
  EXPECT_EQ(table.gradient().rows().indices(), (std::vector<std::int32_t>{0, 3, 5}));
  EXPECT_EQ(table.gradient().rows().values(), tensor({3, 1}, {1, 1, 2}));
}

TEST(Backward, MixesRowsAndDenseGradientsOfOneTable) {
  // A table used both for looking up and as the weight of the head, as GPT-2 does.
  Parameter table("table", tensor({3, 2}, {1, 2, 3, 4, 5, 6}));
  Tape tape;
  const Variable hidden = embedding(tape.parameter(table), ids({1}, {1}));
  tape.backward(sum(linear(hidden, tape.parameter(table))));
  // d/dW of Σ_k W[1]·W[k]: W[1] in every row, and the column sums, 9 and 12, in row 1.
  EXPECT_EQ(table.gradient().dense(), tensor({3, 2}, {3, 4, 12, 16, 3, 4}));
}

TEST(Backward, WalksTenThousandOpsWithoutRecursion) {
  constexpr int kOps = 10000;
  Parameter weight("weight", scalar(1));
  {
    Tape tape;
    Variable x = tape.parameter(weight);
    for (int i = 0; i < kOps; ++i) x = x + real{1};
    EXPECT_EQ(x.item(), 1 + kOps);
    tape.backward(x);
  }  // destroying the tape must not recurse either
  EXPECT_EQ(weight.gradient().dense(), scalar(1));
}

TEST(Backward, RunsOnATapeAThread) {
  // Each thread trains the same model; neither may see the other's tape or disturb its products.
  auto train = [](Tensor& gradient) {
    Parameter weight("weight", irregular({8, 8}));
    for (int step = 0; step < 200; ++step) {
      Tape tape;
      const Variable w = tape.parameter(weight);
      const Variable x = tape.constant(irregular({4, 8}, step));
      tape.backward(mean(tanh(matmul(x, w))));
    }
    gradient = weight.gradient().dense();
  };
  Tensor alone;
  train(alone);
  Tensor first, second;
  std::thread one([&] { train(first); });
  std::thread two([&] { train(second); });
  one.join();
  two.join();
  EXPECT_EQ(first, alone);
  EXPECT_EQ(second, alone);
}

TEST(Tape, ReleasesValuesInBackwardIfAsked) {
  Parameter weight("weight", tensor({2}, {3, 4}));
  Tape tape;
  const Variable x = tape.parameter(weight);
  const Variable square = x * x;
  const Variable constant = tape.constant(tensor({2}, {1, 2}));
  const Variable loss = sum(square * constant);
  tape.backward(loss, {.keep_values = false});
  EXPECT_EQ(weight.gradient().dense(), tensor({2}, {6, 16}));
  EXPECT_EQ(loss.item(), 41);
  EXPECT_EQ(constant.value()(1), 2);
  EXPECT_EQ(square.shape(), Shape({2}));
  EXPECT_ERROR(std::logic_error, "multiply: backward has released this value", square.value());
  EXPECT_HAS(tape.to_dot(), "[2]");
}

TEST(Tape, EndsWithoutMemory) {
  std::vector<std::unique_ptr<Tape>> tapes;
  for (int i = 0; i < 100; ++i) tapes.push_back(std::make_unique<Tape>());
  const FailingAllocations failing(1);
  tapes.clear();
  EXPECT_FALSE(failing.any_failed());
}

}  // namespace
