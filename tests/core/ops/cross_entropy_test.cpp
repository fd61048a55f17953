#include "tests/test.hpp"

namespace {

struct LossCase {
  Shape logits;
  std::vector<std::int32_t> targets;
  CrossEntropyOptions options;
};

const std::vector<LossCase> kCases{
    {{5}, {3}, {}},
    {{1, 5}, {0}, {}},
    {{3, 4}, {0, 3, 2}, {}},
    {{3, 4}, {1, 1, 1}, {.reduction = LossReduction::kSum}},
    {{2, 3, 37}, {36, 0, 5, 5, 20, 35}, {}},
    {{2, 2, 2, 3}, {0, 1, 2, 0, 1, 2, 0, 1}, {.reduction = LossReduction::kSum}},
    {{4, 3}, {1, 2, 0, 2}, {.ignore_index = 2}},
    {{4, 3}, {1, -100, 0, -100}, {.ignore_index = -100}},
    {{4, 3}, {1, -100, 0, 2}, {.reduction = LossReduction::kSum, .ignore_index = -100}},
    {{4, 3}, {1, 2, 0, 1}, {.ignore_index = 7}},  // which does not occur
    {{3, 1}, {0, 0, 0}, {}},                      // one class: nothing to learn
    {{4, 3}, {1, -100, 0, 2}, {}},                // PyTorch's default
    {{4, 3}, {1, 2, 0, 1}, {.class_weights = Tensor{0.5, 2, 0}}},
    {{2, 2, 3}, {1, -100, 0, 2}, {.target_weights = Tensor{{3, 1}, {0.25, 0}}}},
    {{3, 3},
     {1, 2, 0},
     {.reduction = LossReduction::kSum,
      .class_weights = Tensor{0.5, 2, 1},
      .target_weights = Tensor{3, 0.25, 1}}},
};

Ids targets_of(const LossCase& item) {
  return ids({item.logits.begin(), item.logits.end() - 1}, item.targets);
}

long double loss_of(const Tensor& logits, const LossCase& item) {
  const std::size_t classes = item.logits.back();
  long double total = 0;
  long double counted = 0;
  for (std::size_t row = 0; row < item.targets.size(); ++row) {
    if (item.targets[row] == item.options.ignore_index) continue;
    const real* x = logits.data() + row * classes;
    const long double self = x[item.targets[row]];
    long double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(x[k] - self);
    const auto& [reduction, ignored, of_class, of_target] = item.options;
    long double weight = of_class ? of_class->data()[item.targets[row]] : 1;
    if (of_target) weight *= of_target->data()[row];
    total += weight * std::log(sum);
    counted += weight;
  }
  return item.options.reduction == LossReduction::kMean ? total / counted : total;
}

TEST(CrossEntropy, GivesTheNumberOfTheDefinition) {
  for (const LossCase& item : kCases) {
    const Tensor logits = irregular(item.logits, 1, -4, 4);
    Tape tape;
    const Variable loss = cross_entropy(tape.input(logits), targets_of(item), item.options);
    EXPECT_EQ(loss.shape(), Shape());
    // A row's Σ exp(x − max) has a relative error of 8/2 + 2 epsilon for its exponentials and half
    // of one for each of its sums; its logarithm has that absolutely. The rest happens in double.
    const double expected = static_cast<double>(loss_of(logits, item));
    const double a_row = (6 + static_cast<double>(item.logits.back()) / 2) * kEpsilon;
    const bool mean = item.options.reduction == LossReduction::kMean;
    const double rows = mean ? 1 : 3 * static_cast<double>(item.targets.size());
    EXPECT_NEAR(loss.item(), expected, rows * a_row + expected * kEpsilon)
        << bracketed(item.logits);
  }
}

TEST(CrossEntropy, HasTheGradientsOfDifferenceQuotients) {
  for (const LossCase& item : kCases) {
    const Tensor logits = irregular(item.logits, 1, -2, 2);
    expect_gradients(
        [&](Inputs in) { return cross_entropy(in[0], targets_of(item), item.options); }, {logits},
        concat(bracketed(item.logits)));
    // A gradient of the loss other than 1 must pass through.
    expect_gradients(
        [&](Inputs in) {
          return cross_entropy(in[0], targets_of(item), item.options) * real{-0.75};
        },
        {logits}, concat(bracketed(item.logits)));
  }
}

TEST(CrossEntropy, GivesIgnoredPositionsNoGradientAtAll) {
  const Tensor gradient = gradient_of(
                              [](Inputs in) {
                                return cross_entropy(in[0], ids({2}, {1, 0}), {.ignore_index = 0});
                              },
                              irregular({2, 3}))
                              .dense();
  for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(gradient(1, k), 0);
}

TEST(CrossEntropy, IsTheLogarithmOfTheClassesWhereAllAreEqual) {
  Tape tape;
  EXPECT_NEAR(cross_entropy(tape.input(full({2, 50257}, 3)), ids({2}, {0, 50256})).item(),
              std::log(50257.0), 2 * std::log(50257.0) * kEpsilon);
  EXPECT_EQ(cross_entropy(tape.input(full({3, 1}, 5)), ids({3}, {0, 0, 0})).item(), 0);
}

TEST(CrossEntropy, DoesNotOverflowOrLoseDigitsWhereLogitsAreHuge) {
  for (const real offset : {real{10000}, real{-10000}}) {
    const Tensor near = tensor({2, 3}, {0, -0.5, -1.25, -4, 0, -0.25});
    Tensor far = near;
    for (real& number : far.storage()) number += offset;
    const Ids targets = ids({2}, {2, 0});
    Tape tape;
    EXPECT_EQ(cross_entropy(tape.input(far), targets).item(),
              cross_entropy(tape.input(near), targets).item());
    const auto gradient = [&](const Tensor& logits) {
      return gradient_of([&](Inputs in) { return cross_entropy(in[0], targets); }, logits).dense();
    };
    EXPECT_EQ(gradient(far), gradient(near));
  }
  Tape tape;
  const Variable certain = tape.input(tensor({1, 3}, {10000, -10000, 0}));
  EXPECT_EQ(cross_entropy(certain, ids({1}, {0})).item(), 0);
  EXPECT_EQ(cross_entropy(certain, ids({1}, {1})).item(), 20000);
}

TEST(CrossEntropy, SumsNoTargetsToZero) {
  const CrossEntropyOptions sum{.reduction = LossReduction::kSum, .ignore_index = 0};
  Tape tape;
  const Variable logits = tape.input(irregular({2, 3}));
  EXPECT_EQ(cross_entropy(logits, ids({2}, {0, 0}), sum).item(), 0);
  const Variable nothing = tape.input(zeros({0, 3}));
  EXPECT_EQ(cross_entropy(nothing, ids({0}, {}), {.reduction = LossReduction::kSum}).item(), 0);
  expect_gradients(
      [&](Inputs in) {
        return cross_entropy(in[0], ids({2}, {0, 0}), sum);
      },
      {irregular({2, 3})});
}

}  // namespace
