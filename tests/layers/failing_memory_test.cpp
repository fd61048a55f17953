// A model that is trained and loaded while memory runs out: each call finishes or does nothing.

#include "tests/test.hpp"

namespace {

using Numbers = std::map<std::string, Tensor>;

const std::vector<NextTokenOptions>& models() {
  static const std::vector<NextTokenOptions> all{
      {.vocabulary = 9, .width = 4, .look_back = 2, .hidden = {5}},
      {.vocabulary = 9, .width = 4, .positions = Positions::kSinusoidal, .tie_weights = true},
  };
  return all;
}

// A model and its optimizer, which holds the values of the tables because of momentum.
struct Training {
  explicit Training(const NextTokenOptions& options, int steps = 2) : model(options, Random(1)) {
    for (int i = 0; i < steps; ++i) step();
  }

  void add_gradients() {
    Tape tape;
    tape.backward(model.loss(tape, ids, targets));
  }

  void step() {
    sgd.zero_grad();
    add_gradients();
    sgd.step();
  }

  // All values, bit by bit.
  std::string numbers() const { return bits_of(model.state_dict()); }

  Numbers gradients() const {
    Numbers all;
    for (const Parameter* parameter : model.parameters())
      if (!parameter->gradient().is_none())
        all[parameter->name()] = Gradient(parameter->gradient()).take_dense();
    return all;
  }

  Ids ids = rowgrad::testing::ids({2, 3}, {4, 0, 1, 4, 8, 3});
  Ids targets = rowgrad::testing::ids({2, 3}, {0, 1, 4, 8, 3, 3});
  NextTokenModel model;
  SGD sgd{model.parameters(), {.learning_rate = 0.5, .momentum = 0.9}};
};

TEST(FailingMemory, LeavesForwardAndBackwardAllOrNothing) {
  for (const NextTokenOptions& options : models()) {
    const auto make = [&] {
      auto training = std::make_unique<Training>(options);
      training->add_gradients();
      return training;
    };
    const auto twin = make();
    const Numbers before = twin->gradients();
    twin->add_gradients();
    const Numbers after = twin->gradients();
    twin->sgd.step();
    twin->step();
    const std::string at_the_end = twin->numbers();
    for_every_failure(
        make, [](Training& training) { training.add_gradients(); },
        [&](Training& training, bool finished) {
          EXPECT_EQ(training.gradients(), finished ? after : before);
          if (!finished) training.add_gradients();
          training.sgd.step();
          training.step();
          EXPECT_TRUE(training.numbers() == at_the_end);
        });
  }
}

TEST(FailingMemory, LeavesClippingAllOrNothing) {
  const auto make = [] {
    auto training = std::make_unique<Training>(models()[0]);
    training->add_gradients();
    return training;
  };
  const auto clip = [](Training& training) { clip_grad_norm(training.model.parameters(), 0.1); };
  const auto twin = make();
  const Numbers before = twin->gradients();
  clip(*twin);
  const Numbers after = twin->gradients();
  for_every_failure(make, clip, [&](const Training& training, bool finished) {
    EXPECT_EQ(training.gradients(), finished ? after : before);
  });
}

TEST(FailingMemory, IsNotNeededToForgetGradients) {
  Training training(models()[0]);
  const FailingAllocations failing(1);
  training.sgd.zero_grad();
  EXPECT_FALSE(failing.any_failed());
}

TEST(FailingMemory, LeavesTheModelsStateWhole) {
  for (const NextTokenOptions& options : models()) {
    const std::string expected = Training(options).numbers();
    struct Reading : Training {
      using Training::Training;
      Checkpoint found;
    };
    for_every_failure([&] { return std::make_unique<Reading>(options); },
                      [](Reading& reading) { reading.found = reading.model.state_dict(); },
                      [&](Reading& reading, bool finished) {
                        EXPECT_TRUE(bits_of(reading.found) == (finished ? expected : ""));
                        EXPECT_TRUE(reading.numbers() == expected);
                      });
  }
}

TEST(FailingMemory, LeavesLoadingAllOrNothing) {
  for (const NextTokenOptions& options : models()) {
    const std::string before = Training(options).numbers();
    const Checkpoint state = Training(options, 5).model.state_dict();
    Checkpoint loaded;  // buffers change too
    for (const std::string& name : state.names())
      loaded.put(name, Tensor(std::get<Tensor>(state.at(name)) + 1));
    for_every_failure([&] { return std::make_unique<Training>(options); },
                      [&](Training& training) { training.model.load_state_dict(loaded); },
                      [&](const Training& training, bool finished) {
                        EXPECT_TRUE(training.numbers() == (finished ? bits_of(loaded) : before));
                      });
  }
}

}  // namespace
