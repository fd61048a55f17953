// Edge cases: elements that are infinite, huge or equal, and tensors without elements. The results
// must match PyTorch 1.13 and the headers.

#include <numbers>

#include "tests/support/op_cases.hpp"
#include "tests/test.hpp"

namespace {

constexpr real kMaximum = std::numeric_limits<real>::max();
const auto kLog2 = static_cast<real>(std::numbers::ln2);

struct Edge {
  std::string name;
  Function op;
  std::vector<Tensor> inputs;
  Tensor value;
  std::vector<Tensor> gradients = {};  // for the upstream gradient 1, 2, 3 …; not checked if empty
};

Function of_class(std::int32_t target) {
  return [target](Inputs x) { return cross_entropy(x[0], ids({1}, {target})); };
}

std::vector<Edge> edges() {
  const Tensor a{1, kNaN, 1, kNaN, 2, 2, kInfinity, -kInfinity, -kInfinity};
  const Tensor b{kNaN, 1, 2, kNaN, 2, 1, kInfinity, 0, -kInfinity};
  const Tensor larger{1, 2, 0, 4, 2.5, 6, 3.5, 0, 4.5}, other{1, 2, 3, 4, 2.5, 0, 3.5, 8, 4.5};
  const Tensor spread{10000, -10000, 0};
  const Tensor ends{-kInfinity, kInfinity};
  const Tensor all_nan = full({1, 3}, kNaN);
  const Function infinitely = [](Inputs x) { return maximum(x[0], x[1]) * kInfinity; };
  const Function masked = [](Inputs x) {
    return masked_fill(x[0], x[0].tape().constant(Tensor{{0, 1}, {0, 0}}), -kInfinity);
  };
  const auto along = [](Variable (*op)(const Variable&, int), int axis) {
    return [=](Inputs x) { return op(x[0], axis); };
  };
  const auto largest = [](int axis) { return [=](Inputs x) { return max(x[0], axis); }; };
  const Function total = [](Inputs x) { return logsumexp(x[0]); };
  std::vector<Edge> all{
      {"exp",
       one(exp),
       {Tensor{-kInfinity, -kMaximum, -1000, 1000, kInfinity, kNaN}},
       Tensor{0, 0, 0, kInfinity, kInfinity, kNaN}},
      {"tanh", one(tanh), {Tensor{-kInfinity, kInfinity, kNaN}}, Tensor{-1, 1, kNaN}},
      {"gelu", one(gelu), {Tensor{kInfinity, kNaN}}, Tensor{kInfinity, kNaN}},
      {"sigmoid", one(sigmoid), {Tensor{-kInfinity, kInfinity}}, Tensor{0, 1}, {Tensor{0, 0}}},
      {"softplus", one(softplus), {ends}, Tensor{0, kInfinity}, {Tensor{0, 2}}},
      {"log_sigmoid", one(log_sigmoid), {ends}, Tensor{-kInfinity, 0}, {Tensor{1, 0}}},
      {"mean of huge values",
       one(mean),
       {full({8}, kMaximum)},
       scalar(kMaximum),
       {full({8}, 0.125)}},
      {"mean of huge columns",
       [](Inputs x) { return mean(x[0], {0}); },
       {tensor({2, 2}, {kMaximum, 1, kMaximum, -3})},
       Tensor{kMaximum, -1},
       {Tensor{{0.5, 1}, {0.5, 1}}}},
      {"var of equals", one(var), {full({3}, kMaximum)}, scalar(0), {zeros({3})}},
      {"stddev of equals", one(stddev), {full({3}, kMaximum)}, scalar(0), {zeros({3})}},
      {"log",
       one(log),
       {Tensor{-0.0, -1, kInfinity, kNaN}},
       Tensor{-kInfinity, kNaN, kInfinity, kNaN}},
      {"relu",
       one(relu),
       {Tensor{0, kNaN, kInfinity}},
       Tensor{0, kNaN, kInfinity},
       {Tensor{0, 2, 3}}},
      {"detach",
       [](Inputs x) { return x[0] * detach(x[0]); },
       {Tensor{2, 3}},
       Tensor{4, 9},
       {Tensor{2, 6}}},
      {"abs", one(abs), {Tensor{-2, 0, 2}}, Tensor{2, 0, 2}, {Tensor{-1, 0, 3}}},
      {"clamp",
       [](Inputs x) { return clamp(x[0], -1, 3); },
       {Tensor{-2, -1, 0.5, 3, 4, kNaN}},
       Tensor{-1, -1, 0.5, 3, 3, kNaN},
       {Tensor{0, 2, 3, 4, 0, 0}}},
      {"maximum",
       two(maximum),
       {a, b},
       Tensor{kNaN, kNaN, 2, kNaN, 2, 2, kInfinity, 0, -kInfinity},
       {larger, other}},
      {"minimum",
       two(minimum),
       {a, b},
       Tensor{kNaN, kNaN, 1, kNaN, 2, 1, kInfinity, -kInfinity, -kInfinity},
       {other, larger}},
      {"maximum, infinite gradient",
       infinitely,
       {Tensor{1, 2}, Tensor{2, 1}},
       Tensor{kInfinity, kInfinity},
       {Tensor{0, kInfinity}, Tensor{kInfinity, 0}}},
      {"max of equal elements", largest(0), {Tensor{1, 4, 4}}, scalar(4), {Tensor{0, 1, 0}}},
      {"max with NaN", largest(0), {Tensor{1, kNaN, 9}}, scalar(kNaN), {Tensor{0, 1, 0}}},
      {"max along a middle axis",
       largest(1),
       {Tensor{{{1, 9}, {7, 2}, {7, 3}}, {{-1, -9}, {-7, -2}, {-7, -3}}}},
       Tensor{{7, 9}, {-1, -2}}},
      {"scatter of repeated ids",
       [](Inputs x) {
         return scatter(x[0], 0, Ids{1, 2, 1, 1}, x[1]);
       },
       {Tensor{5, 6, 7}, Tensor{-1, -2, -3, -4}},
       Tensor{5, -4, -2},
       {Tensor{1, 0, 0}, Tensor{0, 3, 0, 2}}},
      {"masked_select of nothing",
       [](Inputs x) { return masked_select(x[0], x[0].tape().constant(zeros({2}))); },
       {Tensor{1, 2}},
       zeros({0}),
       {Tensor{0, 0}}},
      {"prod of 0 and infinity",
       one(prod),
       {Tensor{0, kInfinity, 2}},
       scalar(kNaN),
       {Tensor{kInfinity, 0, kNaN}}},
      {"pow 2",
       [](Inputs x) { return pow(x[0], 2); },
       {Tensor{-kInfinity, -0.0, kInfinity, kNaN}},
       Tensor{kInfinity, 0, kInfinity, kNaN},
       {Tensor{-kInfinity, 0, kInfinity, kNaN}}},
      {"pow 0.5",
       [](Inputs x) { return pow(x[0], 0.5); },
       {Tensor{-kInfinity, -1, 0, kInfinity}},
       Tensor{kInfinity, kNaN, 0, kInfinity},
       {Tensor{0, kNaN, kInfinity, 0}}},
      {"pow -1",
       [](Inputs x) { return pow(x[0], -1); },
       {Tensor{-kInfinity, -0.0, 0}},
       Tensor{0, -kInfinity, kInfinity},
       {Tensor{0, -kInfinity, -kInfinity}}},
      {"pow of the number 0",
       [](Inputs x) { return pow(0, x[0]); },
       {Tensor{0, 2}},
       Tensor{1, 0},
       {Tensor{0, 0}}},
      {"maximum of a number",
       [](Inputs x) { return maximum(x[0], 1); },
       {Tensor{0, 1, 2}},
       Tensor{1, 1, 2},
       {Tensor{0, 1, 3}}},
      {"minimum of a number",
       [](Inputs x) { return minimum(x[0], 1); },
       {Tensor{0, 1, 2}},
       Tensor{0, 1, 1},
       {Tensor{1, 1, 0}}},
      {"where of numbers",
       [](Inputs x) { return where(gt(x[0], 1), x[0], 7) + where(gt(x[0], 1), 5, x[0]); },
       {Tensor{0, 2}},
       Tensor{7, 7},
       {Tensor{1, 2}}},
      {"tril and triu of the farthest diagonals",
       [](Inputs x) {
         using Limits = std::numeric_limits<std::ptrdiff_t>;
         return triu(x[0], Limits::min()) + tril(x[0], Limits::max()) + triu(x[0], Limits::max()) +
                tril(x[0], Limits::min());
       },
       {Tensor{{1, 2}, {3, 4}}},
       Tensor{{2, 4}, {6, 8}}},
      {"index_add to the last and the first",
       [](Inputs x) {
         return index_add(x[0], 0, Ids{-1, 0, -1}, x[1]);
       },
       {Tensor{1, 2, 3}, Tensor{10, 20, 30}},
       Tensor{21, 2, 43},
       {Tensor{1, 2, 3}, Tensor{3, 1, 3}}},
      {"cosine_similarity along an axis of one operand",
       [](Inputs x) { return cosine_similarity(x[0], x[1], 0); },
       {Tensor{{1, 3}, {1, 3}, {1, 3}, {1, -3}}, Tensor{1, 2}},
       Tensor{1, 0.5}},
      {"prod of nothing", [](Inputs x) { return prod(x[0], {1}); }, {zeros({2, 0})}, full({2}, 1)},
      {"vector_norm of huge elements",
       [](Inputs x) { return vector_norm(x[0], 4); },
       {Tensor{0, kMaximum, 0}},
       scalar(kMaximum),
       {Tensor{0, 1, 0}}},
      {"amax with NaN",
       [](Inputs x) { return amax(x[0], {0}); },
       {Tensor{kNaN, 1, kNaN}},
       scalar(kNaN),
       {Tensor{0.5, 0, 0.5}}},
      {"where NaN",
       [](Inputs x) { return where(x[0].tape().constant(full({9}, kNaN)), x[0], x[1]); },
       {scalar(1), scalar(2)},
       full({9}, 1)},
      {"masked_fill",
       masked,
       {Tensor{{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}},
       Tensor{{{1, -kInfinity}, {3, 4}}, {{5, -kInfinity}, {7, 8}}},
       {Tensor{{{1, 0}, {3, 4}}, {{5, 0}, {7, 8}}}}},
      {"softmax", along(softmax, 0), {spread}, Tensor{1, 0, 0}, {Tensor{0, 0, 0}}},
      {"log_softmax",
       along(log_softmax, 0),
       {spread},
       Tensor{0, -20000, -10000},
       {Tensor{-5, 2, 3}}},
      {"softmax of equals", along(softmax, 0), {full({2, 2}, -7)}, full({2, 2}, 0.5)},
      {"softmax, masked", along(softmax, 0), {Tensor{2, -kInfinity, 2}}, Tensor{0.5, 0, 0.5}},
      {"log_softmax, masked",
       along(log_softmax, 0),
       {Tensor{2, -kInfinity, 2}},
       Tensor{-kLog2, -kInfinity, -kLog2}},
      {"cross_entropy, certain",
       of_class(0),
       {Tensor{{10000, -10000, 0}}},
       scalar(0),
       {zeros({1, 3})}},
      {"cross_entropy, wrong",
       of_class(1),
       {Tensor{{10000, -10000, 0}}},
       scalar(20000),
       {Tensor{{1, -1, 0}}}},
      {"cross_entropy, ignored",
       [](Inputs x) {
         return cross_entropy(x[0], ids({2}, {0, 1}), {.ignore_index = 0});
       },
       {full({2, 2}, 5)},
       scalar(kLog2),
       {Tensor{{0, 0}, {0.5, -0.5}}}},
      {"cross_entropy, all ignored",
       [](Inputs x) {
         return cross_entropy(x[0], ids({2}, {0, 0}), {.ignore_index = 0});
       },
       {tensor({2, 2}, {kNaN, kInfinity, 1, 2})},
       scalar(0),
       {zeros({2, 2})}},
      {"linear_cross_entropy, ignored, none",
       [](Inputs x) {
         return linear_cross_entropy(x[0], x[1], {}, ids({2}, {-100, 1}),
                                     {.reduction = LossReduction::kNone});
       },
       {tensor({2, 2}, {kNaN, 1, 1, 2}), zeros({2, 2})},
       Tensor{0, kLog2},
       {zeros({2, 2}), Tensor{{1, 2}, {-1, -2}}}},
      {"linear_cross_entropy, ignored, smoothed",
       [](Inputs x) {
         return linear_cross_entropy(x[0], x[1], {}, ids({2}, {-100, 1}),
                                     {.label_smoothing = 0.5});
       },
       {tensor({2, 2}, {kNaN, 1, 4, 8}), zeros({2, 2})},
       scalar(kLog2),
       {zeros({2, 2}), Tensor{{1, 2}, {-1, -2}}}},
      {"linear_cross_entropy, all ignored",
       [](Inputs x) { return linear_cross_entropy(x[0], x[1], {}, ids({1}, {-100})); },
       {tensor({1, 2}, {kNaN, 1}), zeros({3, 2})},
       scalar(0),
       {zeros({1, 2}), zeros({3, 2})}},
      {"cross_entropy, ignored, none",
       [](Inputs x) {
         return cross_entropy(
             x[0], ids({2}, {1, 0}),
             {.reduction = LossReduction::kNone, .ignore_index = 1, .label_smoothing = 0.5});
       },
       {tensor({2, 2}, {kNaN, kInfinity, 0, 0})},
       Tensor{0, kLog2},
       {Tensor{{0, 0}, {-0.5, 0.5}}}},
      {"cross_entropy of probabilities 0",
       two([](const Variable& logits, const Variable& p) { return cross_entropy(logits, p); }),
       {Tensor{{-kInfinity, 0, 0}}, Tensor{{0, 0.5, 0.5}}},
       scalar(kLog2)},
      {"kl_div of targets 0",
       two([](const Variable& log_p,
              const Variable& q) { return kl_div(log_p, q, {.reduction = LossReduction::kNone}); }),
       {Tensor{-kInfinity, 0}, Tensor{0, 1}},
       Tensor{0, 0}},
      {"binary_cross_entropy, weighted",
       two(
           [](const Variable& p, const Variable& y) {
             return binary_cross_entropy(
                 p, y, {.reduction = LossReduction::kNone, .weight = Tensor{1, 2, 3, 4}});
           }),
       {Tensor{0, 0, 1, 1}, Tensor{0, 1, 0, 1}},
       Tensor{0, 200, 300, 0},
       {Tensor{0, real{-4} / real{1e-12}, real{9} / real{1e-12}, 0},
        Tensor{kInfinity, kInfinity, -kInfinity, -kInfinity}}},
      {"mish of infinity",
       one(mish),
       {Tensor{kInfinity, kMaximum}},
       Tensor{kInfinity, kMaximum},
       {Tensor{1, 2}}},
      {"logsumexp of nothing", total, {zeros({2, 0})}, full({2}, -kInfinity), {zeros({2, 0})}}};
  for (const Tensor& x : {Tensor{{1, kInfinity, 2}}, full({1, 3}, -kInfinity)}) {
    all.push_back({"softmax", along(softmax, 1), {x}, all_nan});
    all.push_back({"log_softmax", along(log_softmax, 1), {x}, all_nan});
    all.push_back({"cross_entropy", of_class(0), {x}, scalar(kNaN), {all_nan}});
    all.push_back({"logsumexp", total, {x}, Tensor{x(0, 1)}});
  }
  // Squares, cubes and fifth powers of some sizes overflow.
  for (const real size :
       {real{1000}, std::cbrt(kMaximum) * 2, std::sqrt(kMaximum) * 2, kMaximum / 2, kMaximum}) {
    const Tensor far{-size, size};
    const std::string of = concat(" of ", size);
    all.push_back({"tanh" + of, one(tanh), {far}, Tensor{-1, 1}, {Tensor{0, 0}}});
    all.push_back({"sigmoid" + of, one(sigmoid), {far}, Tensor{0, 1}, {Tensor{0, 0}}});
    for (const auto& [form, op] : std::map<std::string, Variable (*)(const Variable&)>{
             {"relu", relu}, {"gelu", gelu}, {"gelu_tanh", gelu_tanh}, {"silu", silu}})
      all.push_back({form + of, one(op), {far}, Tensor{0, size}, {Tensor{0, 2}}});
  }
  for (const real x : {-kInfinity, -kMaximum, kMaximum, kInfinity})
    for (const real target : {0, 1}) {
      const bool is_right = (x > 0) == (target > 0);
      all.push_back({concat("binary_cross_entropy_with_logits of ", x, " for ", target),
                     two([](const Variable& logits, const Variable& targets) {
                       return binary_cross_entropy_with_logits(logits, targets);
                     }),
                     {scalar(x), scalar(target)},
                     scalar(is_right ? 0 : std::abs(x)),
                     {scalar(is_right ? 0
                             : x > 0  ? 1
                                      : -1),
                      scalar(-x)}});
    }
  for (const double size : {1e10, 1e16, 3e38, -1e16}) {
    const Tensor x = full({1, 2}, static_cast<real>(size));
    const std::string of = concat(" of ", size);
    all.push_back({"softmax" + of, along(softmax, 1), {x}, full({1, 2}, 0.5)});
    all.push_back({"log_softmax" + of, along(log_softmax, 1), {x}, full({1, 2}, -kLog2)});
    all.push_back({"cross_entropy" + of, of_class(1), {x}, scalar(kLog2), {Tensor{{0.5, -0.5}}}});
    all.push_back({"logsumexp" + of,
                   total,
                   {x},
                   Tensor{static_cast<real>(x(0, 0) + std::numbers::ln2)},
                   {Tensor{{0.5, 0.5}}}});
    all.push_back({"linear_cross_entropy" + of,
                   [](Inputs in) { return linear_cross_entropy(in[0], in[1], {}, ids({1}, {1})); },
                   {full({1, 1}, 1), reshaped(x, {2, 1})},
                   scalar(kLog2)});
  }
  const Tensor nothing = zeros({2, 0});
  const std::vector<Edge> of_nothing{
      {"logsumexp of nothing", [](Inputs x) { return logsumexp(x[0], 0); }, {nothing}, zeros({0})},
      {"cumsum of nothing", along(cumsum, 1), {nothing}, nothing},
      {"norm of nothing", [](Inputs x) { return norm(x[0]); }, {nothing}, scalar(0)},
      {"norm of empty rows", [](Inputs x) { return norm(x[0], {1}); }, {nothing}, zeros({2})},
      {"mse_loss of nothing, sum",
       [](Inputs x) { return mse_loss(x[0], x[1], LossReduction::kSum); },
       {nothing, nothing},
       scalar(0)},
      {"gather of no ids",
       [](Inputs x) {
         return gather(x[0], 1, ids({2, 0}, {}));
       },
       {zeros({2, 3})},
       nothing},
      {"causal_conv of no positions",
       [](Inputs x) { return causal_conv(x[0], x[1]); },
       {zeros({2, 0, 3}), zeros({3, 2})},
       zeros({2, 0, 3})},
      {"embedding_add of empty rows",
       [](Inputs x) {
         return embedding_add(x[0], ids({2}, {4, 0}), x[1]);
       },
       {zeros({5, 0}), zeros({0})},
       nothing}};
  all.insert(all.end(), of_nothing.begin(), of_nothing.end());
  // The first of several NaNs gets the gradient.
  for (const auto& bag : {ids({1, 3}, {0, 1, 2}), ids({1, 3}, {1, 0, 2}), ids({1, 3}, {2, 1, 0}),
                          ids({1, 4}, {0, 1, 3, 2})})
    all.push_back({"embedding_bag, max",
                   [=](Inputs x) { return embedding_bag(x[0], {bag}, {.mode = BagMode::kMax}); },
                   {Tensor{{kNaN, 5}, {1, 6}, {-kInfinity, 7}, {kNaN, 4}}},
                   Tensor{{kNaN, 7}},
                   {Tensor{{1, 0}, {0, 0}, {0, 2}, {0, 0}}}});
  return all;
}

const std::vector<Edge>& all_edges() {
  static const std::vector<Edge> all = edges();
  return all;
}

OP_TEST(HandlesEdgeCases, Edge, all_edges(), any_case) {
  Tape tape;
  const std::vector<Variable> in = inputs_on(tape, item.inputs);
  const Variable y = item.op(in);
  expect_numbers(y.value(), item.value, 0, "value");
  if (item.gradients.empty()) return;
  tape.backward(y, counting(y.shape()));
  for (std::size_t i = 0; i < in.size(); ++i)
    expect_numbers(Gradient(tape.gradient(in[i])).take_dense(), item.gradients[i], 0,
                   concat("gradient ", i));
}

TEST(Comparisons, ReturnConstants) {
  Tape tape;
  const Variable x = tape.input(Tensor{-1, 0, 1, kNaN, kInfinity, -0.0});
  const auto expect = [&](const auto& op, const Tensor& zero, const Tensor& one) {
    EXPECT_EQ(op(x, 0).value(), zero);
    EXPECT_EQ(op(x, tape.input(scalar(1))).value(), one);
    EXPECT_FALSE(op(x, 0).needs_gradient());
  };
  expect([](auto& a, auto b) { return eq(a, b); }, Tensor{0, 1, 0, 0, 0, 1}, {0, 0, 1, 0, 0, 0});
  expect([](auto& a, auto b) { return ne(a, b); }, Tensor{1, 0, 1, 1, 1, 0}, {1, 1, 0, 1, 1, 1});
  expect([](auto& a, auto b) { return lt(a, b); }, Tensor{1, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 1});
  expect([](auto& a, auto b) { return le(a, b); }, Tensor{1, 1, 0, 0, 0, 1}, {1, 1, 1, 0, 0, 1});
  expect([](auto& a, auto b) { return gt(a, b); }, Tensor{0, 0, 1, 0, 1, 0}, {0, 0, 0, 0, 1, 0});
  expect([](auto& a, auto b) { return ge(a, b); }, Tensor{0, 1, 1, 0, 1, 1}, {0, 0, 1, 0, 1, 0});
}

TEST(Argmax, ReturnsTheFirstMaximumOrNaN) {
  Tape tape;
  EXPECT_EQ(argmax(tape.input(Tensor{{1, 7, 7}, {9, 2, 3}}), 1), ids({2}, {1, 0}));
  EXPECT_EQ(argmax(tape.input(Tensor{1, kNaN, 9, kNaN}), 0), ids({}, {1}));
}

TEST(Argmax, KeepsTheAxis) {
  Tape tape;
  const Variable x = tape.input(Tensor{{1, 7, 7}, {9, 2, 3}});
  EXPECT_EQ(argmax(x, 1, KeepAxes::kYes), ids({2, 1}, {1, 0}));
  EXPECT_EQ(argmin(x, 0, KeepAxes::kYes), ids({1, 3}, {0, 1, 1}));
  EXPECT_EQ(min(x, 0, KeepAxes::kYes).value(), (Tensor{{1, 2, 3}}));
}

TEST(Sort, IsStableAndTreatsNaNAsTheLargest) {
  Tape tape;
  const Variable x = tape.input(Tensor{2, kNaN, -0.0, 2, 0, -kNaN, -kInfinity});
  EXPECT_EQ(argsort(x), (Ids{6, 2, 4, 0, 3, 1, 5}));
  EXPECT_EQ(sort(x, 0, SortOrder::kDescending).indices, (Ids{1, 5, 0, 3, 2, 4, 6}));
  EXPECT_EQ(topk(x, 3).indices, (Ids{1, 5, 0}));
  EXPECT_EQ(topk(x, 2, -1, SortOrder::kAscending).indices, (Ids{6, 2}));
  EXPECT_EQ(argsort(tape.input(Tensor{{3, 1}, {2, 2}}), 0), ids({2, 2}, {1, 0, 0, 1}));
}

TEST(Sort, OrdersManyElements) {
  Tape tape;
  const Variable x = tape.input(irregular({3, 1000}, 1, -9, 9));
  const Tensor sorted = sort(x).values.value();
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_TRUE(std::is_sorted(sorted.data() + 1000 * row, sorted.data() + 1000 * (row + 1)));
  EXPECT_EQ(topk(x, 400, -1, SortOrder::kAscending).values.value(),
            slice(sort(x).values, 1, 0, 400).value());
}

TEST(Nonzero, ReturnsIndices) {
  Tape tape;
  EXPECT_EQ(nonzero(tape.constant(Tensor{0, 2, kNaN, -0.0, -1})), (Ids{1, 2, 4}));
  EXPECT_EQ(nonzero(tape.constant(zeros({3}))), Ids());
  const Variable x = tape.input(zeros({3, 2}));
  EXPECT_EQ(index_select(x, 0, nonzero(tape.constant(zeros({3})))).shape(), Shape({0, 2}));
}

TEST(Split, OfAnEmptyAxis) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 0}));
  EXPECT_EQ(split(x, 3, 1).at(0).shape(), Shape({2, 0}));
  EXPECT_EQ(chunk(x, 3, 1).size(), 3U);
  EXPECT_EQ(chunk(x, 3, 1).at(2).shape(), Shape({2, 0}));
  EXPECT_TRUE(unbind(x, 1).empty());
}

// Ids that repeat along the axis, in several groups that do not share elements.
TEST(Gather, AddsGradientsOfManyGroups) {
  const std::size_t rows = 300, count = 70;
  Ids picked = Ids::from_shape({rows, count});
  Tensor expected = zeros({rows, 3});
  for (std::size_t i = 0; i < picked.size(); ++i) {
    picked.data()[i] = static_cast<std::int32_t>(i * i % 3);
    expected.data()[i / count * 3 + i * i % 3] += 1;
  }
  Tape tape;
  const Variable x = tape.input(zeros({rows, 3}));
  tape.backward(gather(x, 1, picked), full({rows, count}, 1));
  EXPECT_EQ(tape.gradient(x).dense(), expected);
  Tape other;
  const Variable ones = other.constant(full({rows, count}, 1));
  EXPECT_EQ(scatter_add(other.constant(zeros({rows, 3})), 1, picked, ones).value(), expected);
}

TEST(OneHot, MarksEachId) {
  EXPECT_EQ(one_hot(Ids{2, 0}, 3), (Tensor{{0, 0, 1}, {1, 0, 0}}));
  EXPECT_EQ(one_hot(ids({}, {1}), 2), (Tensor{0, 1}));
}

TEST(IndexSelect, AddsManyGradientsAccurately) {
  const std::size_t count = 1000;
  const Tensor tenth = full({1, 2}, static_cast<real>(0.1));
  Tape tape;
  const Variable x = tape.input(tenth);
  tape.backward(index_select(x, 0, Ids::from_shape({count})), full({count, 2}, tenth(0, 0)));
  for (const real sum : tape.gradient(x).dense())
    EXPECT_NEAR(sum, count * static_cast<double>(tenth(0, 0)), 60 * kEpsilon);
}

// As in PyTorch, a scalar has an axis 0, which is also axis -1.
TEST(Scalars, HaveOneAxis) {
  struct Case {
    std::function<Variable(const Variable&, int)> op;
    real value, slope;
  };
  for (const Case& item : std::vector<Case>{
           {[](const Variable&x, int axis) { return sum(x, {axis}); }, 3, 1},
           {[](const Variable&x, int axis) { return mean(x, {axis}, KeepAxes::kYes); }, 3, 1},
           {[](const Variable&x, int axis) { return var(x, {axis}, {.correction = 0}); }, 0, 0},
           {[](const Variable&x, int axis) { return norm(x, {axis}); }, 3, 1},
           {[](const Variable&x, int axis) { return prod(x, {axis}); }, 3, 1},
           {[](const Variable&x, int axis) { return amax(x, {axis}); }, 3, 1},
           {[](const Variable&x, int axis) { return max(x, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return min(x, axis, KeepAxes::kYes); }, 3, 1},
           {[](const Variable&x, int axis) { return cumsum(x, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return cumprod(x, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return softmax(x, axis); }, 1, 0},
           {[](const Variable&x, int axis) { return log_softmax(x, axis); }, 0, 0},
           {[](const Variable&x, int axis) { return logsumexp(x, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return sort(x, axis).values; }, 3, 1},
           {[](const Variable&x, int axis) { return topk(x, 1, axis).values; }, 3, 1},
           {[](const Variable&x, int axis) { return gather(x, axis, ids({}, {0})); }, 3, 1},
           {[](const Variable&x, int axis) { return index_select(x, axis, Ids{0}); }, 3, 1},
           {[](const Variable&x, int axis) { return flip(x, {axis}); }, 3, 1},
           {[](const Variable&x, int axis) { return roll(x, 5, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return squeeze(x, axis); }, 3, 1},
           {[](const Variable&x, int axis) { return transpose(x, axis, 0); }, 3, 1}})
    for (const int axis : {0, -1}) {
      Tape tape;
      const Variable x = tape.input(scalar(3));
      const Variable y = item.op(x, axis);
      EXPECT_EQ(y.value(), scalar(item.value)) << y.name();
      tape.backward(y);
      EXPECT_EQ(tape.gradient(x).dense(), scalar(item.slope)) << y.name();
      EXPECT_EQ(argmax(x, axis), ids({}, {0}));
    }
}

TEST(TotalWeight, ExcludesIgnoredTargets) {
  EXPECT_EQ(total_weight(ids({2}, {0, -100}), 3, {.class_weights = Tensor{0.5, 1, 1}}), 0.5);
}

TEST(Argmin, AcceptsNoRowsLikePyTorch) {
  Tape tape;
  EXPECT_EQ(argmin(tape.input(zeros({0, 3})), 1).shape(), std::vector<std::size_t>({0}));
}

// The other elements are 1 or −∞, the smallest value.
TEST(Ops, PropagateNaNFromAnyPosition) {
  for (const std::size_t width : {1U, 2U, 9U, 19U})
    for (std::size_t i = 0; i < width; ++i)
      for (const real others : {real{1}, -kInfinity}) {
        Tensor x = full({width}, others);
        x(i) = kNaN;
        Tape tape(Tape::kInference);
        EXPECT_TRUE(std::isnan(logsumexp(tape.constant(x)).item())) << width << ' ' << i;
      }
}

TEST(Ops, ComputeNormsWithoutOverflow) {
  Tape tape;
  const auto huge = static_cast<real>(std::sqrt(std::numeric_limits<real>::max()) * 4);
  const auto tiny = static_cast<real>(std::sqrt(std::numeric_limits<real>::min()) / 4);
  for (const real unit : {huge, tiny}) {
    const Variable x = tape.input(tensor({2, 2}, {3 * unit, -4 * unit, 0, 0}));
    EXPECT_NEAR(norm(x, {1}).value()(0) / unit, 5, 10 * kEpsilon);
    EXPECT_NEAR(norm(x).item() / unit, 5, 10 * kEpsilon);
  }
  const Tensor gradient =
      gradients_of([](Inputs in) { return norm(in[0]); }, {tensor({2}, {3 * huge, 4 * huge})})[0]
          .dense();
  EXPECT_NEAR(gradient(0) / gradient(1), 0.75, 10 * kEpsilon);
}

// Reduced axes may be first, last, in the middle or not adjacent. A permutation that moves these
// axes to the end does not change the values and gradients.
TEST(Ops, ComputeVariancesAlongAnyAxes) {
  const Tensor x = irregular({3, 5, 37, 4}, 1, -1, 1);
  const struct {
    std::vector<int> axes, order;  // `order` moves `axes` to the end
  } cases[]{{{0}, {1, 2, 3, 0}},    {{1}, {0, 2, 3, 1}},      {{2}, {0, 1, 3, 2}},
            {{0, 1}, {2, 3, 0, 1}}, {{1, 2}, {0, 3, 1, 2}},   {{0, 2}, {1, 3, 0, 2}},
            {{3}, {0, 1, 2, 3}},    {{0, 1, 2}, {3, 0, 1, 2}}};
  for (const auto& [axes, order] : cases)
    for (const bool is_root : {false, true}) {
      const auto take = [=](const Variable& v, const std::vector<int>& along) {
        return is_root ? stddev(v, along) : var(v, along);
      };
      std::vector<int> last;
      for (std::size_t i = 0; i < axes.size(); ++i) last.push_back(-1 - static_cast<int>(i));
      const Function direct = [&, axes = axes](Inputs v) { return take(v[0], axes); };
      const Function moved = [&, order = order](Inputs v) {
        return take(permute(v[0], order), last);
      };
      const std::string what =
          concat(is_root ? "stddev" : "var", " along ", axes.size(), " axes from ", axes.front());
      Tape tape;
      expect_near(direct(inputs_on(tape, {x})).value(), moved(inputs_on(tape, {x})).value(),
                  4 * kEpsilon, what);
      expect_near(Gradient(gradients_of(direct, {x})[0]).take_dense(),
                  Gradient(gradients_of(moved, {x})[0]).take_dense(), 4 * kEpsilon, what);
    }
}

struct ScaledOp {
  std::string name;
  int degree;
  Function op;
};

const std::vector<ScaledOp> kScaledOps{
    {"layer_norm", 0, [](Inputs x) { return layer_norm(x[0], std::nullopt, std::nullopt, 0); }},
    {"layer_norm, plus an input", 0,
     [](Inputs x) {
       const real unit = std::abs(x[0].value()(0, 0));
       return layer_norm(x[0], std::nullopt, std::nullopt, 0) + x[0] / unit;
     }},
    {"rms_norm", 0, [](Inputs x) { return rms_norm(x[0], std::nullopt, 0); }},
    {"mean", 1, [](Inputs x) { return mean(x[0], {1}); }},
    {"mean of columns", 1, [](Inputs x) { return mean(x[0], {0}); }},
    {"stddev", 1, [](Inputs x) { return stddev(x[0], {1}); }},
    {"stddev of columns", 1, [](Inputs x) { return stddev(x[0], {0}); }},
    {"stddev of all", 1, [](Inputs x) { return stddev(x[0]); }}};

// For any scale s, f(s x) = sᵈ f(x), and the gradient at s x is sᵈ⁻¹ times the gradient at x. The
// scales are powers of 2, so scaling does not round.
OP_TEST(IsEquallyAccurateAtAnyScale, ScaledOp, kScaledOps, any_case) {
  constexpr int kMax = std::numeric_limits<real>::max_exponent;
  const auto& [name, degree, op] = item;
  for (const std::size_t width : {2U, 37U, 1500U}) {
    // The mean of the last row is far from 0.
    Tensor x = irregular({3, width}, 1, -0.04, 0.04);
    for (std::size_t i = 0; i < width; ++i) x(2, i) += static_cast<real>(0.125);
    for (const int exponent : {-kMax + 10, -kMax / 2, -kMax / 3, kMax / 3, kMax / 2, kMax}) {
      const std::string what = concat(name, " of width ", width, " at 2^", exponent);
      Tensor far = x;
      for (real& value : far) value = std::ldexp(value, exponent);
      Tape tape;
      const Tensor near_value = op(inputs_on(tape, {x})).value();
      const Tensor far_value = op(inputs_on(tape, {far})).value();
      const auto scaled = [](Tensor values, int by) {
        for (real& value : values) value = std::ldexp(value, by);
        return values;
      };
      expect_near(scaled(far_value, -degree * exponent), near_value, 32 * kEpsilon, what);
      const Tensor near_gradient = Gradient(gradients_of(op, {x})[0]).take_dense();
      const Tensor far_gradient = Gradient(gradients_of(op, {far})[0]).take_dense();
      double largest = 1;
      for (const real value : near_gradient) largest = std::max<double>(largest, std::abs(value));
      // Subnormal gradients are less accurate.
      const double spacing =
          std::ldexp(std::numeric_limits<real>::denorm_min(), (1 - degree) * exponent);
      expect_near(scaled(far_gradient, (1 - degree) * exponent), near_gradient,
                  64 * kEpsilon * largest + 4 * spacing, what + ", gradient");
    }
  }
}

TEST(Mean, OfOnesIsOne) {
  for (std::size_t count = 1; count < 500; ++count) {
    Tape tape;
    const Variable ones = tape.input(full({count, 2}, 1));
    EXPECT_EQ(mean(ones).value(), scalar(1)) << count;
    EXPECT_EQ(mean(ones, {0}).value(), full({2}, 1)) << count;
  }
}

TEST(Var, IsAccurateFarFromZero) {
  const double far = std::is_same_v<real, float> ? 1e6 : 1e15;
  const Tensor x = irregular({999}, 0, far - 20, far + 20);
  long double total = 0, squares = 0;
  for (const real value : x) {
    const long double distance = value - static_cast<long double>(far);
    total += distance;
    squares += distance * distance;
  }
  const auto expected = static_cast<double>((squares - total * total / 999) / 998);
  Tape tape;
  EXPECT_NEAR(var(tape.input(x)).item(), expected, 8 * kEpsilon * expected);
}

// If the backward rule of a slice wrote to all elements, slices in a loop over an axis would take
// quadratic time. The test detects these writes with -0, since adding 0 to -0 gives +0.
TEST(Slice, DoesNotWriteToTheGradientOfOtherElements) {
  for (const int axis : {0, 1, 2}) {
    const Tensor values = irregular({3, 4, 5});
    Tape tape;
    const Variable x = tape.input(values);
    // x gets -0 everywhere first, since backward starts with the addition, which is recorded last.
    const Variable all = concatenate(split(x, 1, axis), axis) + x;
    tape.backward(all, full(values.shape(), real{-0.0}));
    for (const real gradient : tape.gradient(x).dense()) EXPECT_TRUE(std::signbit(gradient));
  }
}

}  // namespace
