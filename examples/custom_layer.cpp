// Extends rowgrad with two ops, a layer, a model and an optimizer, checks the gradients of the ops
// and the layer, and trains the model. Uses the double library, which makes the checks accurate.

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

// --- An op: a value and its backward rule -------------------------------------------------------
// [rule]
/// Returns the rows `ids` of a table, multiplied element-wise by gates [..., width].
Variable gated_rows(const Variable& gates, const Variable& table, const Ids& ids) {
  const Tensor rows = read_rows("gated_rows", table, ids);
  check_argument(gates.shape() == rows.shape(), "gated_rows: gates have shape ",
                 bracketed(gates.shape()), ", expected ", bracketed(rows.shape()));
  return record("gated_rows", {gates, table}, gates.read() * rows, [ids, rows](Backward& node) {
    node.slot(0).take(node.gradient() * rows);
    if (GradientSlot slot = node.slot(1)) {
      const Tensor values = node.gradient() * node.input(0);
      slot.take(RowGradient(node.input_shape(1), kernels::merge_rows(ids.storage(), values)));
    }
  });
}
// [rule]

// --- An element-wise op: a function of SIMD vectors, and its derivative -------------------------
// [pointwise]
/// Moves each element of x towards 0 by 1/2, but not past 0.
Variable softshrink(const Variable& x) {
  return pointwise(
      "softshrink", x,
      [](Simd v) { return select(v > 0.5, v - 0.5, select(v < -0.5, v + 0.5, 0)); },
      [](Simd g, Simd v, Simd) { return select(abs(v) > 0.5, g, 0); });
}
// [pointwise]

// --- A layer: its parameters are named members --------------------------------------------------
// [layer]
/// Scales rows to a learned length (Nguyen & Salazar 2019, "Transformers without Tears").
class ScaleNorm : public Layer {
 public:
  explicit ScaleNorm(real start) : length(*this, "length", full({1}, start)) {}

  Variable forward(const Variable& x) {
    return x / (norm(x, {-1}, KeepAxes::kYes) + real{1e-6}) * x.tape().parameter(length);
  }

  Parameter length;
};
// [layer]

// --- A model that uses the layer ----------------------------------------------------------------
// [model]
class NormedModel : public LanguageModel {
 public:
  NormedModel(std::size_t vocabulary, std::size_t context, std::size_t width, Random& random)
      : token(*this, "token", vocabulary, width, random, EmbeddingOptions{.kind = RowKind::kToken}),
        position(*this, "position", context, width, random),
        norm(*this, "norm", std::sqrt(static_cast<real>(width))),
        head(*this, "head", width, vocabulary, random) {}

  Variable hidden_states(Tape& tape, const Ids& ids) override {
    const Variable positions = position.rows(tape, ids.shape().back());
    return norm.forward(token.forward(tape, ids, positions));
  }
  Linear* output_layer() override { return &head; }
  std::size_t context() const override { return position.weight.shape()[0]; }
  std::size_t vocabulary() const override { return token.weight.shape()[0]; }

  Submodule<Embedding> token;
  Submodule<PositionalEmbedding> position;
  Submodule<ScaleNorm> norm;
  Submodule<Linear> head;
};
// [model]

// --- An optimizer: an update rule for whole tables and single rows ------------------------------
// [optimizer]
struct SignSgdOptions {
  double learning_rate = 1e-3;
  RowUpdates rows = RowUpdates::kExact;
};

/// w = w − learning_rate · sign(gradient) (Bernstein et al. 2018, "signSGD").
struct SignSgdRule : RuleDefaults {
  using Options = SignSgdOptions;
  static constexpr std::string_view kName = "SignSGD";

  real rate;
  static auto members(const SignSgdRule& rule) { return std::tie(rule.rate); }

  SignSgdRule(const SignSgdOptions& options, const StepNumber&)
      : rate(static_cast<real>(options.learning_rate)) {}

  template <class Number>
  void update(Number& w, const Number& gradient, std::array<Number, 0>&) const {
    w = w - rate * select(gradient > 0, 1, select(gradient < 0, -1, 0));
  }

  Deferral deferral() const { return Deferral::kNothing; }  // no gradient: no change
};
using SignSGD = RuleOptimizer<SignSgdRule>;
// [optimizer]

int main() {
  // [check]
  Random random(123);
  const Ids ids{4, 0, 4};
  const auto op_check =
      gradient_check([&](std::span<const Variable> in) { return gated_rows(in[0], in[1], ids); },
                     {random.normal({3, 2}), random.normal({5, 2})});
  std::cout << "gated_rows  " << op_check.message() << '\n';
  // [check]
  const auto pointwise_check =
      gradient_check([](std::span<const Variable> inputs) { return softshrink(inputs[0]); },
                     {random.normal({3, 4, 5})});
  std::cout << "softshrink  " << pointwise_check.message() << '\n';

  ScaleNorm layer(2);
  const Tensor x = random.normal({3, 5});
  const auto layer_check = gradient_check(
      [&](Tape& tape) { return layer.forward(tape.constant(x)); }, layer.parameters());
  std::cout << "ScaleNorm   " << layer_check.message() << "\n\n";
  if (!op_check.passed || !pointwise_check.passed || !layer_check.passed) return EXIT_FAILURE;

  const std::string text =
      "the cat sat on the mat and the dog sat on the log and the cat saw the dog";
  const auto tokenizer = CharacterTokenizer::from_text(text);
  DataLoader loader(TokenWindows(tokenizer.encode(text), {.context = 8, .stride = 1}),
                    {.batch = 8, .shuffle = true, .seed = 1});
  NormedModel model(tokenizer.size(), 8, 16, random);
  std::cout << model.summary() << '\n';

  SignSGD optimizer(model.parameters(), {.learning_rate = 0.01});
  TrainingRun run(
      {.model = model, .optimizer = optimizer, .loader = loader, .random = random, .epochs = 20});
  run.train();
  const std::vector<TrainingRecord>& history = run.history();
  for (const TrainingRecord& record : history)
    if (record.epoch % 5 == 0)
      std::cout << "epoch " << record.epoch << "  loss " << record.training_loss << '\n';
  const bool learned = history.back().training_loss < history.front().training_loss;
  return learned ? EXIT_SUCCESS : EXIT_FAILURE;
}
