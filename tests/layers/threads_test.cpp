// Models used by several threads at once: see tests/core/threads_test.cpp.

#include "tests/test.hpp"

namespace {

constexpr std::size_t kThreads = 4;

const NextTokenOptions kOptions{.vocabulary = 30,
                                .context = 5,
                                .width = 8,
                                .positions = Positions::kSinusoidal,
                                .look_back = 2,
                                .hidden = {12},
                                .dropout = 0.25};

const Ids& some_ids() {
  static const Ids all = ids({2, 5}, {1, 2, 3, 4, 5, 29, 0, 7, 7, 8});
  return all;
}

std::vector<real> train(NextTokenModel& model, Adam& adam, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<real> losses;
  for (int step = 0; step < 20; ++step) {
    adam.zero_grad();
    Tape tape(random);
    const Variable loss = model.loss(tape, some_ids(), some_ids());
    tape.backward(loss);
    adam.step();
    losses.push_back(loss.item());
  }
  return losses;
}

TEST(Threads, EvaluateASettledModelAtOnce) {
  for (const bool tied : {false, true}) {
    NextTokenOptions options = kOptions;
    options.tie_weights = tied;
    if (tied) options.hidden = {8};
    NextTokenModel model(options, Random(1));
    Adam adam(model.parameters());
    train(model, adam);
    model.eval();
    model.refresh_values();
    const auto evaluate = [&] {
      Tape tape(Tape::inference);
      const Tensor logits = model.forward(tape, some_ids()).value();
      return std::pair(logits, model.loss(tape, some_ids(), some_ids()).item());
    };
    const auto expected = evaluate();
    const std::size_t parts = model.state_dict().names().size();
    at_once(kThreads, [&](std::size_t) {
      for (int round = 0; round < 5; ++round) EXPECT_EQ(evaluate(), expected);
      EXPECT_EQ(model.state_dict().names().size(), parts);
      EXPECT_EQ(model.parameter_count(), model.trainable_parameter_count());
    });
    EXPECT_NO_THROW(train(model, adam));
  }
}

TEST(Threads, LookUpRowsWithinTheirNormAtOnce) {
  Random random(1);
  Embedding token(20, 4, random, {.max_norm = 1});
  EmbeddingBag bag(20, 4, random, {.max_norm = 1});
  const Ids all = ids({2, 4}, {0, 3, 3, 19, 5, 6, 7, 8});
  const auto forward = [&] {
    Tape tape(Tape::inference);
    return std::pair(token.forward(tape, all).value(), bag.forward(tape, {all}).value());
  };
  forward();  // brings the rows down to the norm
  const auto expected = forward();
  at_once(kThreads, [&](std::size_t) { EXPECT_EQ(forward(), expected); });
}

TEST(Threads, EachTrainAModelOfTheirOwn) {
  const auto run = [](std::size_t seed) {
    NextTokenModel model(kOptions, Random(seed));
    Adam adam(model.parameters());
    return train(model, adam, seed);
  };
  std::vector<std::vector<real>> alone;
  for (std::size_t i = 0; i < kThreads; ++i) alone.push_back(run(i));
  at_once(kThreads, [&](std::size_t i) { EXPECT_EQ(run(i), alone[i]); });
}

}  // namespace
