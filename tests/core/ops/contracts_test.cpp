// What every op promises, for the ops in one table: the gradients of difference quotients,
// PyTorch's numbers, the same bits for any number of threads, all gradients or none where memory
// runs out, and arguments that are refused.

#include "tests/test.hpp"

namespace {

struct NamedOp {
  std::string name;
  Function op;
  std::vector<Shape> small;
  std::vector<Shape> large;  // where several threads work
  bool in_pytorch = true;    // in golden/ops.json, by its name
};

// Ids of any shape that are spread over so many, some of them twice.
Ids spread(const std::vector<std::size_t>& shape, std::size_t count) {
  Ids ids = Ids::from_shape(shape);
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids.data()[k] = static_cast<std::int32_t>((5 * k + k / 3) % count);
  return ids;
}

// Ids [x.shape[0], 4, x.shape[2]] into axis 1.
Ids picked(const Variable& x) { return spread({x.shape()[0], 4, x.shape()[2]}, x.shape()[1]); }

// Bags of four rows of a table, every row four times or so.
Bags bags_of(const Variable& table) { return {spread({table.shape()[0], 4}, table.shape()[0])}; }

Bags weighted_bags(Inputs in) {
  const Shape& shape = in[1].shape();
  return {.ids = spread({shape[0], shape[1]}, in[0].shape()[0]), .per_sample_weights = in[1]};
}

// A class for each row of logits, or of what has these logits.
Ids classes_of(const Variable& rows, std::size_t classes) {
  return spread({rows.shape()[0]}, classes);
}

AttentionOptions padded(const Variable& keys) {
  AttentionOptions options{.heads = 2};
  for (std::size_t i = 0; i < keys.shape()[0]; ++i)
    options.key_lengths.push_back(keys.shape()[1] - i * (keys.shape()[1] / 3));
  return options;
}

const std::vector<Shape> kMatrix{{3, 4}};
const std::vector<Shape> kLargeMatrix{{300, 257}};
const std::vector<Shape> kBlock{{2, 3, 5}};
const std::vector<Shape> kLargeBlock{{5, 130, 130}};
const std::vector<Shape> kPair{{2, 4}, {2, 4}};
const std::vector<Shape> kLargePair{{300, 257}, {300, 257}};
const std::vector<Shape> kRowAndMatrix{{4}, {2, 4}};
const std::vector<Shape> kLargeRowAndMatrix{{257}, {300, 257}};
const std::vector<Shape> kTable{{5, 3}};
const std::vector<Shape> kLargeTable{{3000, 67}};  // not a whole number of vector registers
const std::vector<Shape> kScaled{{3, 5}, {5}};
const std::vector<Shape> kLargeScaled{{700, 130}, {130}};
const std::vector<Shape> kTexts{{3, 7, 4}, {3, 7, 4}, {3, 7, 4}};
const std::vector<Shape> kLargeTexts{{3, 150, 40}, {3, 150, 40}, {3, 150, 40}};

const std::vector<NamedOp> kNamedOps{
    {"log1p", [](Inputs in) { return log1p(in[0] + 2.5); }, kMatrix, kLargeMatrix},
    {"sin", [](Inputs in) { return sin(in[0]); }, kMatrix, kLargeMatrix},
    {"cos", [](Inputs in) { return cos(in[0]); }, kMatrix, kLargeMatrix},
    {"log_sigmoid", [](Inputs in) { return log_sigmoid(in[0]); }, kMatrix, kLargeMatrix},
    {"softplus", [](Inputs in) { return softplus(in[0]); }, kMatrix, kLargeMatrix},
    {"leaky_relu", [](Inputs in) { return leaky_relu(in[0]); }, kMatrix, kLargeMatrix},
    {"leaky_relu, slope 0.3", [](Inputs in) { return leaky_relu(in[0], 0.3); }, kMatrix,
     kLargeMatrix},
    {"silu", [](Inputs in) { return silu(in[0]); }, kMatrix, kLargeMatrix},
    {"logsumexp", [](Inputs in) { return logsumexp(in[0]); }, kMatrix, kLargeMatrix},
    {"logsumexp, axis 1 kept", [](Inputs in) { return logsumexp(in[0], 1, KeepAxes::kYes); },
     kBlock, kLargeBlock},
    {"cumsum", [](Inputs in) { return cumsum(in[0], 1); }, kBlock, kLargeBlock},
    {"cumsum of the last axis", [](Inputs in) { return cumsum(in[0], -1); }, kMatrix, kLargeMatrix},
    {"min", [](Inputs in) { return min(in[0], 1); }, kBlock, kLargeBlock},
    {"var", [](Inputs in) { return var(in[0]); }, kMatrix, kLargeMatrix},
    {"var, correction 0, kept",
     [](Inputs in) {
       return var(in[0], {0, 2}, {.correction = 0, .keep = KeepAxes::kYes});
     },
     kBlock, kLargeBlock},
    {"stddev", [](Inputs in) { return stddev(in[0]); }, {{5}}, kLargeMatrix},
    {"stddev of the last axis", [](Inputs in) { return stddev(in[0], {-1}); }, kMatrix,
     kLargeMatrix},
    {"norm", [](Inputs in) { return norm(in[0]); }, kMatrix, kLargeMatrix},
    {"norm of axis 0, kept", [](Inputs in) { return norm(in[0], {0}, KeepAxes::kYes); }, kMatrix,
     kLargeMatrix},
    {"gather", [](Inputs in) { return gather(in[0], 1, picked(in[0])); }, kBlock, kLargeBlock},
    {"mse_loss", [](Inputs in) { return mse_loss(in[0], in[1]); }, kPair, kLargePair},
    {"mse_loss, sum", [](Inputs in) { return mse_loss(in[0], in[1], LossReduction::kSum); }, kPair,
     kLargePair},
    {"binary_cross_entropy_with_logits",
     [](Inputs in) { return binary_cross_entropy_with_logits(in[0], in[1]); }, kPair, kLargePair},
    {"binary_cross_entropy_with_logits, sum",
     [](Inputs in) { return binary_cross_entropy_with_logits(in[0], in[1], LossReduction::kSum); },
     kPair, kLargePair},
    {"attention",
     [](Inputs in) { return attention(in[0], in[1], in[2], {.heads = 2}); },
     {{3, 9, 4}, {3, 7, 4}, {3, 7, 4}},
     {{3, 200, 40}, {3, 150, 40}, {3, 150, 40}}},
    {"attention of padded keys",
     [](Inputs in) { return attention(in[0], in[1], in[2], padded(in[1])); }, kTexts, kLargeTexts},
    {"causal_attention of padded keys",
     [](Inputs in) { return causal_attention(in[0], in[1], in[2], padded(in[1])); }, kTexts,
     kLargeTexts},
    {"causal_attention with dropout and distance_bias",
     [](Inputs in) {
       return causal_attention(in[0], in[1], in[2],
                               {.heads = 2, .dropout_p = 0.3, .distance_bias = in[3]});
     },
     {{2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {2, 3}},
     {{3, 150, 40}, {3, 150, 40}, {3, 150, 40}, {2, 152}},
     false},
    {"add", [](Inputs in) { return in[0] + in[1]; }, kRowAndMatrix, kLargeRowAndMatrix, false},
    {"subtract", [](Inputs in) { return in[0] - in[1]; }, kRowAndMatrix, kLargeRowAndMatrix, false},
    {"multiply", [](Inputs in) { return in[0] * in[1]; }, kRowAndMatrix, kLargeRowAndMatrix, false},
    {"divide", [](Inputs in) { return in[0] / (in[1] + 2.5); }, kRowAndMatrix, kLargeRowAndMatrix,
     false},
    {"numbers on both sides", [](Inputs in) { return 2 - 3 / (-in[0] * 2 + 5); }, kMatrix,
     kLargeMatrix, false},
    {"exp", [](Inputs in) { return exp(in[0]); }, kMatrix, kLargeMatrix, false},
    {"tanh", [](Inputs in) { return tanh(in[0]); }, kMatrix, kLargeMatrix, false},
    {"sigmoid", [](Inputs in) { return sigmoid(in[0]); }, kMatrix, kLargeMatrix, false},
    {"relu", [](Inputs in) { return relu(in[0]); }, kMatrix, kLargeMatrix, false},
    {"gelu", [](Inputs in) { return gelu(in[0]); }, kMatrix, kLargeMatrix, false},
    {"gelu_tanh", [](Inputs in) { return gelu_tanh(in[0]); }, kMatrix, kLargeMatrix, false},
    {"dropout", [](Inputs in) { return dropout(in[0], 0.3); }, kMatrix, kLargeMatrix, false},
    {"sum along an axis", [](Inputs in) { return sum(in[0], {1}); }, kBlock, kLargeBlock, false},
    {"sum of two axes",
     [](Inputs in) {
       return sum(in[0], {0, 2});
     },
     kBlock, kLargeBlock, false},
    {"sums of two variables",
     [](Inputs in) { return sum(in[0]) + sum(in[1]); },
     {{3, 4}, {30, 4}},
     {{300, 257}, {700, 90}},
     false},
    {"mean", [](Inputs in) { return mean(in[0]); }, kMatrix, kLargeMatrix, false},
    {"mean along an axis", [](Inputs in) { return mean(in[0], {1}); }, kMatrix, kLargeMatrix,
     false},
    {"max", [](Inputs in) { return max(in[0], 1); }, kBlock, kLargeBlock, false},
    {"maximum", [](Inputs in) { return maximum(in[0], in[1]); }, kPair, kLargePair, false},
    {"softmax", [](Inputs in) { return softmax(in[0]); }, kMatrix, kLargeMatrix, false},
    {"softmax along axis 1", [](Inputs in) { return softmax(in[0], 1); }, kBlock, kLargeBlock,
     false},
    {"log_softmax", [](Inputs in) { return log_softmax(in[0]); }, kMatrix, kLargeMatrix, false},
    {"cross_entropy",
     [](Inputs in) { return cross_entropy(in[0], classes_of(in[0], in[0].shape()[1])); }, kMatrix,
     kLargeMatrix, false},
    {"linear_cross_entropy",
     [](Inputs in) {
       return linear_cross_entropy(in[0], in[1], in[2], classes_of(in[0], in[1].shape()[0]));
     },
     {{3, 4}, {7, 4}, {7}},
     {{300, 64}, {1132, 64}, {1132}},
     false},
    {"matmul",
     [](Inputs in) { return matmul(in[0], in[1]); },
     {{2, 3, 4}, {2, 4, 5}},
     {{3, 130, 70}, {3, 70, 90}},
     false},
    {"matmul by one matrix",
     [](Inputs in) { return matmul(in[0], in[1]); },
     {{2, 3, 4}, {4, 5}},
     {{3, 130, 70}, {70, 90}},
     false},
    {"matmul of many small matrices",
     [](Inputs in) { return matmul(in[0], in[1]); },
     {{6, 3, 4}, {6, 4, 5}},
     {{3, 8, 20, 30}, {8, 30, 40}},
     false},
    {"linear",
     [](Inputs in) { return linear(in[0], in[1], in[2]); },
     {{3, 4}, {5, 4}, {5}},
     {{300, 70}, {130, 70}, {130}},
     false},
    {"layer_norm",
     [](Inputs in) { return layer_norm(in[0], in[1], in[2]); },
     {{3, 5}, {5}, {5}},
     {{700, 130}, {130}, {130}},
     false},
    {"rms_norm", [](Inputs in) { return rms_norm(in[0], in[1]); }, kScaled, kLargeScaled, false},
    {"memory_gate",
     [](Inputs in) { return memory_gate(rms_norm(in[0], in[2]), rms_norm(in[1], in[3])); },
     {{3, 5}, {3, 5}, {5}, {5}},
     {{700, 130}, {700, 130}, {130}, {130}}},
    {"causal_conv",
     [](Inputs in) { return causal_conv(in[0], in[1]); },
     {{2, 7, 3}, {3, 2}},
     {{5, 130, 67}, {67, 2}}},
    {"causal_conv, dilated",
     [](Inputs in) { return causal_conv(in[0], in[1], 3); },
     {{2, 7, 3}, {3, 4}},
     {{5, 130, 67}, {67, 4}}},
    {"rotary",
     [](Inputs in) {
       static const RotaryTable small(7, 2), large(150, 20);
       return rotary(in[0], in[0].shape()[2] == 4 ? small : large, 2);
     },
     {{3, 7, 4}},
     {{3, 150, 40}},
     false},
    {"embedding",
     [](Inputs in) { return embedding(in[0], spread({5 * in[0].shape()[0]}, in[0].shape()[0])); },
     kTable, kLargeTable, false},
    {"embedding, dense gradient",
     [](Inputs in) {
       return embedding(in[0], spread({5 * in[0].shape()[0]}, in[0].shape()[0]),
                        {.dense_gradient = true});
     },
     kTable, kLargeTable, false},
    {"embedding of ids that rise",
     [](Inputs in) {
       const auto rows = static_cast<std::int32_t>(in[0].shape()[0]);
       return embedding(in[0], ids({3}, {1, 2, rows - 1}));
     },
     kTable, kLargeTable, false},
    {"embedding_add",
     [](Inputs in) {
       return embedding_add(in[0], spread({4, in[1].shape()[0]}, 5), in[1]);
     },
     {{5, 3}, {3, 3}},
     {{5, 67}, {700, 67}},
     false},
    {"a table in two ways",
     [](Inputs in) {
       return linear(embedding(in[0], spread({5, 2}, in[0].shape()[0])), in[0], in[1]);
     },
     {{5, 3}, {5}},
     {{130, 70}, {130}},
     false},
    {"embedding_bag, weighted sum",
     [](Inputs in) { return embedding_bag(in[0], weighted_bags(in), {.mode = BagMode::kSum}); },
     {{5, 3}, {3, 4}},
     {{3000, 67}, {2048, 8}},
     false},
    {"embedding_bag, mean",
     [](Inputs in) { return embedding_bag(in[0], bags_of(in[0]), {.mode = BagMode::kMean}); },
     kTable, kLargeTable, false},
    {"embedding_bag, max",
     [](Inputs in) { return embedding_bag(in[0], bags_of(in[0]), {.mode = BagMode::kMax}); },
     kTable, kLargeTable, false},
    {"reshape",
     [](Inputs in) {
       return reshape(in[0], {in[0].shape()[1], in[0].shape()[0]});
     },
     kMatrix, kLargeMatrix, false},
    {"transpose", [](Inputs in) { return transpose(in[0]); }, kBlock, kLargeBlock, false},
    {"permute",
     [](Inputs in) {
       return permute(in[0], {2, 0, 1});
     },
     kBlock, kLargeBlock, false},
    {"concatenate",
     [](Inputs in) {
       return concatenate({in[0], in[1]}, 1);
     },
     kPair, kLargePair, false},
    {"slice", [](Inputs in) { return slice(in[0], 1, 1, kAxisEnd, 2); }, kBlock, kLargeBlock,
     false},
    {"look_back",
     [](Inputs in) { return look_back(in[0], 3); },
     {{2, 4, 3}},
     {{3, 700, 20}},
     false},
};

std::vector<Tensor> irregular_inputs(const std::vector<Shape>& shapes) {
  std::vector<Tensor> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(irregular(shape, static_cast<int>(inputs.size()) + 1, -2, 2));
  return inputs;
}

TEST(NamedOps, HaveTheGradientsOfDifferenceQuotients) {
  for (const NamedOp& item : kNamedOps)
    expect_gradients(item.op, irregular_inputs(item.small), item.name);
}

// The bits of the value and of all gradients.
std::string bits_on(int threads, const NamedOp& item, const std::vector<Tensor>& inputs) {
  const Threads scope(threads);
  Random random(7);
  Tape tape(random);
  const std::vector<Variable> in = inputs_on(tape, inputs);
  const Variable y = item.op(in);
  const Tensor value = y.value();
  tape.backward(y, irregular(y.shape(), 9));
  Checkpoint all;
  all.put("value", value);
  for (std::size_t i = 0; i < in.size(); ++i)
    all.put(concat(i), Gradient(tape.gradient(in[i])).take_dense());
  return bits_of(all);
}

TEST(NamedOps, HaveTheSameBitsForAnyNumberOfThreads) {
  for (const NamedOp& item : kNamedOps) {
    const std::vector<Tensor> inputs = irregular_inputs(item.large);
    const std::string expected = bits_on(1, item, inputs);
    for (const int threads : {2, 3})
      EXPECT_TRUE(bits_on(threads, item, inputs) == expected) << item.name << threads;
  }
}

TEST(NamedOps, GiveTheSameBitsOnAnInferenceTape) {
  for (const NamedOp& item : kNamedOps) {
    const auto run = [&](Tape::Mode mode) {
      Random random(7);
      Tape tape(random, mode);
      const std::vector<Variable> in = inputs_on(tape, irregular_inputs(item.small));
      const Variable y = item.op(in);
      EXPECT_EQ(y.needs_gradient(), mode == Tape::gradient_mode) << item.name;
      Checkpoint all;
      all.put("value", y.value());
      return bits_of(all);
    };
    EXPECT_TRUE(run(Tape::inference) == run(Tape::gradient_mode)) << item.name;
  }
}

// Adds the gradients of an op to those that its parameters have.
class Training {
 public:
  explicit Training(const NamedOp& item) : op_(item.op) {
    for (const Tensor& input : irregular_inputs(item.small))
      parameters_.push_back(std::make_unique<Parameter>("p", input));
  }

  void run() {
    Random random(1);
    Tape tape(random);
    std::vector<Variable> in;
    for (const auto& parameter : parameters_) in.push_back(tape.parameter(*parameter));
    tape.backward(weighted_sum(op_(in)));
  }

  void forget() {
    for (const auto& parameter : parameters_) parameter->zero_gradient();
  }

  std::vector<Tensor> gradients() const {
    std::vector<Tensor> all;
    for (const auto& parameter : parameters_)
      all.push_back(Gradient(parameter->gradient()).take_dense());
    return all;
  }

 private:
  const Function& op_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
};

// In the second call, so that there are gradients to add to.
TEST(NamedOps, GiveTheSameGradientsAgainAfterMemoryRanOut) {
  std::vector<NamedOp> all = kNamedOps;
  all.push_back(
      {.name = "embedding, padded, dense gradient",
       .op =
           [](Inputs in) {
             return embedding(in[0], spread({2, 3}, 5), {.padding_idx = 1, .dense_gradient = true});
           },
       .small = kTable,
       .large = kLargeTable});
  for (const NamedOp& item : all) {
    SCOPED_TRACE(item.name);
    const auto make = [&] {
      auto training = std::make_unique<Training>(item);
      training->run();
      return training;
    };
    const auto twin = make();
    twin->run();
    const std::vector<Tensor> expected = twin->gradients();
    for_every_failure(
        make, [](Training& training) { training.run(); },
        [&](Training& training, bool finished) {
          if (!finished) {
            training.forget();
            training.run();
            training.run();
          }
          EXPECT_TRUE(training.gradients() == expected);
        });
  }
}

// Of each number: NaN for NaN, and otherwise within the rounding of sums of up to 60 terms of at
// most 3, which are rounded on their way into float, too.
void expect_number(const Tensor& got, const json& json, const std::string& what) {
  const Tensor expected = tensor_from(json);
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double a = got.data()[k];
    const double b = expected.data()[k];
    if (std::isfinite(b)) {
      EXPECT_NEAR(a, b, 100 * kEpsilon * std::max(1.0, std::abs(b))) << what << " at " << k;
    } else {
      EXPECT_TRUE(std::isnan(b) ? std::isnan(a) : a == b) << what << " at " << k << ": " << a;
    }
  }
}

TEST(NamedOps, GiveTheNumbersOfPyTorch) {
  std::set<std::string> compared;
  for (const json& item : golden("ops.json")) {
    const auto name = item["op"].get<std::string>();
    const auto op = std::find_if(kNamedOps.begin(), kNamedOps.end(),
                                 [&](const NamedOp& other) { return other.name == name; });
    ASSERT_NE(op, kNamedOps.end()) << name;
    compared.insert(name);
    Tape tape;
    std::vector<Variable> in;
    for (const json& input : item["inputs"]) in.push_back(tape.input(tensor_from(input)));
    const Variable y = op->op(in);
    expect_number(y.value(), item["output"], name);
    tape.backward(y, wave(y.shape(), 0.23, 0.4, 1));
    for (std::size_t i = 0; i < in.size(); ++i)
      expect_number(tape.gradient(in[i]).dense(), item["gradients"][i],
                    concat(name, ", gradient ", i, ", input ", item["inputs"].dump()));
  }
  for (const NamedOp& item : kNamedOps)
    EXPECT_EQ(compared.contains(item.name), item.in_pytorch) << item.name;
}

TEST(NamedOps, DetachStopsTheGradient) {
  Tape tape;
  const Variable x = tape.input(tensor({2}, {2, 3}));
  const Variable y = detach(x);
  EXPECT_FALSE(y.needs_gradient());
  EXPECT_EQ(y.value(), x.value());
  tape.backward(x * y, full({2}, 1));
  EXPECT_EQ(tape.gradient(x).dense(), x.value());
}

TEST(NamedOps, TakeNoValuesAsPyTorchDoes) {
  Tape tape;
  const Variable nothing = tape.input(zeros({2, 0}));
  EXPECT_EQ(logsumexp(nothing).value(), full({2}, -kInfinity));
  EXPECT_EQ(logsumexp(nothing, 0).shape(), Shape({0}));
  EXPECT_EQ(cumsum(nothing, 1).shape(), Shape({2, 0}));
  EXPECT_EQ(norm(nothing).value(), scalar(0));
  EXPECT_EQ(norm(nothing, {1}).value(), zeros({2}));
  EXPECT_EQ(mse_loss(nothing, nothing, LossReduction::kSum).value(), scalar(0));
  EXPECT_EQ(gather(tape.input(zeros({2, 3})), 1, ids({2, 0}, {})).shape(), Shape({2, 0}));
  EXPECT_EQ(causal_conv(tape.input(zeros({2, 0, 3})), tape.input(zeros({3, 2}))).shape(),
            Shape({2, 0, 3}));
  EXPECT_EQ(argmin(tape.input(zeros({0, 3})), 1).shape(), std::vector<std::size_t>({0}));
}

TEST(NamedOps, RefuseWhatDoesNotFit) {
  Tape tape;
  const Variable x = tape.input(zeros({2, 3}));
  const Variable nothing = tape.input(zeros({2, 0}));
  const Variable heads = tape.input(zeros({2, 5, 6}));
  EXPECT_INVALID("logsumexp: axis 2 is outside a rank of 2", logsumexp(x, 2));
  EXPECT_INVALID("cumsum: axis -3 is outside a rank of 2", cumsum(x, -3));
  EXPECT_INVALID("min: axis 1 of [2, 0] has no entries", min(nothing, 1));
  EXPECT_INVALID("argmin: axis 2 is outside a rank of 2", argmin(x, 2));
  EXPECT_INVALID("norm: axis 2 is outside a rank of 2", norm(x, {2}));
  EXPECT_INVALID("stddev: axis -3 is outside a rank of 2", stddev(x, {-3}));
  EXPECT_INVALID("var: 2 values with a correction of 2 leave nothing to divide by",
                 var(x, {0}, {.correction = 2}));
  EXPECT_INVALID("stddev: 0 values with a correction of 0 leave nothing to divide by",
                 stddev(nothing, {1}, {.correction = 0}));
  EXPECT_INVALID(
      "gather: ids have shape [2], x has [2, 3], expected as many axes, none of them longer, but "
      "axis 1",
      gather(x, 1, ids({2}, {0, 1})));
  EXPECT_INVALID(
      "gather: ids have shape [3, 1], x has [2, 3], expected as many axes, none of them longer, "
      "but axis 1",
      gather(x, 1, ids({3, 1}, {0, 1, 0})));
  EXPECT_INVALID("gather: id 3 at [1, 0] is outside axis -1 of [2, 3]",
                 gather(x, -1, ids({2, 1}, {0, 3})));
  EXPECT_INVALID("gather: id -1 at [0, 1] is outside axis 0 of [2, 3]",
                 gather(x, 0, ids({1, 2}, {0, -1})));
  EXPECT_INVALID(
      "causal_conv: x has shape [2, 3] and weight [2, 3], expected [..., length, width] and "
      "[width, "
      "kernel] with a kernel above 0",
      causal_conv(x, x));
  EXPECT_INVALID(
      "causal_conv: x has shape [2, 5, 6] and weight [6, 0], expected [..., length, width] and "
      "[width, kernel] with a kernel above 0",
      causal_conv(heads, tape.input(zeros({6, 0}))));
  EXPECT_INVALID(
      "causal_conv: dilation is 0 for a kernel of 2, expected 1 or more, and to reach less than "
      "2^31 positions back",
      causal_conv(heads, tape.input(zeros({6, 2})), 0));
  EXPECT_INVALID(
      "causal_conv: dilation is 1073741824 for a kernel of 2, expected 1 or more, and to reach "
      "less than 2^31 positions back",
      causal_conv(heads, tape.input(zeros({6, 2})), std::size_t{1} << 30));
  EXPECT_INVALID("mse_loss: input has shape [2, 3], target [3], expected the same",
                 mse_loss(x, tape.input(zeros({3}))));
  EXPECT_INVALID(
      "binary_cross_entropy_with_logits: input has shape [2, 3], target [3, 2], expected the "
      "same",
      binary_cross_entropy_with_logits(x, tape.input(zeros({3, 2}))));
  EXPECT_INVALID("mse_loss: there are no values, so there is no mean", mse_loss(nothing, nothing));
  EXPECT_INVALID(
      "attention: k has shape [2, 0, 6], expected [2, keys, 6] with no fewer keys than 1",
      attention(heads, tape.input(zeros({2, 0, 6})), tape.input(zeros({2, 0, 6})), {.heads = 2}));
  EXPECT_INVALID(
      "attention: distance_bias and relative are for causal_attention, where distances go back",
      attention(heads, heads, heads, {.heads = 2, .distance_bias = tape.input(zeros({2, 5}))}));
  EXPECT_INVALID(
      "attention: there are 1 key_lengths, expected one for each of the 2 rows of the batch",
      attention(heads, heads, heads, {.heads = 2, .key_lengths = {5}}));
  EXPECT_INVALID("causal_attention: key_lengths[1] is 6, expected 1 to the 5 keys",
                 causal_attention(heads, heads, heads, {.heads = 2, .key_lengths = {5, 6}}));
  EXPECT_INVALID("attention: key_lengths[0] is 0, expected 1 to the 5 keys",
                 attention(heads, heads, heads, {.heads = 2, .key_lengths = {0, 5}}));
}

// Also beside −∞, than which nothing is smaller.
TEST(NamedOps, PassNaNOnWhereverItStands) {
  for (const std::size_t width : {1U, 2U, 9U, 19U})
    for (std::size_t i = 0; i < width; ++i)
      for (const real others : {real{1}, -kInfinity}) {
        Tensor x = full({width}, others);
        x(i) = std::numeric_limits<real>::quiet_NaN();
        Tape tape(Tape::inference);
        EXPECT_TRUE(std::isnan(logsumexp(tape.constant(x)).item())) << width << ' ' << i;
      }
}

TEST(NamedOps, DoNotOverflowOnTheWay) {
  Tape tape;
  const auto huge = static_cast<real>(std::sqrt(std::numeric_limits<real>::max()) * 4);
  const auto tiny = static_cast<real>(std::sqrt(std::numeric_limits<real>::min()) / 4);
  for (const real unit : {huge, tiny}) {
    const Variable x = tape.input(tensor({2, 2}, {3 * unit, 4 * unit, 0, unit}));
    EXPECT_NEAR(norm(x, {1}).value()(0) / unit, 5, 10 * kEpsilon);
    EXPECT_NEAR(norm(tape.input(tensor({2}, {3 * unit, -4 * unit}))).item() / unit, 5,
                10 * kEpsilon);
  }
  const Tensor gradient =
      gradients_of([](Inputs in) { return norm(in[0]); }, {tensor({2}, {3 * huge, 4 * huge})})[0]
          .dense();
  EXPECT_NEAR(gradient(0) / gradient(1), 0.75, 10 * kEpsilon);
}

}  // namespace
