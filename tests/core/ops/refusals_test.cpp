// Tests that ops reject invalid arguments before anything changes, with a message that names the
// argument.

#include "tests/test.hpp"

namespace {

// Checks after each test that rejected calls recorded no op and drew no random numbers.
class RefusedByOps : public ::testing::Test {
 protected:
  Variable of(const Shape& shape) {
    ++recorded;
    return tape.input(zeros(shape));
  }
  void TearDown() override {
    EXPECT_EQ(tape.size(), recorded);
    EXPECT_TRUE(bits_of(random_.state_dict()) == state_);
  }

 private:
  Random random_{1};
  std::string state_ = bits_of(random_.state_dict());

 protected:
  std::size_t recorded = 0;
  Tape tape{random_};
  const Variable x = of({2, 3}), nothing = of({2, 0}), heads = of({2, 5, 6}), number = of({});
};

constexpr std::size_t kMax = std::numeric_limits<std::size_t>::max();

TEST_F(RefusedByOps, Functions) {
  const std::map<std::string, Variable (*)(const Variable&, const Variable&)> arithmetic{
      {"add", rowgrad::operator+ },
       {"subtract", rowgrad::operator- },
        {"multiply", rowgrad::operator* }, {"divide", rowgrad::operator/ } };
  for (const auto& each : arithmetic)
    EXPECT_INVALID(
        each.first + ": shapes [2, 3] and [2] cannot be broadcast together: 3 against 2 on axis -1",
        each.second(x, of({2})));
  using Comparison = Variable (*)(const Variable&, const Variable&);
  for (const Comparison compare : std::vector<Comparison>{eq, ne, lt, le, gt, ge})
    EXPECT_ERROR_WITH(std::invalid_argument, ": shapes [2, 3] and [2] cannot be broadcast together",
                      compare(x, of({2})));
  EXPECT_INVALID("clamp: low is 2 and high 1, expected low <= high", clamp(x, 2, 1));
  for (const double p : {-0.1, 1.5, double{kNaN}})
    EXPECT_INVALID(concat("dropout: p is ", p, ", expected 0 to 1"), dropout(x, p));
}

TEST_F(RefusedByOps, ReductionsAndSelections) {
  EXPECT_INVALID("sum: axis 2 is out of range for rank 2", sum(x, {2}));
  EXPECT_INVALID("sum: axis 1 is out of range for rank 0", sum(number, {1}));
  EXPECT_INVALID("sum: duplicate axis -1", sum(number, {0, -1}));
  EXPECT_INVALID("sum: duplicate axis -1", sum(x, {1, -1}));
  EXPECT_INVALID("mean: axis -3 is out of range for rank 2", mean(x, {-3}));
  EXPECT_INVALID("mean: x has no elements, expected at least one", mean(nothing));
  EXPECT_INVALID("mean: x has no elements, expected at least one", mean(nothing, {1}));
  EXPECT_INVALID("softmax: axis 2 is out of range for rank 2", softmax(x, 2));
  EXPECT_INVALID("log_softmax: axis -2 is out of range for rank 0", log_softmax(number, -2));
  EXPECT_INVALID("max: axis 1 of [2, 0] is empty, expected at least one element", max(nothing, 1));
  EXPECT_INVALID("argmax: axis 2 is out of range for rank 2", argmax(x, 2));
  EXPECT_INVALID(
      "where: shapes [4] and [2, 3] cannot be broadcast together: 4 against 3 on axis -1",
      where(of({4}), x, x));
  EXPECT_INVALID(
      "masked_fill: mask has shape [2, 1, 2, 3], expected a shape that broadcasts to [2, 3]",
      masked_fill(x, of({2, 1, 2, 3}), 0));
  EXPECT_INVALID("logsumexp: axis 2 is out of range for rank 2", logsumexp(x, 2));
  EXPECT_INVALID("cumsum: axis -3 is out of range for rank 2", cumsum(x, -3));
  EXPECT_INVALID("min: axis 1 of [2, 0] is empty, expected at least one element", min(nothing, 1));
  EXPECT_INVALID("argmin: axis 2 is out of range for rank 2", argmin(x, 2));
  EXPECT_INVALID("norm: axis 2 is out of range for rank 2", norm(x, {2}));
  EXPECT_INVALID("stddev: axis -3 is out of range for rank 2", stddev(x, {-3}));
  EXPECT_INVALID("var: correction is 2, expected less than 2, the number of elements",
                 var(x, {0}, {.correction = 2}));
  EXPECT_INVALID("stddev: correction is 0, expected less than 0, the number of elements",
                 stddev(nothing, {1}, {.correction = 0}));
  const std::string axes =
      " for x of shape [2, 3], expected the rank of x, and no axis longer than in x except axis 1";
  EXPECT_INVALID("gather: ids have shape [2]" + axes, gather(x, 1, ids({2}, {0, 1})));
  EXPECT_INVALID("gather: ids have shape [3, 1]" + axes, gather(x, 1, ids({3, 1}, {0, 1, 0})));
  EXPECT_INVALID("gather: id 3 at [1, 0] is out of range for axis -1 of [2, 3]",
                 gather(x, -1, ids({2, 1}, {0, 3})));
  EXPECT_INVALID("gather: id -1 at [0, 1] is out of range for axis 0 of [2, 3]",
                 gather(x, 0, ids({1, 2}, {0, -1})));
}

TEST_F(RefusedByOps, Selections) {
  EXPECT_INVALID("index_select: id -4 at [1] is out of range for axis 1 of [2, 3]",
                 index_select(x, 1, Ids{-3, -4}));
  EXPECT_INVALID("nonzero: mask has shape [2, 3], expected one axis of at most 2^31 - 1 elements",
                 nonzero(x));
  EXPECT_INVALID("index_select: x is a scalar, expected at least one axis",
                 index_select(number, 0, Ids{0, 0}));
  EXPECT_INVALID("index_add: source has shape [2, 3], expected [2, 1]", index_add(x, 1, Ids{0}, x));
  EXPECT_INVALID("scatter: source has shape [2, 3], expected [1, 2]",
                 scatter(x, 0, ids({1, 2}, {0, 1}), x));
  EXPECT_INVALID("scatter_add: id 2 at [0, 1] is out of range for axis 0 of [2, 3]",
                 scatter_add(x, 0, ids({1, 2}, {0, 2}), of({1, 2})));
  EXPECT_INVALID(
      "masked_select: mask has shape [2, 1, 1], expected a shape that broadcasts to [2, 3]",
      masked_select(x, of({2, 1, 1})));
  EXPECT_INVALID("topk: count is 4, expected at most 3, the length of axis -1 of [2, 3]",
                 topk(x, 4));
  EXPECT_INVALID("sort: axis 2 is out of range for rank 2", sort(x, 2));
  EXPECT_INVALID("one_hot: id 3 at [1] is out of range for 3 classes", one_hot(Ids{0, 3}, 3));
  EXPECT_INVALID("amax: axes [1] of [2, 0] are empty, expected at least one element",
                 amax(nothing, {1}));
  EXPECT_INVALID("amin: duplicate axis 0", amin(x, {0, 0}));
  EXPECT_INVALID("cumprod: axis -3 is out of range for rank 2", cumprod(x, -3));
  EXPECT_INVALID("vector_norm: order is 0, expected more than 0", vector_norm(x, 0));
  EXPECT_INVALID("vector_norm: axis 2 is out of range for rank 2", vector_norm(x, 1, {2}));
  EXPECT_INVALID("vector_norm: axes [1] of [2, 0] are empty, expected at least one element",
                 vector_norm(nothing, kInfinity, {1}));
  ++recorded;  // |x|
  Tape there;
  const Variable mask = there.constant(zeros({2, 3}));
  EXPECT_ERROR(std::logic_error, "lt: b belongs to another tape", lt(x, mask));
  EXPECT_ERROR(std::logic_error, "masked_select: mask belongs to another tape",
               masked_select(x, mask));
  EXPECT_ERROR(std::logic_error, "masked_fill: mask belongs to another tape",
               masked_fill(x, mask, 1));
  EXPECT_ERROR(std::logic_error, "where: condition belongs to another tape", where(mask, x, x));
}

TEST_F(RefusedByOps, Shapes) {
  EXPECT_INVALID("reshape: x has shape [2, 3] with 6 elements, expected 4 for shape [4]",
                 reshape(x, {4}));
  EXPECT_INVALID("reshape: x has shape [2, 3] with 6 elements, expected 0 for shape [6, 0]",
                 reshape(x, {6, 0}));
  // 2^64 + 8 elements, which wrap to 8.
  EXPECT_INVALID(
      "reshape: shape [4611686018427387906, 4] has more elements than memory could ever hold",
      reshape(of({8}), {(std::size_t{1} << 62) + 2, 4}));
  EXPECT_INVALID("permute: axes are [0], expected a permutation of the 2 axes of [2, 3]",
                 permute(x, {0}));
  EXPECT_INVALID("permute: duplicate axis -1", permute(x, {1, -1}));
  EXPECT_INVALID("permute: axis 2 is out of range for rank 2", permute(x, {0, 2}));
  EXPECT_INVALID("transpose: axis -2 is out of range for rank 1", transpose(of({3})));
  EXPECT_INVALID("concatenate: no variables were given, expected at least one", concatenate({}, 0));
  EXPECT_INVALID(
      "concatenate: shapes [2, 3] and [3, 2] differ, expected equal shapes except for axis 0",
      concatenate({x, of({3, 2})}, 0));
  EXPECT_INVALID("concatenate: shapes [2, 3] and [2] differ in rank, expected equal ranks",
                 concatenate({x, of({2})}, 0));
  EXPECT_INVALID("concatenate: axis 2 is out of range for rank 2", concatenate({x, x}, 2));
  EXPECT_INVALID("concatenate: x is a scalar, expected at least one axis",
                 concatenate({number, number}, 0));
  EXPECT_INVALID("slice: range is 2 to 4, expected a range within an axis of length 3",
                 slice(x, 1, 2, 4));
  EXPECT_INVALID("slice: range is -4 to 3, expected a range within an axis of length 3",
                 slice(x, 1, -4, kAxisEnd));
  EXPECT_INVALID("slice: range is 2 to 1, expected a range within an axis of length 2",
                 slice(x, 0, 2, 1));
  EXPECT_INVALID("slice: step is 0, expected at least 1", slice(x, 1, 0, 3, 0));
  EXPECT_INVALID("slice: axis 2 is out of range for rank 2", slice(x, 2, 0, 1));
  EXPECT_INVALID("slice: x is a scalar, expected at least one axis", slice(number, 0, 0));
  EXPECT_INVALID("split: length is 0, expected at least 1", split(x, 0, 0));
  EXPECT_INVALID("split: axis 2 is out of range for rank 2", split(x, 1, 2));
  EXPECT_INVALID("stack: no variables were given, expected at least one", stack({}, 0));
  EXPECT_INVALID("stack: axis 3 is out of range for rank 3", stack({x, x}, 3));
  EXPECT_INVALID("stack: shapes [2, 3] and [3] differ, expected equal shapes", stack({x, of({3})}));
  EXPECT_INVALID("squeeze: axis 1 of [2, 3] has length 3, expected 1", squeeze(x, 1));
  EXPECT_INVALID("unsqueeze: axis 4 is out of range for rank 3", unsqueeze(x, 4));
  EXPECT_INVALID("chunk: count is 0, expected at least 1", chunk(x, 0));
  EXPECT_INVALID("unbind: x is a scalar, expected at least one axis", unbind(number));
  EXPECT_INVALID(
      "expand: shapes [2, 3] and [2, 4] cannot be broadcast together: 3 against 4 on axis -1",
      expand(x, {2, 4}));
  EXPECT_INVALID("expand: x has shape [2, 3], expected a shape that broadcasts to [3]",
                 expand(x, {3}));
  EXPECT_INVALID("repeat: counts are [2], expected at least one for each axis of [2, 3]",
                 repeat(x, {2}));
  EXPECT_INVALID("flip: duplicate axis -1", flip(x, {1, -1}));
  EXPECT_INVALID("roll: axis 2 is out of range for rank 2", roll(x, 1, 2));
  for (const std::vector<std::size_t>& amounts : {std::vector<std::size_t>{1}, {1, 1, 1, 1, 1, 1}})
    EXPECT_INVALID(concat("pad: amounts are ", bracketed(amounts),
                          ", expected two for each of the last axes of [2, 3]"),
                   pad(x, amounts));
  EXPECT_INVALID(concat("pad: shape [", kMax, "] has more elements than memory could ever hold"),
                 pad(x, {kMax, 1}));
  EXPECT_INVALID("tril: x has shape [3], expected [..., rows, columns]", tril(of({3})));
  EXPECT_INVALID("triu: x has shape [], expected [..., rows, columns]", triu(number));
  EXPECT_INVALID("causal_unfold: steps is 0, expected at least 1", causal_unfold(x, 0));
  EXPECT_INVALID("causal_unfold: x has shape [3], expected [..., length, width]",
                 causal_unfold(of({3}), 2));
}

TEST_F(RefusedByOps, Products) {
  EXPECT_INVALID("matmul: b is a scalar, expected at least one axis", matmul(x, number));
  EXPECT_INVALID(
      "matmul: a has shape [3] and b [2, 3], expected equal inner axes instead of 3 and 2",
      matmul(of({3}), x));
  EXPECT_INVALID("outer: a has shape [2, 3] and b [3], expected two vectors", outer(x, of({3})));
  EXPECT_INVALID(
      "matmul: a has shape [2, 3] and b [4, 2], expected equal inner axes instead of 3 and 4",
      matmul(x, of({4, 2})));
  EXPECT_INVALID("matmul: shapes [2] and [3] cannot be broadcast together: 2 against 3 on axis -1",
                 matmul(of({2, 2, 3}), of({3, 3, 2})));
  EXPECT_INVALID("linear: weight has shape [3], expected [outputs, inputs]",
                 linear(of({4, 3}), of({3}), of({2})));
  EXPECT_INVALID("linear: x has shape [4, 2], expected [..., 3] for a weight of [2, 3]",
                 linear(of({4, 2}), x, of({2})));
  EXPECT_INVALID("linear: x has shape [], expected [..., 3] for a weight of [2, 3]",
                 linear(number, x, of({2})));
  EXPECT_INVALID("linear: bias has shape [3], expected [2]", linear(of({4, 3}), x, of({3})));
  EXPECT_INVALID("linear: bias has shape [1, 2], expected [2]", linear(of({4, 3}), x, of({1, 2})));
  const std::string expected =
      ", expected [..., length, width] and [width, kernel] with a kernel of at least 1";
  EXPECT_INVALID("causal_conv: x has shape [2, 3] and weight [2, 3]" + expected, causal_conv(x, x));
  EXPECT_INVALID("causal_conv: x has shape [2, 5, 6] and weight [6, 0]" + expected,
                 causal_conv(heads, of({6, 0})));
  for (const std::size_t dilation : {std::size_t{0}, std::size_t{1} << 30})
    EXPECT_INVALID(concat("causal_conv: dilation is ", dilation,
                          " for a kernel of 2, expected at least 1 and kernel · dilation "
                          "below 2^31"),
                   causal_conv(heads, of({6, 2}), dilation));
}

TEST_F(RefusedByOps, Losses) {
  EXPECT_INVALID("mse_loss: shapes [2, 3] and [3] differ, expected equal shapes",
                 mse_loss(x, of({3})));
  EXPECT_INVALID(
      "binary_cross_entropy_with_logits: shapes [2, 3] and [3, 2] differ, expected equal shapes",
      binary_cross_entropy_with_logits(x, of({3, 2})));
  EXPECT_INVALID("mse_loss: there are no elements, expected at least one for a mean",
                 mse_loss(nothing, nothing));

  const Ids two = ids({2}, {0, 1});
  const auto weighed = [&](const CrossEntropyOptions& options) { cross_entropy(x, two, options); };
  EXPECT_INVALID("cross_entropy: class_weights has shape [2], expected [3]",
                 weighed({.class_weights = Tensor{1, 1}}));
  EXPECT_INVALID("cross_entropy: target_weights has shape [3], expected [2]",
                 weighed({.target_weights = Tensor{1, 1, 1}}));
  EXPECT_INVALID("cross_entropy: class_weights has an element -1, expected finite weights >= 0",
                 weighed({.class_weights = Tensor{1, -1, 1}}));
  // The product of both weights overflows or underflows.
  const real most = std::numeric_limits<real>::max();
  EXPECT_ERROR_WITH(std::invalid_argument, "cross_entropy: the weight of the target at [0] is",
                    weighed({.class_weights = full({3}, most), .target_weights = full({2}, most)}));
  EXPECT_INVALID("cross_entropy: target 3 at [1] is out of range: there are 3 classes",
                 cross_entropy(x, ids({2}, {0, 3})));
  EXPECT_INVALID("cross_entropy: target -1 at [1, 0] is out of range: there are 3 classes",
                 cross_entropy(of({2, 2, 3}), ids({2, 2}, {0, 1, -1, 0})));
  EXPECT_INVALID("cross_entropy: target 0 at [0] is out of range: there are 0 classes",
                 cross_entropy(nothing, ids({2}, {0, 0})));
  for (const Shape& shape : {Shape{3}, Shape{2, 3}})
    EXPECT_INVALID(
        concat("cross_entropy: logits have shape [2, 3] for targets of shape ", bracketed(shape),
               ", expected the shape of the targets and a last axis of classes"),
        cross_entropy(x, Ids::from_shape({shape.begin(), shape.end()})));

  EXPECT_INVALID("linear_cross_entropy: weight has shape [4], expected [outputs, inputs]",
                 linear_cross_entropy(x, of({4}), {}, two));
  EXPECT_INVALID(
      "linear_cross_entropy: x has shape [2, 3], expected [..., 5] for a weight of [4, 5]",
      linear_cross_entropy(x, of({4, 5}), {}, two));
  EXPECT_INVALID("linear_cross_entropy: bias has shape [5], expected [4]",
                 linear_cross_entropy(x, of({4, 3}), of({5}), two));
  EXPECT_INVALID(
      "linear_cross_entropy: logits have shape [3, 4] for targets of shape [2], expected the "
      "shape of the targets and a last axis of classes",
      linear_cross_entropy(of({3, 3}), of({4, 3}), {}, two));
  EXPECT_INVALID("linear_cross_entropy: target 4 at [1] is out of range: there are 4 classes",
                 linear_cross_entropy(x, of({4, 3}), {}, ids({2}, {0, 4})));

  for (const double smoothing : {-0.1, 1.1, double{kNaN}}) {
    const std::string expected = concat(": label_smoothing is ", smoothing, ", expected 0 to 1");
    EXPECT_INVALID("cross_entropy" + expected, weighed({.label_smoothing = smoothing}));
    EXPECT_INVALID("cross_entropy" + expected, cross_entropy(x, x, {.label_smoothing = smoothing}));
  }
  EXPECT_INVALID("nll_loss: label_smoothing is 0.5, expected 0 (use cross_entropy)",
                 nll_loss(x, two, {.label_smoothing = 0.5}));
  EXPECT_INVALID("nll_loss: target 3 at [1] is out of range: there are 3 classes",
                 nll_loss(x, ids({2}, {0, 3})));
  EXPECT_INVALID("cross_entropy: shapes [2, 3] and [3] differ, expected equal shapes",
                 cross_entropy(x, of({3})));
  EXPECT_INVALID("cross_entropy: the logits are a scalar, expected a last axis of classes",
                 cross_entropy(number, number));
  EXPECT_INVALID(
      "cross_entropy: target_weights is set, expected none with probabilities (use kNone)",
      cross_entropy(x, x, {.target_weights = Tensor{}}));
}

TEST_F(RefusedByOps, LossesOfPairs) {
  const std::string differ = ": shapes [2, 3] and [3] differ, expected equal shapes";
  EXPECT_INVALID("l1_loss" + differ, l1_loss(x, of({3})));
  EXPECT_INVALID("huber_loss" + differ, huber_loss(x, of({3})));
  EXPECT_INVALID("smooth_l1_loss" + differ, smooth_l1_loss(x, of({3})));
  EXPECT_INVALID("kl_div" + differ, kl_div(x, of({3})));
  EXPECT_INVALID("binary_cross_entropy" + differ, binary_cross_entropy(x, of({3})));
  EXPECT_INVALID("huber_loss: delta is 0, expected more than 0", huber_loss(x, x, 0));
  EXPECT_INVALID("smooth_l1_loss: beta is -1, expected at least 0", smooth_l1_loss(x, x, -1));
  const std::string batch = ", expected kMean and at least one axis";
  EXPECT_INVALID("kl_div: batch_mean is set with kMean for shape []" + batch,
                 kl_div(number, number, {.batch_mean = true}));
  EXPECT_INVALID("kl_div: batch_mean is set with kSum for shape [2, 3]" + batch,
                 kl_div(x, x, {.reduction = LossReduction::kSum, .batch_mean = true}));
  const std::string expected =
      ": a weight has shape [2, 1, 3], expected a shape that broadcasts to [2, 3]";
  const Tensor large = zeros({2, 1, 3});
  EXPECT_INVALID("binary_cross_entropy" + expected, binary_cross_entropy(x, x, {.weight = large}));
  EXPECT_INVALID("binary_cross_entropy_with_logits" + expected,
                 binary_cross_entropy_with_logits(x, x, {.pos_weight = large}));
  EXPECT_INVALID(
      "binary_cross_entropy: pos_weight is set, expected none (use "
      "binary_cross_entropy_with_logits)",
      binary_cross_entropy(x, x, {.pos_weight = scalar(2)}));
  ++recorded;
  EXPECT_INVALID("binary_cross_entropy: input has an element 2, expected 0 to 1",
                 binary_cross_entropy(tape.input(full({2, 3}, 2)), x));
  EXPECT_INVALID("cosine_similarity: axis 2 is out of range for rank 2",
                 cosine_similarity(x, x, 2));
  EXPECT_INVALID("cosine_similarity: epsilon is 0, expected more than 0",
                 cosine_similarity(x, x, 1, 0));
}

TEST_F(RefusedByOps, SampledLosses) {
  const Variable weight = of({4, 3});
  const Ids two = ids({2}, {0, 3}), four = ids({4}, {0, 1, 2, 3});
  const auto negative = [&](const Variable& input, const Ids& targets, const Ids& negatives,
                            const NegativeSamplingOptions& options = {}) {
    return negative_sampling_loss(input, weight, targets, negatives, options);
  };
  EXPECT_INVALID(
      "negative_sampling_loss: x has shape [2, 3], expected [4, 3] (the targets' shape "
      "and the weight's width)",
      negative(x, four, two));
  EXPECT_INVALID("negative_sampling_loss: the table has shape [], expected [rows, width]",
                 negative_sampling_loss(x, number, two, two));
  const auto samples = [](const std::string& shape) {
    return "negative_sampling_loss: the samples have shape " + shape +
           ", expected [count] or the targets' shape and a count above 0";
  };
  EXPECT_INVALID(samples("[0]"), negative(x, two, ids({0}, {})));
  EXPECT_INVALID(samples("[2, 0]"), negative(x, two, ids({2, 0}, {})));
  EXPECT_INVALID(samples("[]"), negative(x, two, ids({}, {1})));
  EXPECT_INVALID(samples("[1, 4]"), negative(x, two, ids({1, 4}, {0, 1, 2, 3})));
  EXPECT_INVALID("negative_sampling_loss: target 4 at [1] is out of range: there are 4 classes",
                 negative(x, ids({2}, {0, 4}), four));
  EXPECT_INVALID("negative_sampling_loss: target -100 at [0] is out of range: there are 4 classes",
                 negative(x, ids({2}, {-100, 1}), four, {.ignore_index = std::nullopt}));
  EXPECT_INVALID("negative_sampling_loss: id -1 at [1] is out of range: the table has 4 rows",
                 negative(x, two, ids({2}, {0, -1})));
  for (const double weight_of : {-1.0, HUGE_VAL})
    EXPECT_INVALID(concat("negative_sampling_loss: negative_weight is ", weight_of,
                          ", expected a finite number >= 0"),
                   negative(x, two, four, {.negative_weight = weight_of}));
  const auto bags = [&](const Ids& offsets) {
    return negative(x, four, two, {.offsets = offsets});
  };
  EXPECT_INVALID(
      "negative_sampling_loss: x has shape [2, 3], expected [3, 3] (the offsets' shape and the "
      "weight's width)",
      bags(ids({3}, {0, 1, 4})));
  EXPECT_INVALID("negative_sampling_loss: the first offset is 1, expected 0",
                 bags(ids({2}, {1, 2})));
  EXPECT_INVALID("negative_sampling_loss: offset 5 at [1] is out of range: there are 4 ids",
                 bags(ids({2}, {0, 5})));
  const auto softmax = [&](const std::optional<Variable>& bias, const NegativeSamples& sampled) {
    return sampled_softmax_loss(x, weight, bias, two, sampled);
  };
  EXPECT_INVALID("sampled_softmax_loss: bias has shape [3], expected [4] or [4, 1]",
                 softmax(of({3}), {four, zeros({4})}));
  EXPECT_INVALID(
      "sampled_softmax_loss: log_expected_counts has shape [3], expected the samples' [4]",
      softmax({}, {four, zeros({3})}));
  EXPECT_INVALID(
      "sampled_softmax_loss: log_expected_counts has an element nan, expected finite values",
      softmax({}, {two, Tensor{0, kNaN}}));
  EXPECT_INVALID(
      "sampled_softmax_loss: log_expected_counts has an element -inf, expected finite values",
      softmax({}, {two, Tensor{-kInfinity, 0}}));
}

TEST_F(RefusedByOps, Lookups) {
  const Variable table = of({5, 3}), large = of({50257, 1});
  Ids32 numbers(32, 7);
  numbers[2 * 8 + 5] = 50300;
  numbers[31] = -1;
  EXPECT_INVALID("embedding: id 50300 at [2, 5] is out of range: the table has 50257 rows",
                 embedding(large, ids({4, 8}, numbers)));
  EXPECT_INVALID("embedding: id 50257 at [1] is out of range: the table has 50257 rows",
                 embedding(large, ids({2}, {50256, 50257})));
  EXPECT_INVALID("embedding: id -1 at [] is out of range: the table has 50257 rows",
                 embedding(large, ids({}, {-1})));
  EXPECT_INVALID("embedding: the table has shape [5], expected [rows, width]",
                 embedding(of({5}), Ids{0}));
  for (const std::int32_t padding : {-6, 5})
    EXPECT_INVALID(
        concat("embedding: padding_idx ", padding, " is out of range: the table has 5 rows"),
        embedding(table, Ids{0}, {.padding_idx = padding}));
  for (const EmbeddingLookup& of_bags :
       {EmbeddingLookup{.mode = BagMode::kSum}, EmbeddingLookup{.include_last_offset = true}})
    EXPECT_INVALID(
        "embedding: mode or include_last_offset is set, expected neither (use embedding_bag)",
        embedding(table, Ids{0}, of_bags));

  const Ids four = ids({2, 2}, {0, 1, 2, 0});
  EXPECT_INVALID("embedding_add: id 5 at [1, 0] is out of range: the table has 5 rows",
                 embedding_add(table, ids({2, 2}, {0, 1, 5, 0}), of({3})));
  for (const Shape& added : {Shape{4}, Shape{2, 1, 3}, Shape{}})
    EXPECT_INVALID(concat("embedding_add: added has shape ", bracketed(added),
                          ", expected the last axes of [2, 2, 3]"),
                   embedding_add(table, four, of(added)));
}

TEST_F(RefusedByOps, Bags) {
  const Variable table = of({5, 2});
  const Variable two = of({2});
  const Ids three = Ids{0, 1, 2}, pair = ids({1, 2}, {0, 1}), one = ids({1, 1}, {0});
  const auto refuses = [&](const std::string& message, const Bags& bags,
                           const EmbeddingLookup& options = {}) {
    EXPECT_INVALID("embedding_bag: " + message, embedding_bag(table, bags, options));
  };
  EXPECT_INVALID("embedding_bag: the table has shape [2], expected [rows, width]",
                 embedding_bag(two, {three}));

  const std::string rectangle = ", expected [bags, length], or [count] with offsets";
  refuses("ids have shape [3]" + rectangle, {three});
  refuses("ids have shape [1, 1, 1]" + rectangle, {ids({1, 1, 1}, {0})});
  refuses("include_last_offset is set, but no offsets were given", {pair},
          {.include_last_offset = true});
  refuses("ids have shape [1, 2], expected [count], since offsets were given", {pair, Ids{0}});
  refuses("offsets have shape [1, 1], expected [bags]", {three, one});
  refuses("offsets have shape [1, 1], expected [bags + 1]", {three, one},
          {.include_last_offset = true});
  refuses("offsets are empty, expected at least one for 3 ids", {three, ids({0}, {})});
  refuses("offsets are empty, expected at least one for 0 ids and include_last_offset",
          {ids({0}, {}), ids({0}, {})}, {.include_last_offset = true});
  refuses("the first offset is 1, expected 0", {three, Ids{1, 2}});
  refuses("the first offset is -1, expected 0", {three, Ids{-1, 2}});
  refuses("offset 1 at [2] follows 2, expected offsets that do not decrease",
          {three, Ids{0, 2, 1}});
  refuses("offset 4 at [1] is out of range: there are 3 ids", {three, Ids{0, 4}});
  refuses("the last offset is 2, expected 3, the number of ids, since include_last_offset is set",
          {three, Ids{0, 2}}, {.include_last_offset = true});

  refuses("per_sample_weights are set with mode mean, expected mode sum", {three, Ids{0}, two});
  refuses("per_sample_weights are set with mode max, expected mode sum", {three, Ids{0}, two},
          {.mode = BagMode::kMax});
  refuses("per_sample_weights have shape [2], expected [3], the shape of the ids",
          {three, Ids{0}, two}, {.mode = BagMode::kSum});
  refuses("per_sample_weights have shape [2], expected [1, 2], the shape of the ids",
          {pair, std::nullopt, two}, {.mode = BagMode::kSum});
  refuses("scale_grad_by_freq is set with mode max, expected mode sum or mean", {one},
          {.mode = BagMode::kMax, .scale_grad_by_freq = true});
  for (const std::int32_t padding : {5, -6})
    refuses(concat("padding_idx ", padding, " is out of range: the table has 5 rows"), {one},
            {.padding_idx = padding});
  refuses("id 5 at [1, 0] is out of range: the table has 5 rows", {ids({2, 2}, {0, 1, 5, -1})});
  refuses("id -1 at [1] is out of range: the table has 5 rows", {Ids{0, -1}, Ids{0}},
          {.padding_idx = -1});
}

TEST_F(RefusedByOps, Attention) {
  EXPECT_INVALID("attention: k has shape [2, 0, 6], expected [2, keys, 6] with at least 1 key",
                 attention(heads, of({2, 0, 6}), of({2, 0, 6}), {.heads = 2}));
  EXPECT_INVALID(
      "attention: distance_bias or relative is set, expected neither (use causal_attention)",
      attention(heads, heads, heads, {.heads = 2, .distance_bias = of({2, 5})}));
  EXPECT_INVALID("attention: key_lengths has size 1, expected 2, one per row of the batch",
                 attention(heads, heads, heads, {.heads = 2, .key_lengths = {5}}));
  EXPECT_INVALID("causal_attention: key_lengths[1] is 6, expected 1 to 5, the number of keys",
                 causal_attention(heads, heads, heads, {.heads = 2, .key_lengths = {5, 6}}));
  EXPECT_INVALID("attention: key_lengths[0] is 0, expected 1 to 5, the number of keys",
                 attention(heads, heads, heads, {.heads = 2, .key_lengths = {0, 5}}));

  for (const Shape& q : {Shape{5, 6}, Shape{2, 5, 0}, Shape{2, 5, 7}})
    EXPECT_INVALID(concat("causal_attention: q has shape ", bracketed(q),
                          ", expected [batch, queries, heads · width] for 2 heads"),
                   causal_attention(of(q), heads, heads, {.heads = 2}));
  for (const Shape& keys : {Shape{2, 4, 6}, Shape{1, 5, 6}})
    EXPECT_INVALID(concat("causal_attention: k has shape ", bracketed(keys),
                          ", expected [2, keys, 6] with at least 5 keys, one per query"),
                   causal_attention(heads, of(keys), of(keys), {.heads = 2}));
  const auto attend = [&](const AttentionOptions& options) {
    causal_attention(heads, heads, heads, options);
  };
  for (const std::size_t count : {0U, 3U})
    EXPECT_INVALID(concat("causal_attention: key_value_heads is ", count,
                          ", expected a number that divides heads, 2"),
                   attend({.heads = 2, .key_value_heads = count}));
  EXPECT_INVALID(
      "causal_attention: k has shape [2, 5, 6], expected [2, keys, 3] with at least 5 keys, one "
      "per "
      "query",
      attend({.heads = 2, .key_value_heads = 1}));
  for (const Shape& shape : {Shape{4}, Shape{3, 1, 5}, Shape{1, 2, 1, 5, 5}}) {
    const std::string end = concat(" has shape ", bracketed(shape),
                                   ", expected a shape that broadcasts to [2, 2, 5, 5], [batch, "
                                   "heads, queries, keys]");
    EXPECT_INVALID("causal_attention: mask" + end, attend({.heads = 2, .mask = zeros(shape)}));
    EXPECT_INVALID("causal_attention: bias" + end, attend({.heads = 2, .bias = of(shape)}));
  }
  EXPECT_INVALID(
      "causal_attention: mask and bias are set, expected one of them; call masked_fill() on the "
      "bias",
      attend({.heads = 2, .mask = zeros({5}), .bias = of({5})}));
  for (const real value : {real{0.5}, -kInfinity, kNaN})
    EXPECT_INVALID(concat("causal_attention: mask has the value ", value,
                          ", expected 0 or 1 (pass values to add as a bias)"),
                   attend({.heads = 2, .mask = full({5}, value)}));
  EXPECT_INVALID("causal_attention: heads is 0, expected at least 1", attend({.heads = 0}));
  EXPECT_INVALID("causal_attention: v has shape [2, 5, 4], expected the shape of k, [2, 5, 6]",
                 causal_attention(heads, heads, of({2, 5, 4}), {.heads = 2}));
  for (const double p : {1.5, double{kNaN}})
    EXPECT_INVALID(concat("causal_attention: dropout_p is ", p, ", expected 0 to 1"),
                   attend({.heads = 2, .dropout_p = p}));
  for (const Shape& bias : {Shape{2, 4}, Shape{3, 5}})
    EXPECT_INVALID(concat("causal_attention: distance_bias has shape ", bracketed(bias),
                          ", expected [2, distances] with at least 5 distances, one per key"),
                   attend({.heads = 2, .dropout_p = 0.1, .distance_bias = of(bias)}));
  for (const Shape& keys : {Shape{4, 6}, Shape{3}, Shape{0, 3}})
    EXPECT_INVALID(concat("causal_attention: relative keys have shape ", bracketed(keys),
                          ", expected [distances, 3]"),
                   attend({.heads = 2, .relative = RelativeRows{of(keys), of({4, 3})}}));
  EXPECT_INVALID(
      "causal_attention: relative values have shape [5, 3], expected the shape of the keys, [4, 3]",
      attend({.heads = 2, .relative = RelativeRows{of({4, 3}), of({5, 3})}}));

  Tape other;  // without a random number generator
  const Variable y = other.input(zeros({2, 5, 6}));
  EXPECT_ERROR(std::logic_error, "causal_attention: a variable belongs to another tape",
               causal_attention(heads, y, y, {.heads = 2, .dropout_p = 0.1}));
  EXPECT_ERROR_WITH(std::logic_error, "causal_attention",
                    causal_attention(y, y, y, {.heads = 2, .dropout_p = 0.1}));
}

TEST_F(RefusedByOps, CachesOfAttention) {
  const std::string op = "causal_attention with a cache: ";
  KeyValueCache cache(2, 4);
  const auto attend = [&](const Shape& q, const Shape& k, AttentionOptions options = {},
                          Tape::Mode mode = Tape::kInference) {
    Random random(1);
    Tape own(random, mode);
    options.heads = 2;
    causal_attention(own.constant(zeros(q)), own.constant(zeros(k)), own.constant(zeros(k)),
                     options, &cache);
  };
  const Shape one{1, 1, 4};
  EXPECT_ERROR(std::logic_error, op + "the tape is not an inference tape",
               attend(one, one, {}, Tape::kGradient));
  for (const Shape& wrong : {Shape{1, 4}, Shape{2, 1, 4}})
    EXPECT_INVALID(
        concat(op, "q has shape ", bracketed(wrong), ", expected [1, length, heads · width]"),
        attend(wrong, wrong));
  for (const Shape& wrong : {Shape{1, 2, 4}, Shape{1, 1, 5}})
    EXPECT_INVALID(concat(op, "k and v have shapes ", bracketed(wrong), " and ", bracketed(wrong),
                          ", expected [1, 1, 4] for the cache and the length of q"),
                   attend(one, wrong));
  EXPECT_INVALID(
      "causal_attention: k has shape [1, 1, 4], expected [1, keys, 6] with at least 1 "
      "key, one per query",
      attend({1, 1, 6}, one));
  EXPECT_INVALID(op + "dropout_p is 0.5, expected 0", attend(one, one, {.dropout_p = 0.5}));
  EXPECT_INVALID(op + "key_lengths is set, expected none", attend(one, one, {.key_lengths = {1}}));
  EXPECT_EQ(cache.length(), 0);
  attend(one, one);
  EXPECT_INVALID(
      op + "position 2 is past the end of the cache at 2, expected an earlier call to make_room()",
      attend({1, 2, 4}, {1, 2, 4}));
  EXPECT_INVALID(
      "KeyValueCache::truncate: length is 2, expected at most 1, the number of positions",
      cache.truncate(2));
  EXPECT_EQ(cache.length(), 1);
  cache.make_room(3);
  EXPECT_INVALID(op + "q has 2 queries past the window of 2, expected 1",
                 attend({1, 2, 4}, {1, 2, 4}));
  for (int i = 0; i < 3; ++i) attend(one, one);
  EXPECT_INVALID(
      op + "position 4 is past the end of the cache at 4, expected an earlier call to make_room()",
      attend(one, one));
  cache.make_room(1);
  EXPECT_INVALID(
      "KeyValueCache::truncate: length is 3, expected at least 4: positions before 2 were "
      "discarded",
      cache.truncate(3));
  cache.truncate(4);
}

template <class Table>
concept Rotates = requires(const Variable& x, Table table) {
  rotary(x, std::forward<Table>(table), 1);
};
// A temporary table would be destroyed before backward.
static_assert(Rotates<const RotaryTable&> && !Rotates<RotaryTable&&>);

TEST_F(RefusedByOps, Positions) {
  const RotaryTable table(8, 4);
  const Variable text = of({2, 3, 8});
  for (const std::size_t count : {1, 3})
    EXPECT_INVALID(concat("rotary: x has shape [2, 3, 8], expected [..., length, ", count, " · 4]"),
                   rotary(text, table, count));
  EXPECT_INVALID("rotary: x has shape [8], expected [..., length, 2 · 4]",
                 rotary(of({8}), table, 2));
  EXPECT_INVALID("rotary: heads is 0, expected at least 1", rotary(of({2, 3, 0}), table, 0));
  for (const std::size_t first : {std::size_t{6}, kMax})
    EXPECT_INVALID(
        concat("rotary: x has 3 positions from ", first, " on, but the table has 8 from 0 on"),
        rotary(text, table, 2, first));
  const RotaryTable later(8, 4, {.first_position = 5});
  for (const std::size_t first : {4, 11})
    EXPECT_INVALID(
        concat("rotary: x has 3 positions from ", first, " on, but the table has 8 from 5 on"),
        rotary(text, later, 2, first));

  EXPECT_INVALID("RotaryTable: positions is 0, expected at least 1", RotaryTable(0, 4));
  EXPECT_INVALID(
      "RotaryTable: columns is 0, expected an even number above 0 and at most head_width, 0",
      RotaryTable(8, 0));
  EXPECT_INVALID(
      "RotaryTable: columns is 5, expected an even number above 0 and at most head_width, 5",
      RotaryTable(8, 5));
  for (const std::size_t columns : {3, 6})
    EXPECT_INVALID(concat("RotaryTable: columns is ", columns,
                          ", expected an even number above 0 and at most head_width, 4"),
                   RotaryTable(8, 4, {.columns = columns}));
  for (const double base : {0.0, -1.0, std::numeric_limits<double>::infinity()})
    EXPECT_INVALID(concat("RotaryTable: base is ", base, ", expected a finite number above 0"),
                   RotaryTable(8, 4, {.base = base}));
  EXPECT_INVALID(
      "RotaryTable: shape [2305843009213693952, 8] has more elements than memory could ever "
      "hold",
      RotaryTable(std::size_t{1} << 61, 16));

  for (const Shape& shape : {Shape{5}, Shape{6, 2}, Shape{0, 2}, Shape{3, 2, 1}})
    EXPECT_INVALID(
        concat("relative_rows: table has shape ", bracketed(shape), ", expected [2k + 1, width]"),
        relative_rows(of(shape), 4));
  EXPECT_INVALID("t5_bias: table has shape [4], expected [buckets, heads]", t5_bias(of({4}), 4, 8));
  EXPECT_INVALID("t5_bias: buckets is 1, expected at least 2", t5_bias(of({1, 2}), 4, 8));
  EXPECT_INVALID("t5_bias: max_distance is 4, expected more than 4 (buckets / 2)",
                 t5_bias(of({8, 2}), 4, 4));
  EXPECT_INVALID("t5_bucket: buckets is 0, expected at least 2", t5_bucket(3, 0, 8));
  EXPECT_INVALID("alibi_slopes: heads is 0, expected at least 1", alibi_slopes(0));
}

TEST_F(RefusedByOps, Normalizations) {
  const Variable block = of({2, 3, 5});
  EXPECT_INVALID("layer_norm: weight has shape [4], expected [5] for x of [2, 3, 5]",
                 layer_norm(block, of({4})));
  EXPECT_INVALID("layer_norm: bias has shape [4], expected [5] for x of [2, 3, 5]",
                 layer_norm(block, std::nullopt, of({4})));
  ++recorded;  // the default weight
  EXPECT_INVALID("rms_norm: weight has shape [1, 5], expected [5] for x of [2, 3, 5]",
                 rms_norm(block, of({1, 5})));
  EXPECT_INVALID("rms_norm: x has shape [], expected [..., width] with a width above 0",
                 rms_norm(number));
  EXPECT_INVALID("layer_norm: x has shape [2, 0], expected [..., width] with a width above 0",
                 layer_norm(nothing));
  EXPECT_INVALID("rms_norm: epsilon is -1e-05, expected a finite number >= 0",
                 rms_norm(block, std::nullopt, -1e-5));
  for (const double epsilon : {kNaN, kInfinity})
    EXPECT_INVALID(concat("layer_norm: epsilon is ", epsilon, ", expected a finite number >= 0"),
                   layer_norm(block, std::nullopt, std::nullopt, epsilon));
}

}  // namespace
