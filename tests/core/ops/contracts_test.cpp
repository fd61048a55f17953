// Checks the contracts of all ops with a table of cases. Values match loops, gradients match
// difference quotients, and both match PyTorch. Results have the same bits on any number of
// threads. A step can be repeated after a failed allocation.

#include <numbers>
#include <regex>

#include "tests/support/op_cases.hpp"
#include "tests/test.hpp"

namespace {

// --- Arguments of ops ---------------------------------------------------------------------------

// Returns ids of any shape, spread over 0 … count − 1 with repetitions.
Ids spread(const std::vector<std::size_t>& shape, std::size_t count) {
  Ids ids = Ids::from_shape(shape);
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids.data()[k] = static_cast<std::int32_t>((5 * k + k / 3) % count);
  return ids;
}

// Returns ids [x.shape[0], 4, x.shape[2]] into axis 1.
Ids picked(const Variable& x) { return spread({x.shape()[0], 4, x.shape()[2]}, x.shape()[1]); }

// Returns ids [x.shape[0], 2, x.shape[2]] into axis 1, without repetitions along that axis.
Ids distinct(const Variable& x) {
  Ids ids = Ids::from_shape({x.shape()[0], 2, x.shape()[2]});
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const Shape index = index_at(Shape(ids.shape().begin(), ids.shape().end()), k);
    ids[k] = static_cast<std::int32_t>((index[0] + 2 * index[1] + index[2]) % x.shape()[1]);
  }
  return ids;
}

// Returns six ids into axis 1.
Ids six_of(const Variable& x) { return spread({6}, x.shape()[1]); }

// Returns a bag of four ids for each row of the table. Each row occurs about four times.
Bags bags_of(const Variable& table) { return {spread({table.shape()[0], 4}, table.shape()[0])}; }

Bags weighted_bags(Inputs in) {
  const Shape& shape = in[1].shape();
  return {.ids = spread({shape[0], shape[1]}, in[0].shape()[0]), .per_sample_weights = in[1]};
}

// Returns a class for each row of logits, or of the inputs of a head.
Ids classes_of(const Variable& rows, std::size_t classes) {
  return spread({rows.shape()[0]}, classes);
}

// Returns four samples for each row of x, or for all, with expected counts of 1 / 4 to 5 / 4.
NegativeSamples samples_of(const Variable& x, std::size_t classes, bool shared) {
  Ids ids = shared ? spread({4}, classes) : spread({x.shape()[0], 4}, classes);
  Tensor logs = empty({ids.shape().begin(), ids.shape().end()});
  for (std::size_t k = 0; k < logs.size(); ++k)
    logs.data()[k] = static_cast<real>(std::log(static_cast<double>(k % 5 + 1) / 4));
  return {std::move(ids), std::move(logs)};
}

// Returns weights 0, 1, 2, 0, 1 … of the classes of x.
Tensor class_weights(const Variable& x) {
  Tensor weights = empty({x.shape()[1]});
  for (std::size_t k = 0; k < weights.size(); ++k) weights(k) = static_cast<real>(k % 3);
  return weights;
}

// Returns a function that computes cross_entropy with class weights and ignores class 1.
Function weighted(double smoothing, LossReduction reduction = LossReduction::kMean) {
  return [=](Inputs x) {
    return cross_entropy(x[0], classes_of(x[0], x[0].shape()[1]),
                         {.reduction = reduction,
                          .ignore_index = 1,
                          .class_weights = class_weights(x[0]),
                          .label_smoothing = smoothing});
  };
}

Function weighted_nll(LossReduction reduction) {
  return [=](Inputs x) {
    return nll_loss(
        x[0], classes_of(x[0], x[0].shape()[1]),
        {.reduction = reduction, .ignore_index = 1, .class_weights = class_weights(x[0])});
  };
}

Function head_loss(const CrossEntropyOptions& options) {
  return [=](Inputs x) {
    return linear_cross_entropy(x[0], x[1], x[2], classes_of(x[0], x[1].shape()[0]), options);
  };
}

// Returns a mask [rows, 1] of 1, 0, 1, 0 … for the rows of x.
Variable every_other_row(const Variable& x) {
  Tensor mask = zeros({x.shape()[0], 1});
  for (std::size_t i = 0; i < mask.size(); i += 2) mask.data()[i] = 1;
  return x.tape().constant(mask);
}

AttentionOptions padded(const Variable& keys) {
  AttentionOptions options{.heads = 2};
  for (std::size_t i = 0; i < keys.shape()[0]; ++i)
    options.key_lengths.push_back(keys.shape()[1] - i * (keys.shape()[1] / 3));
  return options;
}

// Returns a mask [batch, 1, queries, keys] that hides a quarter of the keys, and all keys of the
// first query.
Tensor mask_of(const Variable& q, const Variable& k) {
  Tensor mask = zeros({q.shape()[0], 1, q.shape()[1], k.shape()[1]});
  for (std::size_t i = k.shape()[1]; i < mask.size(); ++i)
    mask.data()[i] = (5 * i + i / 3) % 4 != 0;
  return mask;
}

std::vector<Variable> all(Inputs in) { return {in.begin(), in.end()}; }

// --- Shapes -------------------------------------------------------------------------------------

const Shapes kLargeMatrix{{200, 257}};
const Shapes kLargeRowAndMatrix{{257}, {200, 257}}, kLargePair{{200, 257}, {200, 257}};
const std::vector<Shapes> kAnyShape{{Shape{}},      {Shape{1}}, {Shape{19}},  {Shape{2, 3}},
                                    {{2, 1, 3, 2}}, {Shape{0}}, {Shape{2, 0}}};

// Adds each pair of shapes in reverse order.
std::vector<Shapes> both_ways(std::vector<Shapes> pairs) {
  for (std::size_t i = 0, count = pairs.size(); i < count; ++i)
    pairs.push_back({pairs[i][1], pairs[i][0]});
  return pairs;
}

const std::vector<Shapes> kBroadcasts = both_ways({{{4}, {2, 4}},
                                                   {{4}, {4}},
                                                   {{2, 3}, {2, 3}},
                                                   {{}, {}},
                                                   {{}, {3}},
                                                   {{2, 3}, {2, 1}},
                                                   {{3, 1}, {1, 4}},
                                                   {{2, 1, 3}, {2, 1}},
                                                   {{1, 3, 1}, {2, 1, 2}},
                                                   {{2, 1, 2, 1}, {2, 1, 3}},
                                                   {{1, 1}, {3}},
                                                   {{0}, {1}},
                                                   {{0, 3}, {3}},
                                                   {{2, 1}, {2, 0}},
                                                   {{3, 0, 2}, {1, 1, 2}},
                                                   {{3, 37}, {37}},
                                                   {{37, 3}, {37, 1}},
                                                   {{2, 1, 3, 1, 2}, {4, 1, 1, 1}}});

// Returns shapes of x and of `count` vectors of its width.
std::vector<Shapes> with_vectors(std::size_t count) {
  std::vector<Shapes> result;
  for (const Shape& shape : {Shape{3, 5}, Shape{5}, Shape{1, 2}, Shape{3, 4}, Shape{2, 3, 5},
                             Shape{3, 17}, Shape{37, 2}, Shape{0, 3}, Shape{2, 0, 3}}) {
    result.push_back({shape});
    result.back().resize(1 + count, Shape{shape.back()});
  }
  return result;
}

// --- References and their errors ----------------------------------------------------------------

double gelu_by_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2)); }

// Returns gelu's approximation with tanh of a cubic polynomial (Hendrycks & Gimpel 2016).
double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// Bounds the error of vectorized functions: 2 epsilon relative to the argument or result (erf in
// double precision: 40; see elementwise_test). Other operations add epsilon / 2 each. gelu
// subtracts values near 1 and multiplies by x. The error of gelu's cubic polynomial is multiplied
// by |x tanh'|, which is below 1.
double near_function(const std::vector<Tensor>& x, const Index& i, double expected) {
  return (sizeof(real) == 8 ? 44 : 6) * kEpsilon *
         std::max(std::abs(expected), std::abs(at(x[0], i)));
}

// Bounds the error of a sum of n products of values below 2, added in any order. Partial sums are
// below 4 n, so products and additions round by at most 2 n (n + 1) epsilon in total (Higham 2002,
// section 3.1). The bound is doubled, since the reference in the double build rounds as well.
double near_product(const std::vector<Tensor>& x, const Index&, double) {
  const auto count = static_cast<double>(x[0].shape().back() + 1);
  return 4 * count * count * kEpsilon;
}

Tensor product_by_loops(const std::vector<Tensor>& x) {
  const Tensor &a = x[0], &b = x[1];
  const auto stack = [](const Tensor& t) { return Shape(t.shape().begin(), t.shape().end() - 2); };
  Shape shape = joined(stack(a), stack(b));
  shape.push_back(a.shape()[a.dimension() - 2]);
  shape.push_back(b.shape().back());
  return from_entries(shape, [&](const Index& index) {
    Index in_a = index, in_b = index;
    double total = 0;
    for (std::size_t k = 0; k < a.shape().back(); ++k) {
      in_a.back() = in_b[index.size() - 2] = k;
      total += at(a, in_a) * at(b, in_b);
    }
    return total;
  });
}

Tensor linear_by_loops(const std::vector<Tensor>& x) {
  Shape shape = x[0].shape();
  shape.back() = x[1].shape()[0];
  return from_entries(shape, [&](Index index) {
    const std::size_t output = index.back();
    double total = x.size() > 2 ? x[2](output) : 0;
    for (index.back() = 0; index.back() < x[1].shape()[1]; ++index.back())
      total += at(x[0], index) * static_cast<double>(x[1](output, index.back()));
    return total;
  });
}

Reference permuted(const std::vector<int>& axes) {
  return [axes](const std::vector<Tensor>& x) {
    Shape shape;
    for (const int axis : axes) shape.push_back(x[0].shape()[from_front(axis, axes.size())]);
    return from_entries(shape, [&](const Index& index) {
      Index source = index;
      for (std::size_t i = 0; i < axes.size(); ++i)
        source[from_front(axes[i], axes.size())] = index[i];
      return at(x[0], source);
    });
  };
}

// --- The table ----------------------------------------------------------------------------------

void add_plain_ops(OpTable& table) {
  struct OfTwo {
    const char* name;
    Variable (*op)(const Variable&, const Variable&);
    double (*reference)(double, double);
    double low = -2;
  };
  for (const auto& [name, op, reference, low] : std::vector<OfTwo>{
           {"add", rowgrad::operator+, [](double a, double b) { return a + b; }},
           {"subtract", rowgrad::operator-, [](double a, double b) { return a - b; }},
           {"multiply", rowgrad::operator*, [](double a, double b) { return a * b; }},
           {"divide", rowgrad::operator/, [](double a, double b) { return a / b; }, 0.5}})
    table.add(name, kBroadcasts, kLargeRowAndMatrix, two(op))
        .gives(pairs(reference))
        .between(low, 2);
  struct Comparison {
    const char* name;
    Variable (*op)(const Variable&, const Variable&);
    double (*reference)(double, double);
  };
  for (const auto& [name, op, reference] :
       std::vector<Comparison>{{"eq", eq, [](double a, double b) { return a == b ? a : 2 * b; }},
                               {"ne", ne, [](double a, double b) { return a != b ? a : 2 * b; }},
                               {"lt", lt, [](double a, double b) { return a < b ? a : 2 * b; }},
                               {"le", le, [](double a, double b) { return a <= b ? a : 2 * b; }},
                               {"gt", gt, [](double a, double b) { return a > b ? a : 2 * b; }},
                               {"ge", ge, [](double a, double b) { return a >= b ? a : 2 * b; }}})
    table
        .add(name, kBroadcasts, kLargeRowAndMatrix,
             [op = op](Inputs x) { return where(op(x[0], x[1]), x[0], 2 * x[1]); })
        .gives(pairs(reference))
        .has_quotients = false;  // some elements are nearly equal
  table.add("pow, variable exponent", kBroadcasts, kLargeRowAndMatrix, two(pow))
      .gives(pairs(std::pow), near_function)
      .between(0.3, 2);
  // For these shapes, no difference quotient changes which element is larger.
  for (const auto& [name, op, reference, low] :
       std::vector<OfTwo>{{"maximum", maximum, [](double a, double b) { return std::max(a, b); }},
                          {"minimum", minimum, [](double a, double b) { return std::min(a, b); }}})
    table.add(name, both_ways({{{4}, {2, 4}}, {{3, 7}, {7}}}), kLargePair, two(op))
        .gives(pairs(reference));
  // The upstream gradient, which is the same for all elements, is summed over broadcast axes.
  table.add("subtract, summed", kBroadcasts, [](Inputs x) { return sum(x[0] - x[1]); });
  struct OfOne {
    const char* name;
    Variable (*op)(const Variable&);
    double (*reference)(double);
    double low = 0.5, high = 2;
  };
  for (const auto& [name, op, reference, low, high] : std::vector<OfOne>{
           {"negate", rowgrad::operator-, [](double x) { return -x; }},
           {"add 3", [](const Variable& x) { return x + real{3}; }, [](double x) { return x + 3; }},
           {"add to 3", [](const Variable& x) { return real{3} + x; },
            [](double x) { return 3 + x; }},
           {"subtract 3", [](const Variable& x) { return x - real{3}; },
            [](double x) { return x - 3; }},
           {"subtract from 3", [](const Variable& x) { return real{3} - x; },
            [](double x) { return 3 - x; }},
           {"multiply by 3", [](const Variable& x) { return x * real{3}; },
            [](double x) { return x * 3; }},
           {"multiply 3", [](const Variable& x) { return real{3} * x; },
            [](double x) { return 3 * x; }},
           {"divide by 3", [](const Variable& x) { return x / real{3}; },
            [](double x) { return x / 3; }},
           {"divide 3", [](const Variable& x) { return real{3} / x; },
            [](double x) { return 3 / x; }}})
    table.add(name, kAnyShape, one(op)).gives(each(reference)).between(low, high);
  for (const auto& [name, op, reference, low, high] : std::vector<OfOne>{
           {"exp", exp, std::exp, -3, 3},
           {"log", log, std::log, 0.3, 9},
           {"tanh", tanh, std::tanh, -3, 3},
           {"sigmoid", sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -5, 5},
           {"relu", relu, [](double x) { return x > 0 ? x : 0; }, -2, 2},
           {"gelu", gelu, gelu_by_erf, -4, 4},
           {"gelu_tanh", gelu_tanh, gelu_by_tanh, -4, 4},
           {"sqrt", sqrt, std::sqrt, 0.2, 9},
           {"abs", abs, std::abs, -3, 3},
           {"clamp", [](const Variable& x) { return clamp(x, real{-0.5}, 2); },
            [](double x) { return std::min(std::max(x, -0.5), 2.0); }, -0.4, 1.9},
           {"pow 1", [](const Variable& x) { return pow(x, 1); }, [](double x) { return x; }, -2,
            2},
           {"pow 2", [](const Variable& x) { return pow(x, 2); }, [](double x) { return x * x; },
            -2, 2},
           {"pow -1", [](const Variable& x) { return pow(x, -1); }, [](double x) { return 1 / x; },
            0.7, 4},
           {"pow 0.5", [](const Variable& x) { return pow(x, 0.5); }, std::sqrt, 0.7, 4},
           {"pow of a number", [](const Variable& x) { return pow(3, x); },
            [](double x) { return std::pow(3, x); }, -2, 2},
           {"pow 3", [](const Variable& x) { return pow(x, 3); },
            [](double x) { return x * x * x; }, -2, 2},
           {"pow -1.5", [](const Variable& x) { return pow(x, -1.5); },
            [](double x) { return std::pow(x, -1.5); }, 0.7, 4},
           {"pow 0", [](const Variable& x) { return pow(x, 0); }, [](double) { return 1.0; }, -2,
            2}})
    table.add(name, kAnyShape, kLargeMatrix, one(op))
        .gives(each(reference), near_function)
        .between(low, high);
  const auto cube = [](Inputs x) {
    return pointwise(
        "cube", x[0], [](const Simd& v) { return v * v * v; },
        [](const Simd& g, const Simd& v, const Simd&) { return g * Simd(real{3}) * v * v; });
  };
  table.add("pointwise of one variable", kAnyShape, kLargeMatrix, cube)
      .gives(each([](double x) { return x * x * x; }), near_function);
  const auto product = [](Inputs x) {
    return pointwise(
        "op", x[0], x[1], [](Simd a, Simd b) { return (a * a + 1) * b; },
        [](Simd g, Simd a, Simd b) { return 2 * g * a * b; },
        [](Simd g, Simd a) { return g * (a * a + 1); });
  };
  // The op rounds three times. In the double build, the reference also rounds.
  table.add("pointwise of two variables", kBroadcasts, product)
      .gives(pairs([](double a, double b) { return (a * a + 1) * b; }),
             [](auto&, auto&, double y) { return 3 * kEpsilon * std::abs(y); });
  const auto leaky = [](Inputs x) {
    return pointwise(
        "leaky", x[0], [](Simd v) { return select(v > 0, v, v / 4); },
        [](Simd g, Simd v, Simd) { return select(v > 0, g, g / 4); });
  };
  table.add("pointwise, chosen for each element", kAnyShape, leaky).gives(each([](double x) {
    return x > 0 ? x : x / 4;
  }));

  const auto of_matrix = [&](const char* name, const Function& op) -> OpCase& {
    return table.add(name, {{{3, 4}}}, kLargeMatrix, op);
  };
  of_matrix("divide, with numbers on both sides", [](Inputs x) { return 2 - 3 / (-x[0] * 2 + 5); });
  of_matrix("log1p", [](Inputs x) { return log1p(x[0] + 2.5); });
  of_matrix("sin", one(sin));
  of_matrix("cos", one(cos));
  of_matrix("exp2", one(exp2));
  of_matrix("expm1", one(expm1));
  of_matrix("log2", [](Inputs x) { return log2(x[0] + 2.5); });
  of_matrix("log10", [](Inputs x) { return log10(x[0] + 2.5); });
  of_matrix("tan", one(tan)).between(-1.2, 1.2);
  of_matrix("erf", one(erf));
  of_matrix("elu", [](Inputs x) { return elu(x[0]); });
  of_matrix("elu, alpha 0.3", [](Inputs x) { return elu(x[0], 0.3); });
  of_matrix("mish", one(mish));
  of_matrix("sign", one(sign));
  of_matrix("floor", one(floor));
  of_matrix("ceil", one(ceil));
  of_matrix("round", one(rowgrad::round));
  of_matrix("trunc", one(trunc));
  of_matrix("log_sigmoid", one(log_sigmoid));
  of_matrix("softplus", one(softplus));
  of_matrix("leaky_relu", [](Inputs x) { return leaky_relu(x[0]); });
  of_matrix("leaky_relu, slope 0.3", [](Inputs x) { return leaky_relu(x[0], 0.3); });
  of_matrix("silu", one(silu));
  of_matrix("dropout", [](Inputs x) { return dropout(x[0], 0.3); });
  table.add("dropout of everything", kAnyShape, [](Inputs x) { return dropout(x[0], 1); })
      .gives(each([](double) { return 0.0; }));
  of_matrix("mean", one(mean));
  of_matrix("logsumexp", [](Inputs x) { return logsumexp(x[0]); });
  of_matrix("cumsum of the last axis", [](Inputs x) { return cumsum(x[0], -1); });
  of_matrix("var", one(var));
  of_matrix("stddev of the last axis", [](Inputs x) { return stddev(x[0], {-1}); });
  of_matrix("norm", one(norm));
  of_matrix("norm of axis 0, kept", [](Inputs x) { return norm(x[0], {0}, KeepAxes::kYes); });
  of_matrix("softmax", [](Inputs x) { return softmax(x[0]); });
  of_matrix("log_softmax", [](Inputs x) { return log_softmax(x[0]); });
  of_matrix("cross_entropy",
            [](Inputs x) { return cross_entropy(x[0], classes_of(x[0], x[0].shape()[1])); });
  of_matrix("cross_entropy, weighted, none", weighted(0, LossReduction::kNone));
  of_matrix("cross_entropy, smoothed", weighted(0.3));
  of_matrix("cross_entropy, smoothed, sum", weighted(0.3, LossReduction::kSum));
  of_matrix("cross_entropy, smoothed, none", weighted(0.3, LossReduction::kNone));
  of_matrix("cross_entropy, all smooth", [](Inputs x) {
    return cross_entropy(x[0], classes_of(x[0], x[0].shape()[1]), {.label_smoothing = 1});
  });
  of_matrix("nll_loss", weighted_nll(LossReduction::kMean));
  of_matrix("nll_loss, none", weighted_nll(LossReduction::kNone));
  of_matrix("reshape", [](Inputs x) { return reshape(x[0], {x[0].shape()[1], x[0].shape()[0]}); });

  const auto of_block = [&](const char* name, const Function& op) -> OpCase& {
    return table.add(name, {{{2, 3, 5}}}, {{5, 130, 130}}, op);
  };
  of_block("logsumexp, axis 1 kept", [](Inputs x) { return logsumexp(x[0], 1, KeepAxes::kYes); });
  of_block("cumsum", [](Inputs x) { return cumsum(x[0], 1); })
      .gives(
          [](const std::vector<Tensor>& x) {
            return from_entries(x[0].shape(), [&](Index index) {
              double total = 0;
              for (std::size_t left = index[1] + 1; left-- > 0;) {
                index[1] = left;
                total += at(x[0], index);
              }
              return total;
            });
          },
          // The terms are below 2.
          [](auto&, const Index& i, double) {
            return static_cast<double>((i[1] + 1) * (i[1] + 1)) * kEpsilon;
          });
  of_block("var, correction 0, kept", [](Inputs x) {
    return var(x[0], {0, 2}, {.correction = 0, .keep = KeepAxes::kYes});
  });
  of_block("sum along an axis", [](Inputs x) { return sum(x[0], {1}); });
  of_block("sum of two axes", [](Inputs x) { return sum(x[0], {0, 2}); });
  of_block("min", [](Inputs x) { return min(x[0], 1); });
  of_block("max", [](Inputs x) { return max(x[0], 1); });
  of_block("max of the first axis", [](Inputs x) { return max(x[0], 0); });
  of_block("max of the last axis", [](Inputs x) { return max(x[0], -1); });
  of_block("gather", [](Inputs x) { return gather(x[0], 1, picked(x[0])); });
  of_block("softmax along axis 1", [](Inputs x) { return softmax(x[0], 1); });
  of_block("transpose", [](Inputs x) { return transpose(x[0]); }).gives(permuted({0, 2, 1}));
  of_block("transpose of axes 0 and 2", [](Inputs x) {
    return transpose(x[0], 0, -1);
  }).gives(permuted({2, 1, 0}));
  of_block("transpose of one axis", [](Inputs x) {
    return transpose(x[0], 1, 1);
  }).gives(permuted({0, 1, 2}));
  of_block("permute, counted from behind", [](Inputs x) {
    return permute(x[0], {-1, 0, -2});
  }).gives(permuted({2, 0, 1}));
  of_block("slice", [](Inputs x) { return slice(x[0], 1, 1, kAxisEnd, 2); });

  const auto of_pair = [&](const char* name, const Function& op) -> OpCase& {
    return table.add(name, {{{2, 4}, {2, 4}}}, kLargePair, op);
  };
  of_pair("mse_loss", [](Inputs x) { return mse_loss(x[0], x[1]); });
  of_pair("mse_loss, sum", [](Inputs x) { return mse_loss(x[0], x[1], LossReduction::kSum); });
  of_pair("binary_cross_entropy_with_logits",
          [](Inputs x) { return binary_cross_entropy_with_logits(x[0], x[1]); });
  of_pair("binary_cross_entropy_with_logits, sum", [](Inputs x) {
    return binary_cross_entropy_with_logits(x[0], x[1], LossReduction::kSum);
  });
  constexpr LossReduction kNone = LossReduction::kNone;
  const Tensor of_columns{1, 2, 3, 4};
  of_pair("mse_loss, none", [](Inputs x) { return mse_loss(x[0], x[1], kNone); });
  of_pair("l1_loss", [](Inputs x) { return l1_loss(x[0], x[1]); });
  of_pair("l1_loss, none", [](Inputs x) { return l1_loss(x[0], x[1], kNone); });
  of_pair("huber_loss", [](Inputs x) { return huber_loss(x[0], x[1]); });
  of_pair("huber_loss, delta 0.7, sum",
          [](Inputs x) { return huber_loss(x[0], x[1], 0.7, LossReduction::kSum); });
  of_pair("smooth_l1_loss, beta 0.7, none",
          [](Inputs x) { return smooth_l1_loss(x[0], x[1], 0.7, kNone); });
  of_pair("smooth_l1_loss, beta 0", [](Inputs x) { return smooth_l1_loss(x[0], x[1], 0); });
  of_pair("kl_div", [](Inputs x) { return kl_div(x[0], x[1]); }).between(0.2, 2);
  of_pair("kl_div, none", [](Inputs x) {
    return kl_div(x[0], x[1], {.reduction = kNone});
  }).between(0.2, 2);
  of_pair("kl_div, log target, batch mean",
          [](Inputs x) { return kl_div(x[0], x[1], {.batch_mean = true, .log_target = true}); });
  of_pair("binary_cross_entropy",
          [](Inputs x) { return binary_cross_entropy(sigmoid(x[0]), x[1]); });
  of_pair("binary_cross_entropy_with_logits, none",
          [](Inputs x) { return binary_cross_entropy_with_logits(x[0], x[1], kNone); });
  table.add("binary_cross_entropy_with_logits, weighted", {{{2, 4}, {2, 4}}}, [=](Inputs x) {
    return binary_cross_entropy_with_logits(x[0], x[1],
                                            {.weight = of_columns, .pos_weight = scalar(2.5)});
  });
  of_pair("cross_entropy of probabilities", [](Inputs x) { return cross_entropy(x[0], x[1]); });
  of_pair("cross_entropy of probabilities, none",
          [](Inputs x) { return cross_entropy(x[0], x[1], {.reduction = kNone}); });
  of_pair("cross_entropy of probabilities, smoothed", [](Inputs x) {
    return cross_entropy(x[0], x[1],
                         {.class_weights = class_weights(x[0]), .label_smoothing = 0.3});
  });
  table.add("cosine_similarity", {{{2, 1, 4}, {1, 3, 4}}}, {{300, 1, 64}, {1, 70, 64}},
            [](Inputs x) { return cosine_similarity(x[0], x[1], 2); });
  of_pair("concatenate", [](Inputs x) { return concatenate(all(x), 1); });

  // The width is not a multiple of the vector size.
  const auto of_table = [&](const char* name, const Function& op) {
    table.add(name, {{{5, 3}}}, {{3000, 67}}, op);
  };
  of_table("embedding", [](Inputs x) {
    return embedding(x[0], spread({5 * x[0].shape()[0]}, x[0].shape()[0]));
  });
  of_table("embedding, dense gradient", [](Inputs x) {
    return embedding(x[0], spread({5 * x[0].shape()[0]}, x[0].shape()[0]),
                     {.dense_gradient = true});
  });
  table
      .add("embedding, padded, dense gradient", {{{5, 3}}}, {{3000, 67}},
           [](Inputs x) {
             return embedding(x[0], spread({2, 3}, 5), {.padding_idx = 1, .dense_gradient = true});
           })
      .has_quotients = false;  // the padding row gets no gradient
  of_table("embedding_bag, mean",
           [](Inputs x) { return embedding_bag(x[0], bags_of(x[0]), {.mode = BagMode::kMean}); });
  of_table("embedding_bag, max",
           [](Inputs x) { return embedding_bag(x[0], bags_of(x[0]), {.mode = BagMode::kMax}); });

  // The ids are a single id, no ids, increasing ids or repeated ids.
  for (const Ids& looked_up : {ids({}, {4}), ids({0}, {}), ids({2, 0}, {}), ids({3}, {1, 2, 4}),
                               ids({2, 2}, {4, 0, 4, 4})})
    table
        .add(concat("embedding of ", looked_up), {{{5, 3}}},
             [=](Inputs x) { return embedding(x[0], looked_up); })
        .gives([=](const std::vector<Tensor>& x) {
          Shape shape(looked_up.shape().begin(), looked_up.shape().end());
          shape.push_back(3);
          return from_entries(shape, [&](const Index& index) {
            std::size_t id = 0;
            for (std::size_t axis = 0; axis < looked_up.dimension(); ++axis)
              id = id * looked_up.shape()[axis] + index[axis];
            return at(x[0], {static_cast<std::size_t>(looked_up.data()[id]), index.back()});
          });
        });

  const Shapes sequences{{3, 7, 4}, {3, 7, 4}, {3, 7, 4}},
      large_sequences{{3, 150, 40}, {3, 150, 40}, {3, 150, 40}};
  table.add("attention", {{{3, 9, 4}, {3, 7, 4}, {3, 7, 4}}},
            {{3, 200, 40}, {3, 150, 40}, {3, 150, 40}},
            [](Inputs x) { return attention(x[0], x[1], x[2], {.heads = 2}); });
  table.add("attention of padded keys", {sequences}, large_sequences,
            [](Inputs x) { return attention(x[0], x[1], x[2], padded(x[1])); });
  table.add("causal_attention of padded keys", {sequences}, large_sequences,
            [](Inputs x) { return causal_attention(x[0], x[1], x[2], padded(x[1])); });
  table.add("attention with a mask", {sequences}, large_sequences, [](Inputs x) {
    return attention(x[0], x[1], x[2], {.heads = 2, .mask = mask_of(x[0], x[1])});
  });
  table.add("attention with a bias",
            {{{3, 5, 4}, {3, 7, 4}, {3, 7, 4}, {2, 5, 7}},
             {{3, 5, 4}, {3, 7, 4}, {3, 7, 4}, {3, 1, 1, 7}},
             {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {2, 1, 3, 5}},
             {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {5}},
             {{2, 3, 4}, {2, 5, 4}, {2, 5, 4}, {3, 1}}},
            {{3, 200, 40}, {3, 150, 40}, {3, 150, 40}, {200, 150}},
            [](Inputs x) { return attention(x[0], x[1], x[2], {.heads = 2, .bias = x[3]}); });
  table.add("causal_attention of grouped keys", {{{2, 3, 8}, {2, 5, 4}, {2, 5, 4}}},
            {{3, 150, 40}, {3, 150, 20}, {3, 150, 20}}, [](Inputs x) {
              return causal_attention(x[0], x[1], x[2], {.heads = 4, .key_value_heads = 2});
            });
  table.add("causal_attention with dropout and distance_bias",
            {{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {2, 3}}},
            {{3, 150, 40}, {3, 150, 40}, {3, 150, 40}, {2, 152}}, [](Inputs x) {
              return causal_attention(x[0], x[1], x[2],
                                      {.heads = 2, .dropout_p = 0.3, .distance_bias = x[3]});
            });
  table.add(
      "causal_attention with relative rows", {{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {2, 2}, {2, 2}}},
      {{3, 150, 40}, {3, 150, 40}, {3, 150, 40}, {17, 20}, {17, 20}}, [](Inputs x) {
        return causal_attention(
            x[0], x[1], x[2], {.heads = 2, .dropout_p = 0.3, .relative = RelativeRows{x[3], x[4]}});
      });
  const Shape by_head{1, 2, 3, 2}, of_distances{5, 2};
  table.add("attention with Shaw's tables",
            {{by_head, by_head, by_head, of_distances, of_distances}}, [](Inputs x) {
              const Shape& shape = x[0].shape();
              const auto joined_heads = [&](const Variable& v) {
                return reshape(transpose(v, 1, 2), {shape[0], shape[2], shape[1] * shape[3]});
              };
              const RelativeRows rows{relative_rows(x[3], shape[2]), relative_rows(x[4], shape[2])};
              const Variable mixed =
                  causal_attention(joined_heads(x[0]), joined_heads(x[1]), joined_heads(x[2]),
                                   {.heads = shape[1], .relative = rows});
              return transpose(reshape(mixed, {shape[0], shape[2], shape[1], shape[3]}), 1, 2);
            });
  table.add("sum of two variables", {{{3, 4}, {30, 4}}}, {{300, 257}, {700, 90}},
            [](Inputs x) { return sum(x[0]) + sum(x[1]); });
  table.add("stddev", {{{5}}}, kLargeMatrix, one(stddev));
  table.add("slice of one variable, several times", {{{2, 5, 3}}}, [](Inputs x) {
    return slice(x[0], 1, 0, 3) * slice(x[0], 1, 1, 4) + slice(x[0], 1, 0, kAxisEnd, 2) +
           slice(x[0] * x[0], 1, 2);
  });
  table.add("linear_cross_entropy", {{{3, 4}, {7, 4}, {7}}}, {{300, 64}, {1132, 64}, {1132}},
            head_loss({}));
  table.add("linear_cross_entropy, smoothed", {{{3, 4}, {7, 4}, {7}}},
            head_loss({.label_smoothing = 0.3}));
  table.add("linear_cross_entropy, none", {{{3, 4}, {7, 4}, {7}}},
            head_loss({.reduction = LossReduction::kNone}));
  for (const bool shared : {false, true}) {
    const std::string of = shared ? ", shared" : "";
    table.add("negative_sampling_loss" + of, {{{3, 4}, {7, 4}}}, {{300, 64}, {1132, 64}},
              [shared](Inputs x) {
                const std::size_t classes = x[1].shape()[0];
                return negative_sampling_loss(x[0], x[1], classes_of(x[0], classes),
                                              samples_of(x[0], classes, shared).ids,
                                              {.negative_weight = 0.75});
              });
    table.add("sampled_softmax_loss" + of, {{{3, 4}, {7, 4}, {7}}}, {{300, 64}, {1132, 64}, {1132}},
              [shared](Inputs x) {
                const std::size_t classes = x[1].shape()[0];
                return sampled_softmax_loss(x[0], x[1], x[2], classes_of(x[0], classes),
                                            samples_of(x[0], classes, shared),
                                            {.reduction = LossReduction::kSum});
              });
  }
  table.add("memory_gate", {{{3, 5}, {3, 5}, {5}, {5}}}, {{700, 130}, {700, 130}, {130}, {130}},
            [](Inputs x) { return memory_gate(rms_norm(x[0], x[2]), rms_norm(x[1], x[3])); });
  table.add("causal_conv", {{{2, 7, 3}, {3, 2}}}, {{5, 130, 67}, {67, 2}},
            [](Inputs x) { return causal_conv(x[0], x[1]); });
  table.add("causal_conv, dilated", {{{2, 7, 3}, {3, 4}}}, {{5, 130, 67}, {67, 4}},
            [](Inputs x) { return causal_conv(x[0], x[1], 3); });
  table.add("embedding_add", {{{5, 3}, {3, 3}}}, {{5, 67}, {700, 67}}, [](Inputs x) {
    return embedding_add(x[0], spread({4, x[1].shape()[0]}, 5), x[1]);
  });
  table.add("linear of a table in two ways", {{{5, 3}, {5}}}, {{130, 70}, {130}}, [](Inputs x) {
    return linear(embedding(x[0], spread({5, 2}, x[0].shape()[0])), x[0], x[1]);
  });
  table.add(
      "embedding_bag, weighted sum", {{{5, 3}, {3, 4}}}, {{3000, 67}, {2048, 8}},
      [](Inputs x) { return embedding_bag(x[0], weighted_bags(x), {.mode = BagMode::kSum}); });

  // The shapes of x have no row, one row or several rows, and different numbers of axes.
  table.add("layer_norm", with_vectors(2), {{700, 130}, {130}, {130}},
            [](Inputs x) { return layer_norm(x[0], x[1], x[2]); });
  table.add("layer_norm of x alone", {{{3, 5}}}, [](Inputs x) { return layer_norm(x[0]); });
  table.add("layer_norm without bias", {{{3, 5}, {5}}}, {{5, 20001}, {20001}},
            [](Inputs x) { return layer_norm(x[0], x[1]); });
  table.add("layer_norm without weight", {{{3, 5}, {5}}}, {{40000, 1}, {1}},
            [](Inputs x) { return layer_norm(x[0], std::nullopt, x[1]); });
  table.add("rms_norm", with_vectors(1), {{700, 130}, {130}},
            [](Inputs x) { return rms_norm(x[0], x[1]); });
  table.add("rms_norm of x alone", {{{3, 5}}}, {{5, 20001}},
            [](Inputs x) { return rms_norm(x[0]); });
  // The product is recorded last, so backward first adds the gradient of the product to x.
  table.add("layer_norm of a variable with other uses", {{{7, 5}}},
            [](Inputs x) { return layer_norm(x[0]) + rms_norm(x[0]) + x[0] * x[0]; });
  table.add("where", {{{3}, {2, 3}}}, kLargeRowAndMatrix,
            [](Inputs x) { return where(every_other_row(x[1]), x[0], x[1]); });
  table.add("masked_fill", {{{2, 3}}}, kLargeMatrix,
            [](Inputs x) { return masked_fill(x[0], every_other_row(x[0]), real{0.5}); });
  table.add("t5_bias", {{{8, 3}}}, {{32, 40}}, [](Inputs x) { return t5_bias(x[0], 40, 32); });
}

void add_selections(OpTable& table) {
  const auto of_block = [&](const char* name, const Function& op) {
    table.add(name, {{{2, 3, 5}}}, {{5, 130, 130}}, op);
  };
  of_block("index_select", [](Inputs x) { return index_select(x[0], 1, six_of(x[0])); });
  of_block("index_select of one row, often",
           [](Inputs x) { return index_select(x[0], -3, Ids::from_shape({40})); });
  of_block("index_select from the end", [](Inputs x) {
    return index_select(x[0], 0, ids({2, 2}, {-1, 0, 1, -2}));
  });
  of_block("masked_select", [](Inputs x) {
    return masked_select(x[0], every_other_row(squeeze(slice(x[0], 0, 0, 1), 0)));
  });
  of_block("sort", [](Inputs x) { return sort(x[0], 1).values; });
  of_block("sort, descending",
           [](Inputs x) { return sort(x[0], -1, SortOrder::kDescending).values; });
  of_block("topk", [](Inputs x) { return topk(x[0], 2, 1).values; });
  of_block("topk, smallest",
           [](Inputs x) { return topk(x[0], 3, -1, SortOrder::kAscending).values; });
  of_block("flip", [](Inputs x) { return flip(x[0], {0, -1}); });
  of_block("roll", [](Inputs x) { return roll(x[0], -4, 1); });
  of_block("pad", [](Inputs x) { return pad(x[0], {1, 2, 0, 3}, real{0.5}); });
  of_block("tril", [](Inputs x) { return tril(x[0]); });
  of_block("triu", [](Inputs x) { return triu(x[0], 1); });
  of_block("repeat", [](Inputs x) { return repeat(x[0], {2, 1, 3, 2}); });
  of_block("chunk", [](Inputs x) { return chunk(x[0], 2, -1).at(1); });
  of_block("unbind", [](Inputs x) { return unbind(x[0], 1).at(2); });
  of_block("prod of axis 1", [](Inputs x) { return prod(x[0], {1}); });
  of_block("prod", [](Inputs x) { return prod(x[0]); });
  of_block("prod of rows, kept", [](Inputs x) { return prod(x[0], {-1}, KeepAxes::kYes); });
  of_block("cumprod", [](Inputs x) { return cumprod(x[0], 1); });
  of_block("amax", [](Inputs x) { return amax(x[0], {0, 2}, KeepAxes::kYes); });
  of_block("amin", [](Inputs x) { return amin(x[0], {1}); });
  of_block("max of all", [](Inputs x) { return max(x[0]); });
  of_block("max, kept", [](Inputs x) { return max(x[0], 1, KeepAxes::kYes); });
  of_block("vector_norm, order 3", [](Inputs x) { return vector_norm(x[0], 3); });
  of_block("vector_norm, order 0.5", [](Inputs x) { return vector_norm(x[0], 0.5, {0}); });
  of_block("vector_norm, order 1",
           [](Inputs x) { return vector_norm(x[0], 1, {1}, KeepAxes::kYes); });
  of_block("vector_norm, largest", [](Inputs x) { return vector_norm(x[0], kInfinity, {2}); });
  table.add("expand", {{{3, 1}}}, {{300, 1}}, [](Inputs x) {
    return expand(x[0], {2, x[0].shape()[0], 150});
  });
  table.add("outer", {{Shape{3}, Shape{4}}}, {Shape{300}, Shape{200}}, two(outer));
  const Shapes block_and_two{{2, 3, 5}, {2, 2, 5}}, block_and_four{{2, 3, 5}, {2, 4, 5}};
  const Shapes block_and_six{{2, 3, 5}, {2, 6, 5}};
  table.add("scatter", {block_and_two}, {{5, 130, 130}, {5, 2, 130}},
            [](Inputs x) { return scatter(x[0], 1, distinct(x[0]), x[1]); });
  table.add("scatter, repeated ids", {block_and_four},
            [](Inputs x) { return scatter(x[0], 1, picked(x[0]), x[1]); });
  table.add("scatter_add", {block_and_four}, {{5, 130, 130}, {5, 4, 130}},
            [](Inputs x) { return scatter_add(x[0], 1, picked(x[0]), x[1]); });
  table.add("index_add", {block_and_six}, {{5, 130, 130}, {5, 6, 130}},
            [](Inputs x) { return index_add(x[0], 1, six_of(x[0]), x[1]); });
  table.add("matmul of two vectors", {{Shape{4}, Shape{4}}}, {Shape{5000}, Shape{5000}},
            two(matmul));
  table.add("matmul by a vector", {{{2, 3, 4}, Shape{4}}}, {{3, 200, 1000}, Shape{1000}},
            two(matmul));
  table.add("matmul of a vector", {{Shape{4}, {4, 3}}}, {Shape{300}, {300, 200}}, two(matmul));
  table.add("matmul of a vector and a stack", {{Shape{4}, {2, 4, 3}}}, {Shape{300}, {8, 300, 20}},
            two(matmul));
}

void add_products(OpTable& table) {
  const std::vector<Shapes> pairs_of_factors{
      {{2, 3, 4}, {2, 4, 5}},
      {{2, 3}, {3, 4}},
      {{1, 1}, {1, 1}},
      {{1, 3}, {3, 1}},
      {{3, 1}, {1, 4}},
      {{3, 3}, {3, 3}},
      {{2, 3, 3}, {2, 3, 3}},
      {{2, 0}, {0, 3}},
      {{2, 2, 0}, {2, 0, 2}},  // empty sums
      {{0, 3}, {3, 2}},
      {{2, 3}, {3, 0}},
      {{0, 2, 3}, {3, 2}},
      {{0, 2, 3}, {0, 3, 2}},
      // Stacks of the same shape, a single right or left matrix, and broadcasting on both sides.
      {{4, 2, 3}, {4, 3, 2}},
      {{7, 1, 3}, {7, 3, 1}},
      {{1, 2, 3}, {1, 3, 2}},
      {{4, 2, 3}, {3, 2}},
      {{2, 2, 2, 3}, {3, 2}},
      {{4, 2, 3}, {1, 3, 2}},
      {{2, 3}, {4, 3, 2}},
      {{2, 1, 2, 3}, {2, 3, 2}},
      {{2, 1, 2, 3}, {1, 3, 3, 1}}};
  table.add("matmul", pairs_of_factors, two(matmul)).gives(product_by_loops, near_product);
  table.add("matmul of a stack", {{{2, 3, 4}, {2, 4, 5}}}, {{3, 130, 70}, {3, 70, 90}},
            two(matmul));
  table.add("matmul by one matrix", {{{2, 3, 4}, {4, 5}}}, {{3, 130, 70}, {70, 90}}, two(matmul));
  table
      .add("matmul of many small matrices", {{{6, 3, 4}, {6, 4, 5}}}, {{3, 8, 20, 30}, {8, 30, 40}},
           two(matmul))
      .gives(product_by_loops, near_product);
  std::vector<Shapes> with_bias{
      {{3, 4}, {5, 4}, {5}}, {{3, 0}, {2, 0}, {2}}, {{3, 2}, {0, 2}, {0}}},
      without{{{2, 3}, {2, 3}}};
  for (const Shape& x : {Shape{3}, Shape{1, 3}, Shape{4, 3}, Shape{2, 4, 3}, Shape{2, 1, 2, 3},
                         Shape{0, 3}, Shape{2, 0, 3}})
    with_bias.push_back({x, {2, 3}, {2}});
  for (const Shapes& shapes : with_bias) without.push_back({shapes[0], shapes[1]});
  table
      .add("linear", with_bias, {{300, 70}, {130, 70}, {130}},
           [](Inputs x) { return linear(x[0], x[1], x[2]); })
      .gives(linear_by_loops, near_product);
  table.add("linear of long rows", {{{2, 3}, {2, 3}}}, {{700, 290}, {110, 290}},
            [](Inputs x) { return linear(x[0], x[1]); });
  table.add("linear without bias", without, [](Inputs x) { return linear(x[0], x[1]); })
      .gives(linear_by_loops, near_product);
}

// Adds sums and means. The references add each element of x to an element of the result.
void add_reductions(OpTable& table) {
  table.add("sum", {{{2, 3, 4}}, {Shape{}}, {{2, 0, 3}}}, one(sum))
      .gives([](auto& x) { return scalar(std::accumulate(x[0].begin(), x[0].end(), real{0})); },
             [](auto&, auto&, double) { return 24 * 24 * kEpsilon; });
  struct Case {
    Shape shape;
    std::vector<int> axes;
    Shape large = {};
  };
  for (const auto& [shape, axes, large] : std::vector<Case>{{{}, {}},
                                                            {{4}, {0}, {40001}},
                                                            {{4}, {}},
                                                            {{2, 3}, {0}, {70, 3}},
                                                            {{2, 3}, {1}, {3, 9000}},
                                                            {{2, 3}, {-1, 0}},
                                                            {{2, 3, 4}, {1}},
                                                            {{2, 3, 4}, {0, 2}},
                                                            {{2, 3, 4}, {-1, -2}},
                                                            {{2, 3, 2, 2}, {2, 0}},
                                                            {{1, 3, 1}, {0}},
                                                            {{2, 0, 3}, {1}},
                                                            {{2, 0, 3}, {0}}})
    for (const KeepAxes keep : {KeepAxes::kNo, KeepAxes::kYes})
      for (const bool is_mean : {false, true}) {
        if (is_mean && element_count(shape) == 0) continue;
        std::vector<bool> is_summed(shape.size());
        for (const int axis : axes) is_summed[from_front(axis, shape.size())] = true;
        const auto count = [=](const Tensor& x) {
          double product = 1;
          for (std::size_t axis = 0; axis < is_summed.size(); ++axis)
            if (is_summed[axis]) product *= static_cast<double>(x.shape()[axis]);
          return product;
        };
        const auto op = [=, axes = axes](Inputs x) {
          return is_mean ? mean(x[0], axes, keep) : sum(x[0], axes, keep);
        };
        const auto loops = [=](const std::vector<Tensor>& x) {
          Shape kept = x[0].shape(), dropped;
          for (std::size_t axis = 0; axis < kept.size(); ++axis)
            if (is_summed[axis])
              kept[axis] = 1;
            else
              dropped.push_back(kept[axis]);
          std::vector<double> totals(element_count(kept));
          for (std::size_t k = 0; k < x[0].size(); ++k) {
            const Index from = index_at(x[0].shape(), k);
            std::size_t to = 0;
            for (std::size_t axis = 0; axis < kept.size(); ++axis)
              to = to * kept[axis] + (is_summed[axis] ? 0 : from[axis]);
            totals[to] += x[0].data()[k];
          }
          Tensor result = empty(keep == KeepAxes::kYes ? kept : dropped);
          for (std::size_t k = 0; k < totals.size(); ++k)
            result.data()[k] = static_cast<real>(is_mean ? totals[k] / count(x[0]) : totals[k]);
          return result;
        };
        // Elements are below 2. Each takes part in fewer than `count` additions, and in fewer than
        // 64, because long sums are added pairwise.
        const auto near = [=](const std::vector<Tensor>& x, auto&, double) {
          const double most = count(x[0]);
          return (is_mean ? 1 : most) * (std::min(most, 64.0) + is_mean) * kEpsilon;
        };
        table
            .add(concat(is_mean ? "mean along " : "sum along ", bracketed(axes)), {{shape}},
                 large.empty() ? Shapes() : Shapes{large}, op)
            .gives(loops, near);
      }
}

void add_softmaxes(OpTable& table) {
  for (const Shape& shape :
       {Shape{1}, Shape{5}, Shape{37}, Shape{3, 4}, Shape{1, 3}, Shape{3, 1}, Shape{2, 3, 4},
        Shape{2, 1, 3, 2}, Shape{2, 70}, Shape{0, 3}, Shape{3, 0, 2}})
    for (int axis = -static_cast<int>(shape.size()); axis < static_cast<int>(shape.size()); ++axis)
      for (const bool is_log : {false, true}) {
        const std::size_t along = from_front(axis, shape.size());
        // The distance max − x is below 4 and rounded. exp() turns its error into a relative
        // error and adds 2 epsilon. The sum of n terms and the division add (n + 1) epsilon / 2 at
        // most. The logarithm turns the relative error into an absolute error, and is rounded.
        const double error = (4.0 / 2 + 2 + static_cast<double>(shape[along] + 1) / 2) * kEpsilon;
        const auto op = [=](Inputs x) {
          return is_log ? log_softmax(x[0], axis) : softmax(x[0], axis);
        };
        const auto loops = [=](const std::vector<Tensor>& x) {
          return from_entries(shape, [&](Index index) {
            const long double self = at(x[0], index);
            long double sum = 0;
            for (index[along] = 0; index[along] < shape[along]; ++index[along])
              sum += std::exp(at(x[0], index) - self);
            return is_log ? -std::log(sum) : 1 / sum;
          });
        };
        const auto near = [=](auto&, auto&, double expected) {
          return is_log ? error + kEpsilon * std::abs(expected) : 2 * error * expected;
        };
        table.add(concat(is_log ? "log_softmax along " : "softmax along ", axis), {{shape}}, op)
            .gives(loops, near);
      }
}

void add_permutations(OpTable& table) {
  const std::vector<std::vector<Shapes>> of_rank{{{Shape{}}},      {{{3}}},
                                                 {{{2, 3}}},       {{{2, 3, 2}}, {{2, 0, 3}}},
                                                 {{{2, 1, 3, 2}}}, {{{2, 1, 2, 3, 2}}}};
  const Shapes large_of_rank[] = {{}, {}, {{300, 301}}, {{40, 50, 60}}, {}, {}};
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank) {
    std::vector<int> axes(rank);
    std::iota(axes.begin(), axes.end(), 0);
    do {
      const auto op = [axes](Inputs x) { return permute(x[0], axes); };
      table.add(concat("permute by ", bracketed(axes)), of_rank[rank], large_of_rank[rank], op)
          .gives(permuted(axes));
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

void add_slices(OpTable& table) {
  struct Slice {
    Shape shape;
    int axis;
    std::ptrdiff_t begin, end;
    std::size_t step;
    std::vector<std::size_t> taken;  // indices of the axis that Python would take
  };
  for (const Slice& item :
       std::vector<Slice>{{{7}, 0, 0, kAxisEnd, 1, {0, 1, 2, 3, 4, 5, 6}},
                          {{7}, 0, 2, 5, 1, {2, 3, 4}},
                          {{7}, 0, -3, -1, 1, {4, 5}},
                          {{7}, -1, -7, 7, 2, {0, 2, 4, 6}},
                          {{7}, 0, 1, kAxisEnd, 3, {1, 4}},
                          {{7}, 0, 1, kAxisEnd, 100, {1}},
                          {{7}, 0, 1, kAxisEnd, std::numeric_limits<std::size_t>::max(), {1}},
                          {{7}, 0, 3, 3, 1, {}},
                          {{7}, 0, 7, kAxisEnd, 1, {}},
                          {{7}, 0, -3, 4, 2, {}},
                          {{7}, 0, 0, 0, 2, {}},
                          {{0}, 0, 0, kAxisEnd, 1, {}},
                          {{3, 4}, 0, 1, 3, 1, {1, 2}},
                          {{3, 4}, 1, 1, 3, 1, {1, 2}},
                          {{3, 4}, 1, 0, kAxisEnd, 2, {0, 2}},
                          {{3, 4}, 0, 0, kAxisEnd, 2, {0, 2}},
                          {{2, 5, 3}, 1, 1, -1, 2, {1, 3}},
                          {{2, 5, 3}, 2, -1, kAxisEnd, 1, {2}},
                          {{2, 5, 3}, -3, 0, 1, 1, {0}},
                          {{2, 0, 3}, 0, 1, 2, 1, {1}},
                          {{2, 0, 3}, 2, 0, kAxisEnd, 2, {0, 2}}})
    table
        .add(concat("slice of ", bracketed(item.shape), ", axis ", item.axis, ", ", item.begin,
                    " to ", item.end, " by ", item.step),
             {{item.shape}},
             [=](Inputs x) { return slice(x[0], item.axis, item.begin, item.end, item.step); })
        .gives([=](const std::vector<Tensor>& x) {
          const std::size_t axis = from_front(item.axis, item.shape.size());
          Shape sliced = item.shape;
          sliced[axis] = item.taken.size();
          return from_entries(sliced, [&](Index index) {
            index[axis] = item.taken[index[axis]];
            return at(x[0], index);
          });
        });
}

void add_joins(OpTable& table) {
  struct Parts {
    Shapes shapes;
    int axis;
  };
  for (const Parts& parts : std::vector<Parts>{{{{3}}, 0},
                                               {{{2}, {1}, {3}}, 0},
                                               {{{2, 3}, {1, 3}}, 0},
                                               {{{2, 3}, {2, 1}}, 1},
                                               {{{2, 3}, {2, 1}}, -1},
                                               {{{2, 1, 3}, {2, 2, 3}, {2, 1, 3}}, 1},
                                               {{{1, 2, 2}, {2, 2, 2}}, -3},
                                               {{{2, 0}, {2, 3}}, 1},
                                               {{{0, 2}, {0, 1}}, 1},
                                               {{{0}, {0}}, 0},
                                               {{{2, 3}, {2, 3}}, 0}})
    table
        .add(concat("concatenate along ", parts.axis), {parts.shapes},
             [=](Inputs x) { return concatenate(all(x), parts.axis); })
        .gives([=](const std::vector<Tensor>& x) {
          const std::size_t axis = from_front(parts.axis, x[0].dimension());
          Shape result = x[0].shape();
          for (std::size_t i = 1; i < x.size(); ++i) result[axis] += x[i].shape()[axis];
          return from_entries(result, [&](Index index) {
            std::size_t part = 0;
            for (; index[axis] >= x[part].shape()[axis]; ++part)
              index[axis] -= x[part].shape()[axis];
            return at(x[part], index);
          });
        });
  table
      .add("split, parts in another order", {{{2, 5}}},
           [](Inputs x) {
             const std::vector<Variable> parts = split(x[0], 2, -1);  // the last part has length 1
             return concatenate({parts.at(2), parts.at(0), parts.at(1)}, 1);
           })
      .gives([](const std::vector<Tensor>& x) {
        return from_entries({2, 5}, [&](const Index& i) {
          return at(x[0], {i[0], (i[1] + 4) % 5});
        });
      });
  for (const int along : {0, 1, 2, -1, -3})
    table
        .add(concat("stack along ", along), {{{2, 3}, {2, 3}}}, along == 1 ? kLargePair : Shapes(),
             [along](Inputs x) { return stack(all(x), along); })
        .gives([along](const std::vector<Tensor>& x) {
          const auto axis = static_cast<std::ptrdiff_t>(from_front(along, 3));
          Shape result = x[0].shape();
          result.insert(result.begin() + axis, x.size());
          return from_entries(result, [&](Index index) {
            const std::size_t part = index[from_front(along, 3)];
            index.erase(index.begin() + axis);
            return at(x[part], index);
          });
        });
}

// Adds ops that only change the shape.
void add_reshapes(OpTable& table) {
  const auto add = [&](const std::string& name, const Shape& from, const Shape& to,
                       const Function& op) {
    table.add(name, {{from}}, op).gives([to](const std::vector<Tensor>& x) {
      return reshaped(x[0], to);
    });
  };
  for (const Shapes& item : std::vector<Shapes>{{{}, {1, 1}},
                                                {{1}, {}},
                                                {{2, 3}, {3, 2}},
                                                {{2, 3}, {6}},
                                                {{12}, {2, 1, 3, 2}},
                                                {{0, 4}, {2, 0}}})
    add(concat("reshape to ", bracketed(item[1])), item[0], item[1],
        [to = item[1]](Inputs x) { return reshape(x[0], to); });
  for (const int axis : {1, -2})
    add(concat("squeeze ", axis), {2, 1, 3}, {2, 3},
        [axis](Inputs x) { return squeeze(x[0], axis); });
  add("split and joined", {2, 6}, {2, 6},
      [](Inputs x) { return concatenate(split(x[0], 2, 1), 1); });
  add("split into one part", {2, 3}, {2, 3}, [](Inputs x) { return split(x[0], 7, 0).at(0); });
  add("unsqueeze 0", {2, 3}, {1, 2, 3}, [](Inputs x) { return unsqueeze(x[0], 0); });
  add("unsqueeze -1", {2, 3}, {2, 3, 1}, [](Inputs x) { return unsqueeze(x[0], -1); });
}

void add_causal_unfolds(OpTable& table) {
  for (const std::size_t steps : {1, 2, 3, 6})
    table
        .add(concat("causal_unfold ", steps),
             {{{2, 4, 3}}, {{2, 1, 3}}, {{0, 4, 3}}, {{2, 0, 3}}, {{2, 4, 0}}}, {{3, 700, 20}},
             [steps](Inputs x) { return causal_unfold(x[0], steps); })
        .gives([steps](const std::vector<Tensor>& x) {
          const std::size_t width = x[0].shape()[2];
          Shape shape = x[0].shape();
          shape[2] *= steps;
          return from_entries(shape, [&](Index index) {  // oldest first
            const std::size_t back = steps - 1 - index[2] / width;
            if (index[1] < back) return 0.0;
            index[1] -= back;
            index[2] %= width;
            return at(x[0], index);
          });
        });
}

// Adds rotations with several widths, layouts and bases, from position 5 on.
void add_rotations(OpTable& table) {
  constexpr std::size_t kFirst = 5;
  for (const bool halves : {true, false})
    for (const std::size_t width : {2, 6, 8, 30, 32, 64, 66})
      for (const std::size_t columns :
           {std::size_t{0}, std::size_t{2}, width - width / 4 / 2 * 2}) {
        const std::size_t rotated = columns == 0 ? width : columns;
        const double base = columns == 0 ? 10000 : 500000;
        const auto positions = std::make_shared<RotaryTable>(
            kFirst + 150, width,
            RotaryOptions{.layout = halves ? RotaryLayout::kHalves : RotaryLayout::kInterleaved,
                          .base = base,
                          .columns = columns});
        const auto loops = [=](const std::vector<Tensor>& x) {
          return from_entries(x[0].shape(), [&](const Index& index) {
            const std::size_t column = index[2] % width, pairs = rotated / 2;
            if (column >= rotated) return at(x[0], index);
            const std::size_t pair = halves ? column % pairs : column / 2;
            const bool first = halves ? column < pairs : column % 2 == 0;
            const std::size_t apart = halves ? pairs : 1;
            Index other = index;
            other[2] = first ? index[2] + apart : index[2] - apart;
            const double angle = static_cast<double>(kFirst + index[1]) *
                                 std::pow(base, -2.0 * static_cast<double>(pair) / rotated);
            const double sine = first ? -std::sin(angle) : std::sin(angle);
            return at(x[0], index) * std::cos(angle) + at(x[0], other) * sine;
          });
        };
        table
            .add(concat("rotary of ", rotated, " columns of ", width, halves ? " in halves" : ""),
                 {{{2, 3, 2 * width}}}, width == 30 ? Shapes{{3, 150, 2 * width}} : Shapes(),
                 [=](Inputs x) { return rotary(x[0], *positions, 2, kFirst); })
            // The op rounds two factors, two products and a sum; all values are below 2.9.
            .gives(loops, [](auto&, auto&, double) { return 8 * kEpsilon; });
      }
}

void add_losses(OpTable& table) {
  struct Loss {
    Shape logits;
    Ids32 targets;
    CrossEntropyOptions options = {};
  };
  for (const Loss& item : std::vector<Loss>{
           {{5}, {3}},
           {{1, 5}, {0}},
           {{3, 4}, {0, 3, 2}},
           {{3, 4}, {1, 1, 1}, {.reduction = LossReduction::kSum}},
           {{2, 3, 37}, {36, 0, 5, 5, 20, 35}},
           {{2, 2, 2, 3}, {0, 1, 2, 0, 1, 2, 0, 1}, {.reduction = LossReduction::kSum}},
           {{4, 3}, {1, 2, 0, 2}, {.ignore_index = 2}},
           {{4, 3}, {1, -100, 0, -100}, {.ignore_index = -100}},
           {{4, 3}, {1, -100, 0, 2}, {.reduction = LossReduction::kSum, .ignore_index = -100}},
           {{4, 3}, {1, 2, 0, 1}, {.ignore_index = 7}},  // 7 does not occur
           {{2, 3}, {0, 0}, {.reduction = LossReduction::kSum, .ignore_index = 0}},
           {{2, 3}, {0, 0}, {.ignore_index = 0}},  // a mean of no losses is 0
           {{0, 3}, {}},
           {{4, 3}, {1, 2, 0, 1}, {.label_smoothing = 0.3}},
           {{4, 3},
            {1, -100, 0, 2},
            {.class_weights = Tensor{0.5, 2, 0},
            .target_weights = Tensor{3, 1, 0.25, 2},
            .label_smoothing = 0.1}},
           {{0, 3}, {}, {.reduction = LossReduction::kSum}},
           {{3, 1}, {0, 0, 0}},        // with one class, the loss is 0
           {{4, 3}, {1, -100, 0, 2}},  // -100 is ignored by default
           {{4, 3}, {1, 2, 0, 1}, {.class_weights = Tensor{0.5, 2, 0}}},
           {{2, 2, 3}, {1, -100, 0, 2}, {.target_weights = Tensor{{3, 1}, {0.25, 0}}}},
           {{3, 3},
            {1, 2, 0},
            {.reduction = LossReduction::kSum,
            .class_weights = Tensor{0.5, 2, 1},
            .target_weights = Tensor{3, 0.25, 1}}}}) {
    const std::size_t classes = item.logits.back();
    const bool mean = item.options.reduction == LossReduction::kMean;
    const auto loops = [=](const std::vector<Tensor>& x) {
      const auto& [reduction, ignored, of_class, of_target, smoothing] = item.options;
      long double total = 0, counted = 0;
      for (std::size_t row = 0; row < item.targets.size(); ++row) {
        if (item.targets[row] == ignored) continue;
        const real* logits = x[0].data() + row * classes;
        long double sum = 0;
        for (std::size_t k = 0; k < classes; ++k)
          sum += std::exp(static_cast<long double>(logits[k]) - logits[item.targets[row]]);
        const long double own = of_target ? of_target->data()[row] : 1;
        const long double weight = own * (of_class ? of_class->data()[item.targets[row]] : 1);
        total += (1 - smoothing) * weight * std::log(sum);
        for (std::size_t k = 0; k < classes; ++k)
          total += own * smoothing / classes * (of_class ? of_class->data()[k] : 1) *
                   (std::log(sum) + logits[item.targets[row]] - logits[k]);
        counted += weight;
      }
      return scalar(static_cast<real>(mean && counted > 0 ? total / counted : total));
    };
    // Σ exp(x − max) has a relative error of (4 / 2 + 2) epsilon from its exponentials, and of
    // epsilon / 2 from each addition. The relative error of the sum equals the absolute error of
    // its logarithm. Other operations are in double precision.
    const double a_row = (4 + static_cast<double>(classes) / 2) * kEpsilon;
    const double rows = mean ? 1 : 3 * static_cast<double>(item.targets.size());
    table
        .add(concat("cross_entropy of ", bracketed(item.targets)), {{item.logits}},
             [=, targets = ids({item.logits.begin(), item.logits.end() - 1}, item.targets)](
                 Inputs x) { return cross_entropy(x[0], targets, item.options); })
        .gives(loops, [=](auto&, auto&, double y) { return rows * a_row + y * kEpsilon; })
        .between(-4, 4);
  }
}

const std::vector<OpCase>& ops() {
  static const OpTable all = [] {
    OpTable table;
    for (const auto add : {add_plain_ops, add_selections, add_products, add_reductions,
                           add_softmaxes, add_permutations, add_slices, add_joins, add_reshapes,
                           add_causal_unfolds, add_rotations, add_losses})
      add(table);
    return table;
  }();
  return all.cases;
}

// --- The table is complete ----------------------------------------------------------------------

// Functions of the headers that need no case, and the reasons.
const std::map<std::string, std::string> kWithoutCase{
    {"alibi_bias", "takes no variables; see positions_test"},
    {"argmax", "returns ids, which have no gradient; see edges_test"},
    {"argmin", "returns ids, which have no gradient; see edges_test"},
    {"argsort", "returns ids, which have no gradient; see edges_test"},
    {"attention_weights", "has no gradient; see attention_test"},
    {"detach", "has no gradient; see edges_test"},
    {"generate", "returns ids, and takes a model"},
    {"nonzero", "returns ids, which have no gradient; see edges_test"},
    {"normal_table", "makes parameters"},
    {"one_hot", "takes no variables; see edges_test"},
    {"permuted", "takes no variables; part of permute"},
    {"read_rows", "has no gradient; part of embedding"},
    {"relative_rows", "part of attention with Shaw's tables"}};
// Functions that need no large shape, and the reasons.
const std::map<std::string, std::string> kWithoutLargeCase{{"negate", "works like subtract"},
                                                           {"split", "consists of slices"},
                                                           {"squeeze", "is a reshape"},
                                                           {"unsqueeze", "is a reshape"}};
const std::map<std::string, std::set<std::string>> kOperators{{"operator+", {"add"}},
                                                              {"operator-", {"subtract", "negate"}},
                                                              {"operator*", {"multiply"}},
                                                              {"operator/", {"divide"}}};

// Returns the ops of the headers: functions that return variables, tensors or ids, declared at the
// start of a line.
std::set<std::string> declared_ops() {
  static const std::regex declaration(
      R"((?:inline |static |\[\[nodiscard\]\] )*)"
      R"((?:Variable|std::vector<Variable>|Sorted|Tensor|Ids) (operator.|\w+)\(.*)");
  const std::filesystem::path sources = ROWGRAD_TEST_DATA "/../..";
  std::set<std::string> names;
  for (const char* const folder : {"core/ops", "layers"})
    for (const auto& file : std::filesystem::recursive_directory_iterator(sources / folder)) {
      if (file.path().extension() != ".hpp") continue;
      std::ifstream header(file.path());
      for (std::string line; std::getline(header, line);) {
        std::smatch name;
        if (!std::regex_match(line, name, declaration)) continue;
        const auto operators = kOperators.find(name[1]);
        if (operators != kOperators.end())
          names.insert(operators->second.begin(), operators->second.end());
        else
          names.insert(name[1]);
      }
    }
  return names;
}

TEST(OpTable, CoversTheOpsOfTheHeaders) {
  std::set<std::string> expected = declared_ops(), in_table, with_large_case;
  for (const auto& exempt : {kWithoutCase, kWithoutLargeCase})
    for (const auto& entry : exempt)
      EXPECT_TRUE(expected.contains(entry.first)) << "not declared in a header: " << entry.first;
  std::erase_if(expected, [](const std::string& op) { return kWithoutCase.contains(op); });
  for (const OpCase& item : ops()) {
    in_table.insert(op_of(item));
    if (!item.large.empty()) with_large_case.insert(op_of(item));
  }
  EXPECT_GE(expected.size(), 60U);
  EXPECT_EQ(in_table, expected);
  // Only large shapes use several threads.
  std::erase_if(expected, [](const std::string& op) { return kWithoutLargeCase.contains(op); });
  EXPECT_EQ(with_large_case, expected);
}

// --- The contracts ------------------------------------------------------------------------------

bool has_reference(const OpCase& item) { return item.reference != nullptr; }
bool has_large_shapes(const OpCase& item) { return !item.large.empty(); }
bool has_quotients(const OpCase& item) { return item.has_quotients; }

OP_TEST(MatchesLoops, OpCase, ops(), has_reference) {
  std::vector<Shapes> tried = item.small;
  if (!item.large.empty()) tried.push_back(item.large);
  for (const Shapes& shapes : tried) {
    const std::vector<Tensor> inputs = item.inputs(shapes);
    Random random(7);
    Tape tape(random);
    const Tensor expected = item.reference(inputs);
    expect_entries(
        item.op(inputs_on(tape, inputs)).value(), expected.shape(),
        [&](const Index& i) { return at(expected, i); },
        [&](const Index& i, double at_i) { return item.bound ? item.bound(inputs, i, at_i) : 0; },
        concat("shapes ", list_of(shapes)));
  }
}

OP_TEST(MatchesDifferenceQuotients, OpCase, ops(), has_quotients) {
  for (const Shapes& shapes : item.small)
    expect_gradients(item.op, item.inputs(shapes), concat("shapes ", list_of(shapes)));
}

bool are_equal(const Shapes& shapes) {
  return shapes.size() > 1 && std::ranges::count(shapes, shapes[0]) == std::ssize(shapes);
}
bool has_equal_shapes(const OpCase& item) { return std::ranges::any_of(item.small, are_equal); }

OP_TEST(AcceptsOneVariableForAllInputs, OpCase, ops(), has_equal_shapes) {
  for (const Shapes& shapes : item.small)
    if (are_equal(shapes))
      expect_gradients(
          [&](Inputs x) { return item.op(std::vector<Variable>(shapes.size(), x[0])); },
          item.inputs({shapes[0]}), concat("shapes ", list_of(shapes)));
}

// Returns the bits of the value and of all gradients.
std::string bits_on(int threads, const OpCase& item) {
  const Threads scope(threads);
  Random random(7);
  Tape tape(random);
  const std::vector<Variable> in = inputs_on(tape, item.inputs(item.large));
  const Variable y = item.op(in);
  const Tensor value = y.value();
  tape.backward(y, irregular(y.shape(), 9));
  StateDict all;
  all.put("value", value);
  for (std::size_t i = 0; i < in.size(); ++i)
    all.put(concat(i), Gradient(tape.gradient(in[i])).take_dense());
  return bits_of(all);
}

OP_TEST(GivesTheSameBitsOnAnyNumberOfThreads, OpCase, ops(), has_large_shapes) {
  const std::string expected = bits_on(1, item);
  for (const int threads : {2, 3}) EXPECT_TRUE(bits_on(threads, item) == expected) << threads;
}

OP_TEST(GivesTheSameBitsOnAnInferenceTape, OpCase, ops(), any_case) {
  const auto run = [&](Tape::Mode mode) {
    Random random(7);
    Tape tape(random, mode);
    const std::vector<Variable> in = inputs_on(tape, item.inputs(item.small[0]));
    const Variable y = item.op(in);
    EXPECT_EQ(y.needs_gradient(), mode == Tape::kGradient);
    StateDict all;
    all.put("value", y.value());
    return bits_of(all);
  };
  EXPECT_TRUE(run(Tape::kInference) == run(Tape::kGradient));
}

// Allocations fail in the second call, when there are gradients to add to.
OP_TEST(RecoversFromFailedAllocations, OpCase, ops(), has_large_shapes) {
  using Parameters = std::vector<std::unique_ptr<Parameter>>;
  const auto run = [&](const Parameters& parameters) {
    Random random(1);
    Tape tape(random);
    std::vector<Variable> in;
    for (const auto& parameter : parameters) in.push_back(tape.parameter(*parameter));
    tape.backward(weighted_sum(item.op(in)));
  };
  const auto make = [&] {
    auto parameters = std::make_unique<Parameters>();
    for (const Tensor& input : item.inputs(item.small[0]))
      parameters->push_back(std::make_unique<Parameter>("p", input));
    run(*parameters);
    return parameters;
  };
  const auto gradients = [](const Parameters& parameters) {
    std::vector<Tensor> all;
    for (const auto& parameter : parameters)
      all.push_back(Gradient(parameter->gradient()).take_dense());
    return all;
  };
  const auto twin = make();
  run(*twin);
  const std::vector<Tensor> expected = gradients(*twin);
  for_every_failure(make, run, [&](const Parameters& parameters, bool finished) {
    if (!finished) {
      for (const auto& parameter : parameters) parameter->zero_gradient();
      run(parameters);
      run(parameters);
    }
    EXPECT_TRUE(gradients(parameters) == expected);
  });
}

// Cases with PyTorch's results in golden/ops.json.
const std::set<std::string> kOfPyTorch{"amax",
                                       "amin",
                                       "attention",
                                       "attention of padded keys",
                                       "attention with a bias",
                                       "attention with a mask",
                                       "attention with Shaw's tables",
                                       "binary_cross_entropy",
                                       "binary_cross_entropy_with_logits",
                                       "binary_cross_entropy_with_logits, none",
                                       "binary_cross_entropy_with_logits, sum",
                                       "causal_attention of grouped keys",
                                       "binary_cross_entropy_with_logits, weighted",
                                       "causal_attention of padded keys",
                                       "causal_conv",
                                       "causal_conv, dilated",
                                       "ceil",
                                       "chunk",
                                       "cos",
                                       "cosine_similarity",
                                       "cross_entropy of probabilities",
                                       "cross_entropy of probabilities, none",
                                       "cross_entropy of probabilities, smoothed",
                                       "cross_entropy, all smooth",
                                       "cross_entropy, smoothed",
                                       "cross_entropy, smoothed, none",
                                       "cross_entropy, smoothed, sum",
                                       "cross_entropy, weighted, none",
                                       "cumprod",
                                       "cumsum",
                                       "cumsum of the last axis",
                                       "elu",
                                       "elu, alpha 0.3",
                                       "erf",
                                       "exp2",
                                       "expm1",
                                       "floor",
                                       "expand",
                                       "flip",
                                       "gather",
                                       "huber_loss",
                                       "huber_loss, delta 0.7, sum",
                                       "kl_div",
                                       "kl_div, log target, batch mean",
                                       "kl_div, none",
                                       "l1_loss",
                                       "l1_loss, none",
                                       "index_add",
                                       "index_select",
                                       "index_select from the end",
                                       "leaky_relu",
                                       "leaky_relu, slope 0.3",
                                       "linear_cross_entropy, none",
                                       "linear_cross_entropy, smoothed",
                                       "log10",
                                       "log1p",
                                       "log2",
                                       "log_sigmoid",
                                       "logsumexp",
                                       "logsumexp, axis 1 kept",
                                       "masked_select",
                                       "matmul by a vector",
                                       "matmul of a vector",
                                       "matmul of a vector and a stack",
                                       "matmul of two vectors",
                                       "max of all",
                                       "max, kept",
                                       "memory_gate",
                                       "min",
                                       "mish",
                                       "mse_loss",
                                       "mse_loss, none",
                                       "mse_loss, sum",
                                       "negative_sampling_loss",
                                       "negative_sampling_loss, shared",
                                       "nll_loss",
                                       "nll_loss, none",
                                       "norm",
                                       "norm of axis 0, kept",
                                       "pow, variable exponent",
                                       "outer",
                                       "pad",
                                       "prod",
                                       "prod of axis 1",
                                       "prod of rows, kept",
                                       "repeat",
                                       "rms_norm",
                                       "roll",
                                       "rotary of 6 columns of 8",
                                       "sampled_softmax_loss",
                                       "sampled_softmax_loss, shared",
                                       "round",
                                       "sign",
                                       "scatter",
                                       "scatter_add",
                                       "silu",
                                       "sin",
                                       "smooth_l1_loss, beta 0",
                                       "smooth_l1_loss, beta 0.7, none",
                                       "softplus",
                                       "sort",
                                       "sort, descending",
                                       "stddev",
                                       "stddev of the last axis",
                                       "tan",
                                       "trunc",
                                       "topk",
                                       "topk, smallest",
                                       "tril",
                                       "triu",
                                       "unbind",
                                       "var",
                                       "var, correction 0, kept",
                                       "vector_norm, largest",
                                       "vector_norm, order 0.5",
                                       "vector_norm, order 1",
                                       "vector_norm, order 3"};
bool is_of_pytorch(const OpCase& item) { return kOfPyTorch.contains(item.name); }

TEST(OpTable, CoversTheCasesOfPyTorch) {
  std::set<std::string> compared, in_table;
  for (const json& one : golden("ops.json")) compared.insert(one["op"]);
  EXPECT_EQ(compared, kOfPyTorch);
  for (const OpCase& item : ops())
    if (is_of_pytorch(item)) in_table.insert(item.name);
  EXPECT_EQ(in_table, kOfPyTorch);
}

// Ops whose values are compared neither with loops nor with PyTorch here, and the tests that check
// these values.
const std::map<std::string, std::string> kValuesElsewhere{
    {"embedding_add", "EmbeddingAdd.EqualsALookupAndASum"},
    {"embedding_bag", "EmbeddingBag.MatchesPyTorchInEveryModeWithEveryOption"},
    {"layer_norm", "Normalize.MatchesBasicOpsForEveryWidth"},
    {"masked_fill", "Ops/MaskedFill.HandlesEdgeCases/masked_fill"},
    {"t5_bias", "T5Bias.LooksUpTheBucketsOfDistances"},
    {"where", "Ops/Where.HandlesEdgeCases/where"}};

bool is_a_test(const std::string& name) {
  const auto& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i)
    for (int k = 0; k < all.GetTestSuite(i)->total_test_count(); ++k)
      if (name ==
          concat(all.GetTestSuite(i)->name(), '.', all.GetTestSuite(i)->GetTestInfo(k)->name()))
        return true;
  return false;
}

TEST(OpTable, ChecksTheValuesOfEveryOp) {
  std::set<std::string> unchecked;
  for (const OpCase& item : ops()) unchecked.insert(op_of(item));
  for (const OpCase& item : ops())
    if (has_reference(item) || is_of_pytorch(item)) unchecked.erase(op_of(item));
  std::set<std::string> elsewhere;
  for (const auto& entry : kValuesElsewhere) {
    elsewhere.insert(entry.first);
    EXPECT_TRUE(is_a_test(entry.second)) << entry.second;
  }
  EXPECT_EQ(unchecked, elsewhere);
}

// The tolerance covers the rounding of sums of up to 60 terms of at most 3, and the conversion of
// the sums to float.
OP_TEST(MatchesPyTorch, OpCase, ops(), is_of_pytorch) {
  constexpr double kTolerance = 100 * kEpsilon;
  static const json all = golden("ops.json");
  for (const json& one : all) {
    if (one["op"] != item.name) continue;
    Tape tape;
    std::vector<Variable> in;
    for (const json& input : one["inputs"]) in.push_back(tape.input(tensor_from(input)));
    const Variable y = item.op(in);
    expect_numbers(y.value(), tensor_from(one["output"]), kTolerance, "value");
    tape.backward(y, wave(y.shape(), 0.23, 0.4, 1));
    for (std::size_t i = 0; i < in.size(); ++i)
      expect_numbers(Gradient(tape.gradient(in[i])).take_dense(), tensor_from(one["gradients"][i]),
                     kTolerance, concat("gradient ", i, ", input ", one["inputs"].dump()));
  }
}

}  // namespace
