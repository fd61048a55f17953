#include "tests/test.hpp"
#include <rowgrad/core/kernels/linear_cross_entropy.hpp>

namespace {

struct HeadCase {
  Shape x;  // [..., width]
  std::size_t classes;
  CrossEntropyOptions options = {};
};

// Sizes around the kernel's boundaries of vectors, panels, tiles, and blocks of classes or rows.
const std::vector<HeadCase> kHeadCases{
    {{3}, 2},
    {{1, 1}, 1},
    {{2, 3, 5}, 7, {.reduction = LossReduction::kSum}},
    {{4, 4}, 5, {.ignore_index = 3}},
    {{5, 7}, 11, {.reduction = LossReduction::kSum, .ignore_index = 0}},
    {{17, 16}, 95},
    {{16, 17}, 96},
    {{15, 31}, 97, {.ignore_index = -1}},
    {{33, 40}, 193},
    {{7, 5}, 4, {.ignore_index = 2, .class_weights = Tensor{2, 0.5, 1, 0}}},
    {{40, 9},
     3,
     {.reduction = LossReduction::kSum,
      .class_weights = Tensor{2, 0, 0.25},
      .target_weights = irregular({40}, 9, 0, 2)}},
    {{64, 9}, 500, {.reduction = LossReduction::kSum}},
    {{256, 3}, 200},
    {{257, 12}, 130},
    {{3, 200, 8}, 100, {.ignore_index = 50}},
    {{300, 40}, 7000},  // more blocks of classes than chunks
    {{240, 3}, 70000},  // more logits than the kernel holds at once
    {{2, 0}, 5},
    {{0, 3}, 4, {.reduction = LossReduction::kSum}},
    {{0, 3}, 0, {.reduction = LossReduction::kSum}},
    {{5, 7}, 11, {.ignore_index = 0, .label_smoothing = 0.3}},
};

Ids targets_of(const HeadCase& item) {
  Ids targets = Ids::from_shape({item.x.begin(), item.x.end() - 1});
  for (std::size_t i = 0; i < targets.size(); ++i)
    targets.data()[i] = static_cast<std::int32_t>((i * 7 + item.classes - 1) % item.classes);
  return targets;
}

std::vector<Tensor> inputs_of(const HeadCase& item, bool bias) {
  const std::size_t width = item.x.back();
  std::vector<Tensor> inputs{irregular(item.x, 1), irregular({item.classes, width}, 2)};
  if (bias) inputs.push_back(irregular({item.classes}, 3));
  return inputs;
}

Variable fused_head(Inputs in, const HeadCase& item) {
  const auto bias = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
  return linear_cross_entropy(in[0], in[1], bias, targets_of(item), item.options);
}

Variable plain_head(Inputs in, const HeadCase& item) {
  const auto bias = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
  return cross_entropy(linear(in[0], in[1], bias), targets_of(item), item.options);
}

// Under AddressSanitizer, the largest cases take a minute.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr std::size_t kMaxClasses = 1000;
#else
constexpr std::size_t kMaxClasses = 100'000;
#endif

TEST(LinearCrossEntropy, MatchesLinearAndCrossEntropy) {
  for (const HeadCase& item : kHeadCases)
    for (const bool bias : {false, true}) {
      if (item.classes > kMaxClasses) continue;
      const std::string what = concat(bracketed(item.x), " ", item.classes, " bias ", bias);
      const std::vector<Tensor> inputs = inputs_of(item, bias);
      const auto loss_of = [&](const auto& op) {
        Tape tape(Tape::kInference);
        const std::vector<Variable> variables = inputs_on(tape, inputs);
        return op(variables, item).item();
      };
      // All inputs are in (−1, 1), so a logit is a sum of width + 1 products below 1. Each addition
      // rounds by at most (width + 1) epsilon / 2. Results of two orders of addition differ by at
      // most twice the error of a logit. The relative error of an exponential is 6 epsilon, and the
      // sum of exponentials adds epsilon / 2 per class.
      const auto width = static_cast<double>(item.x.back());
      const auto classes = static_cast<double>(item.classes);
      const auto rows = static_cast<double>(targets_of(item).size());
      const double of_logit = (width + 1) * (width + 1) * kEpsilon;
      const double a_row = 2 * of_logit + 2 * (6 + classes / 2) * kEpsilon;
      const double losses = item.options.reduction == LossReduction::kSum ? 4 * rows : 1;
      const double expected = loss_of(plain_head);
      EXPECT_NEAR(loss_of(fused_head), expected, losses * a_row + expected * kEpsilon) << what;

      // The gradient of a logit is at most the weight of its loss. The gradients of weight and bias
      // are sums over all rows, and the gradient of x is a sum over all classes. These sums are at
      // most 2 · losses.
      const auto of_plain = gradients_of([&](Inputs in) { return plain_head(in, item); }, inputs);
      const auto of_fused = gradients_of([&](Inputs in) { return fused_head(in, item); }, inputs);
      const double of_gradient = losses * 2 * (a_row + (rows + classes) * kEpsilon);
      for (std::size_t i = 0; i < inputs.size(); ++i)
        expect_near(of_fused[i].dense(), of_plain[i].dense(), of_gradient, what);
    }
}

TEST(LinearCrossEntropy, SumsTheGradientOfTheBiasOverManyRows) {
  constexpr std::size_t kRows = 300'001;
  const Ids targets = to_ids(Ids32(kRows, 0));
  Tape tape;
  const Variable bias = tape.input(zeros({3}));
  tape.backward(linear_cross_entropy(tape.constant(zeros({kRows, 1})), tape.constant(zeros({3, 1})),
                                     bias, targets));
  expect_near(tape.gradient(bias).dense(), tensor({3}, {real{-2} / 3, real{1} / 3, real{1} / 3}),
              1e-6);
}

TEST(LinearCrossEntropy, DoesNotOverflowAndAcceptsExcludedClasses) {
  const real never = -std::numeric_limits<real>::infinity();
  const HeadCase item{{3, 2}, 300};
  for (const real offset : {real{0}, real{10000}, real{-10000}}) {
    std::vector<Tensor> inputs = inputs_of(item, true);
    for (std::size_t i = 0; i < item.classes; ++i) {
      real& bias = inputs[2].data()[i];
      const bool is_target = i == 299 || i == 6 || i == 13;
      bias = i < 192 && !is_target ? never : bias + offset;  // excludes a whole block of classes
    }
    const auto gradients = gradients_of([&](Inputs in) { return fused_head(in, item); }, inputs);
    const auto expected = gradients_of([&](Inputs in) { return plain_head(in, item); }, inputs);
    const double bound = std::abs(offset) * kEpsilon + 400 * kEpsilon;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      expect_near(gradients[i].dense(), expected[i].dense(), bound, concat("offset ", offset));
      for (const real value : gradients[i].dense()) ASSERT_TRUE(std::isfinite(value));
    }
  }
}

TEST(LinearCrossEntropy, GivesIgnoredRowsZeroGradient) {
  const HeadCase item{{2, 3}, 4, {.ignore_index = 2}};  // the targets are 3 and 2
  for (const real held : {std::numeric_limits<real>::max(), kInfinity, -kInfinity, kNaN}) {
    std::vector<Tensor> inputs = inputs_of(item, false);
    for (std::size_t k = 0; k < 3; ++k) inputs[0](1, k) = held;
    const auto gradients = gradients_of([&](Inputs in) { return fused_head(in, item); }, inputs);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(gradients[0].dense()(1, k), 0) << held;
    for (const real value : gradients[1].dense()) EXPECT_TRUE(std::isfinite(value)) << held;
  }
}

TEST(LinearCrossEntropy, LimitsTheLogitsInMemory) {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
  GTEST_SKIP() << "the pool keeps nothing under AddressSanitizer";
#endif
  const HeadCase item{{256, 2}, 300'000};  // 307 MB of logits in float
  const std::vector<Tensor> inputs = inputs_of(item, false);
  BufferPool::release_idle();
  Tape tape(Tape::kInference);
  fused_head(std::vector{tape.constant(inputs[0]), tape.constant(inputs[1])}, item);
  EXPECT_LT(BufferPool::statistics().bytes_idle, kernels::kLogitBytes * 3 / 2);
}

}  // namespace
