// The toy next-token model, step by step against PyTorch (float64) on The Verdict's tokens.

#include <numeric>

#include <gtest/gtest.h>

#include "tests/support/golden.hpp"
#include "tests/support/published_data.hpp"
#include <rowgrad/core/data/character_tokenizer.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/token_windows.hpp>
#include <rowgrad/core/ops/cross_entropy.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

using testing::golden;
using testing::wave;

// Double: the two programs add the same numbers in another order, some 1e4 of them a step. Float:
// 2^-24 a rounding, as REFERENCE allows.
constexpr double kRelative = sizeof(real) == 8 ? 1e-10 : 2e-5;

struct Toy {
  const char* file;
  bool characters;       // token ids are characters, else GPT-2 byte pairs
  bool dense_gradients;  // momentum and decay move every row
};

void PrintTo(const Toy& toy, std::ostream* out) { *out << toy.file; }

class ToyParity : public testing::PublishedData, public ::testing::WithParamInterface<Toy> {};

TEST_P(ToyParity, FollowsPyTorchStepByStep) {
  const Toy toy = GetParam();
  const auto reference = golden(toy.file);
  const auto number = [&](const char* key) { return reference[key].get<std::size_t>(); };
  const Ids ids = toy.characters ? CharacterTokenizer::from_text(verdict()).encode(verdict())
                                 : to_ids(verdict_ids());

  const bool learned = reference["positions"] == "learned";
  NextTokenModel model({.vocabulary = number("vocab"),
                        .context = number("context"),
                        .width = number("width"),
                        .positions = learned ? Positions::kLearned : Positions::kSinusoidal,
                        .dense_gradients = toy.dense_gradients},
                       Random(0));
  const Shape table = model.token.weight().shape();
  model.token.weight().assign(wave(table, 0.7, 0, 0.02));
  model.head.weight().assign(wave(table, 0.11, 2, 0.02));
  model.head.bias().assign(zeros({table[0]}));
  if (learned)
    model.position->weight().assign(wave(model.position->weight().shape(), 0.3, 1, 0.02));

  const auto& options = reference["sgd"];
  SGD sgd(model.parameters(), {.learning_rate = options["lr"],
                               .momentum = options.value("momentum", 0.0),
                               .nesterov = options.value("nesterov", false),
                               .weight_decay = options.value("weight_decay", 0.0)});
  DataLoader loader(TokenWindows(ids, {.context = number("context"), .stride = number("stride")}),
                    {.batch = number("batch"), .drop_last = true});
  ASSERT_EQ(loader.size(), number("batches_per_epoch"));

  const auto losses = reference["loss"].get<std::vector<double>>();
  const auto rows = reference["token_rows_with_gradient"].get<std::vector<std::size_t>>();
  for (std::size_t step = 0; step < losses.size();) {
    for (const Batch& batch : loader) {
      sgd.zero_grad();
      Tape tape;
      const Variable loss = cross_entropy(model.forward(tape, batch.inputs), batch.targets);
      tape.backward(loss);
      ASSERT_NEAR(loss.item(), losses[step], kRelative * losses[step]) << "step " << step;
      if (!toy.dense_gradients) {
        ASSERT_EQ(model.token.weight().gradient().rows().size(), rows[step]) << "step " << step;
      }
      sgd.step();
      if (++step == losses.size()) break;
    }
  }
  const Tensor& trained = model.token.weight().value();
  for (const auto& [id, values] : reference["token_row_after"].items())
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(trained(std::stoul(id), i), values[i].get<double>(), kRelative) << id << " " << i;
  // Sums of millions of rounded numbers of about 0.02: compared where rounding leaves something.
  if (sizeof(real) == 8) {
    const auto total = [](const Tensor& x) {
      return std::accumulate(x.data(), x.data() + x.size(), 0.0);
    };
    EXPECT_NEAR(total(trained), reference["token_table_sum_after"].get<double>(), 1e-9);
    EXPECT_NEAR(total(model.head.weight().value()),
                reference["head_weight_sum_after"].get<double>(), 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ToyParity,
                         ::testing::Values(Toy{"toy_gpt2.json", false, false},
                                           Toy{"toy_gpt2_small_width.json", false, false},
                                           Toy{"toy_char_sinusoidal.json", true, false},
                                           Toy{"toy_char_momentum.json", true, true},
                                           Toy{"toy_gpt2_momentum_decay.json", false, true},
                                           Toy{"toy_gpt2_nesterov.json", false, true}),
                         [](const auto& tested) {
                           const std::string file = tested.param.file;
                           return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace rowgrad
