// The toy next-token model, step by step against PyTorch (float64, dense gradients) on The
// Verdict's tokens. Here the tables have row gradients, unless the head is tied to one.

#include "tests/test.hpp"

namespace {

// Double: the two programs add the same numbers in another order, some 1e4 of them a step. Float:
// 2^-24 a rounding.
constexpr double kParity = sizeof(real) == 8 ? 1e-10 : 2e-5;

// The optimizer of a golden file, all its options given by PyTorch's names.
std::unique_ptr<Optimizer> golden_optimizer(const json& reference,
                                            const std::vector<Parameter*>& parameters) {
  if (reference.contains("sgd")) {
    const auto& sgd = reference["sgd"];
    return std::make_unique<SGD>(parameters,
                                 SgdOptions{.learning_rate = sgd["lr"],
                                            .momentum = sgd.value("momentum", 0.0),
                                            .nesterov = sgd.value("nesterov", false),
                                            .weight_decay = sgd.value("weight_decay", 0.0)});
  }
  const std::string name = reference["optimizer"]["name"];
  const auto& options = reference["optimizer"]["options"];
  const auto adam = [&](auto chosen) {
    chosen.learning_rate = options["lr"];
    chosen.beta1 = options["betas"][0];
    chosen.beta2 = options["betas"][1];
    chosen.epsilon = options["eps"];
    chosen.weight_decay = options["weight_decay"];
    chosen.amsgrad = options["amsgrad"];
    chosen.maximize = options["maximize"];
    return chosen;
  };
  if (name == "adam") return std::make_unique<Adam>(parameters, adam(AdamOptions()));
  if (name == "adamw") return std::make_unique<AdamW>(parameters, adam(AdamWOptions()));
  if (name == "adagrad")
    return std::make_unique<Adagrad>(
        parameters, AdagradOptions{.learning_rate = options["lr"],
                                   .learning_rate_decay = options["lr_decay"],
                                   .weight_decay = options["weight_decay"],
                                   .initial_accumulator = options["initial_accumulator_value"],
                                   .epsilon = options["eps"],
                                   .maximize = options["maximize"]});
  if (name == "rmsprop")
    return std::make_unique<RMSprop>(parameters,
                                     RmsPropOptions{.learning_rate = options["lr"],
                                                    .alpha = options["alpha"],
                                                    .epsilon = options["eps"],
                                                    .weight_decay = options["weight_decay"],
                                                    .momentum = options["momentum"],
                                                    .centered = options["centered"],
                                                    .maximize = options["maximize"]});
  if (name != "sgd") throw std::runtime_error("no optimizer " + name);
  return std::make_unique<SGD>(parameters, SgdOptions{.learning_rate = options["lr"],
                                                      .momentum = options["momentum"],
                                                      .dampening = options["dampening"],
                                                      .nesterov = options["nesterov"],
                                                      .weight_decay = options["weight_decay"],
                                                      .maximize = options["maximize"]});
}

double total(const Tensor& x) { return std::accumulate(x.data(), x.data() + x.size(), 0.0); }

class ToyParity : public PublishedData, public ::testing::WithParamInterface<const char*> {};

TEST_P(ToyParity, FollowsPyTorchStepByStep) {
  const auto reference = golden(std::string("toy_") + GetParam() + ".json");
  const auto number = [&](const char* key) { return reference[key].get<std::size_t>(); };
  const Ids ids = std::string_view(GetParam()).starts_with("char")
                      ? CharacterTokenizer::from_text(verdict()).encode(verdict())
                      : to_ids(verdict_ids());

  const bool learned = reference["positions"] == "learned";
  const bool tied = reference.value("tied", false);
  NextTokenModel model({.vocabulary = number("vocab"),
                        .context = number("context"),
                        .width = number("width"),
                        .positions = learned ? Positions::kLearned : Positions::kSinusoidal,
                        .tie_weights = tied},
                       Random(0));
  const Shape table = model.token.weight.shape();
  model.token.weight.assign(wave(table, 0.7, 0, 0.02));
  if (!tied) model.head.weight.assign(wave(table, 0.11, 2, 0.02));
  model.head.bias->assign(zeros({table[0]}));
  if (learned) model.position->weight.assign(wave(model.position->weight.shape(), 0.3, 1, 0.02));

  const auto optimizer = golden_optimizer(reference, model.parameters());
  DataLoader loader(TokenWindows(ids, {.context = number("context"), .stride = number("stride")}),
                    {.batch = number("batch"), .drop_last = true});
  ASSERT_EQ(loader.size(), number("batches_per_epoch"));

  const auto losses = reference["loss"].get<std::vector<double>>();
  const auto rows = reference["token_rows_with_gradient"].get<std::vector<std::size_t>>();
  const auto rates = reference.value("learning_rates", std::vector<double>());
  const std::size_t batches_a_step = reference.value("accumulate", std::size_t{1});
  for (std::size_t batch_number = 0; batch_number < losses.size();) {
    for (const Batch& batch : loader) {
      const std::size_t step = batch_number / batches_a_step;
      if (batch_number % batches_a_step == 0) optimizer->zero_grad();
      Tape tape;
      // Two ways that must give the same result.
      const Variable loss =
          batch_number % 2 == 0
              ? model.loss(tape, batch)
              : cross_entropy(model.forward(tape, batch.inputs()), batch.targets());
      tape.backward(loss);
      const double expected = losses[batch_number];
      ASSERT_NEAR(loss.item(), expected, kParity * expected) << "batch " << batch_number;
      if (++batch_number % batches_a_step == 0) {
        const Gradient& gradient = model.token.weight.gradient();
        ASSERT_EQ(gradient.is_dense(), tied);
        if (!tied) {
          ASSERT_EQ(gradient.rows().size(), rows[step]) << "step " << step;
        }
        if (!rates.empty()) optimizer->set_learning_rate(rates[step]);
        optimizer->step();
      }
      if (batch_number == losses.size()) break;
    }
  }
  // Single rows first, while updates of the others are still postponed.
  for (const auto& [id, values] : reference["token_row_after"].items()) {
    const Tensor row = model.token.weight.rows(std::vector{std::stoi(id)});
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(row(0, i), values[i].get<double>(), kParity) << id << " " << i;
  }
  // Sums of millions of rounded values, which are meaningful only in double.
  if (sizeof(real) == 8) {
    const auto expect_total = [&](double found, const char* key) {
      const double expected = reference[key];
      EXPECT_NEAR(found, expected, 1e-9 * std::max(1.0, std::abs(expected))) << key;
    };
    const Tensor& trained = model.token.weight.value();
    expect_total(total(trained), "token_table_sum_after");
    if (!tied) expect_total(total(model.head.weight.value()), "head_weight_sum_after");
    if (reference.contains("token_table_square_sum_after"))
      expect_total(total(trained * trained), "token_table_square_sum_after");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, ToyParity,
    ::testing::Values("gpt2", "gpt2_small_width", "char_sinusoidal", "char_momentum",
                      "gpt2_momentum_decay", "gpt2_nesterov", "gpt2_adam", "gpt2_adamw",
                      "gpt2_adagrad", "gpt2_rmsprop", "gpt2_sgd_schedule", "gpt2_adamw_schedule",
                      "gpt2_adamw_accumulate", "char_sgd_dampening", "char_sgd_maximize",
                      "char_sgd_schedule", "char_sgd_tied", "char_adam_decay", "char_adam_amsgrad",
                      "char_adam_maximize", "char_adam_schedule", "char_adamw_amsgrad",
                      "char_adamw_tied", "char_adagrad_decay", "char_rmsprop_centered",
                      "char_rmsprop_decay"),
    [](const auto& tested) { return std::string("toy_") + tested.param; });

}  // namespace
