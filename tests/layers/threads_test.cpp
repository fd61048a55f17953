// Uses models in several threads at once. See also tests/core/threads_test.cpp.

#include "tests/test.hpp"

namespace {

constexpr std::size_t kThreads = 4;

TEST(Threads, EvaluateOneModelConcurrently) {
  const Ids text = ids({2, 5}, {1, 2, 3, 4, 5, 29, 0, 7, 7, 8});
  for (const bool tied : {false, true}) {
    NextTokenModel model({.vocabulary = 30,
                          .context = 5,
                          .width = 8,
                          .positions = Positions::kSinusoidal,
                          .window = 2,
                          .hidden = {8},
                          .dropout = 0.25,
                          .tie_weights = tied},
                         Random(1));
    Adam adam(model.parameters());
    Random random(1);
    for (int step = 0; step < 20; ++step) {
      adam.zero_grad();
      Tape tape(random);
      tape.backward(model.loss(tape, text, text));
      adam.step();
    }
    model.eval();
    model.apply_deferred_steps();
    const auto evaluate = [&] {
      Tape tape(Tape::kInference);
      const Tensor logits = model.forward(tape, text).value();
      return std::pair(logits, model.loss(tape, text, text).item());
    };
    const auto expected = evaluate();
    const std::size_t parts = model.state_dict().names().size();
    at_once(kThreads, [&](std::size_t) {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(evaluate(), expected);
      EXPECT_EQ(model.state_dict().names().size(), parts);
    });
  }
}

TEST(Threads, LookUpRowsWithMaxNormConcurrently) {
  Random random(1);
  Embedding token(20, 4, random, {.max_norm = 1});
  EmbeddingBag bag(20, 4, random, {.max_norm = 1});
  const Ids all = ids({2, 4}, {0, 3, 3, 19, 5, 6, 7, 8});
  const auto forward = [&] {
    Tape tape(Tape::kInference);
    return std::pair(token.forward(tape, all).value(), bag.forward(tape, {all}).value());
  };
  forward();  // scales the rows down to max_norm
  const auto expected = forward();
  at_once(kThreads, [&](std::size_t) { EXPECT_EQ(forward(), expected); });
}

}  // namespace
