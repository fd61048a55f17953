// A model that is trained and loaded while memory runs out: each call finishes or does nothing, but
// for backward, after which gradients are made anew.

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

  Ids ids = rowgrad::testing::ids({2, 3}, {4, 0, 1, 4, 8, 3});
  Ids targets = rowgrad::testing::ids({2, 3}, {0, 1, 4, 8, 3, 3});
  NextTokenModel model;
  SGD sgd{model.parameters(), {.learning_rate = 0.5, .momentum = 0.9}};
};

Numbers gradients_of_all(const Training& training) {
  Numbers all;
  for (const Parameter* parameter : training.model.parameters())
    if (!parameter->gradient().is_none())
      all[parameter->name()] = Gradient(parameter->gradient()).take_dense();
  return all;
}

// A training whose next step has its gradients.
auto make_with_gradients(const NextTokenOptions& options) {
  auto training = std::make_unique<Training>(options);
  training->add_gradients();
  return training;
}

TEST(FailingMemory, LeavesForwardAndBackwardToBeMadeAgain) {
  for (const NextTokenOptions& options : models()) {
    const auto go_on = [](Training& training) {
      training.sgd.step();
      training.step();
      return training.numbers();
    };
    const auto make = [&] {
      auto training = std::make_unique<Training>(options);
      training->sgd.zero_grad();
      training->add_gradients();
      return training;
    };
    const auto twin = make();
    twin->add_gradients();
    const Numbers expected = gradients_of_all(*twin);
    const std::string at_the_end = go_on(*twin);
    for_every_failure(
        make, [](Training& training) { training.add_gradients(); },
        [&](Training& training, bool finished) {
          if (!finished) {
            training.sgd.zero_grad();
            training.add_gradients();
            training.add_gradients();
          }
          EXPECT_TRUE(gradients_of_all(training) == expected);
          EXPECT_TRUE(go_on(training) == at_the_end);
        });
  }
}

TEST(FailingMemory, LeavesClippingAllOrNothing) {
  expect_all_or_nothing(
      [] { return make_with_gradients(models()[0]); },
      [](Training& training) { clip_grad_norm(training.model.parameters(), 0.1); },
      gradients_of_all);
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
    const Checkpoint state = Training(options, 5).model.state_dict();
    Checkpoint loaded;  // buffers change too
    for (const std::string& name : state.names())
      loaded.put(name, Tensor(std::get<Tensor>(state.at(name)) + 1));
    Training other(options);
    other.model.load_state_dict(loaded);
    EXPECT_TRUE(other.numbers() == bits_of(loaded));
    expect_all_or_nothing([&] { return std::make_unique<Training>(options); },
                          [&](Training& training) { training.model.load_state_dict(loaded); },
                          [](const Training& training) { return training.numbers(); });
  }
}

}  // namespace
