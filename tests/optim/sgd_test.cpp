#include "tests/test.hpp"

namespace {

// The rule of torch.optim.SGD, value by value in double.
struct Reference {
  std::vector<double> w, v;
  bool first = true;

  void step(const Tensor& gradient, const SgdOptions& options) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      double d = gradient.data()[i] + options.weight_decay * w[i];
      if (options.momentum != 0) {
        v[i] = first ? d : options.momentum * v[i] + (1 - options.dampening) * d;
        d = options.nesterov ? d + options.momentum * v[i] : v[i];
      }
      w[i] -= options.learning_rate * d;
    }
    first = false;
  }
};

TEST(Sgd, FollowsTheFormula) {
  for (const SgdOptions& options : std::vector<SgdOptions>{
           {.learning_rate = 0.1},
           {.learning_rate = 0.1, .weight_decay = 0.01},
           {.learning_rate = 0.1, .momentum = 0.9},
           {.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3},
           {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true},
           {.learning_rate = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01}}) {
    SCOPED_TRACE(concat("momentum ", options.momentum, ", dampening ", options.dampening,
                        ", nesterov ", options.nesterov, ", decay ", options.weight_decay));
    const std::size_t count = 37;  // whole vector registers and a rest
    Parameter w("w", irregular({count}));
    Reference reference{{w.value().begin(), w.value().end()}, std::vector<double>(count, 0)};
    SGD sgd({&w}, options);
    for (int step = 0; step < 5; ++step) {
      const Tensor gradient = irregular({count}, step + 1);
      sgd.zero_grad();
      w.add_gradient(gradient);
      sgd.step();
      reference.step(gradient, options);
    }
    // Some ten roundings of numbers below 4 in each of five steps.
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_NEAR(w.value()(i), reference.w[i], 5 * 10 * 4 * kEpsilon / 2) << i;
  }
}

TEST(Sgd, TouchesOnlyTheRowsThatHaveAGradient) {
  const std::size_t rows = 1000;
  Parameter table("table", irregular({rows, 5}));
  const Tensor before = table.value();
  SGD sgd({&table}, {.learning_rate = 0.5});
  Tape tape;
  tape.backward(sum(embedding(tape.parameter(table), ids({4}, {0, 999, 3, 999}))));
  sgd.step();
  for (std::size_t i = 0; i < table.value().size(); ++i) {
    const std::size_t row = i / 5;
    const real times = row == 999 ? 2 : row == 0 || row == 3 ? 1 : 0;
    EXPECT_EQ(table.value().data()[i], before.data()[i] - static_cast<real>(0.5) * times) << row;
  }
  sgd.zero_grad();
  EXPECT_TRUE(table.gradient().is_none());
}

TEST(Sgd, LeavesParametersWithoutAGradientAlone) {
  Parameter used("used", full({3}, 1));
  Parameter unused("unused", full({3}, 1));
  Parameter frozen("frozen", full({3}, 1));
  frozen.add_gradient(full({3}, 1));
  frozen.set_trainable(false);
  used.add_gradient(full({3}, 1));
  SGD sgd({&used, &unused, &frozen}, {.learning_rate = 0.5, .weight_decay = 0.1});
  const auto version = unused.version();
  sgd.step();
  EXPECT_EQ(unused.value(), full({3}, 1));
  EXPECT_EQ(unused.version(), version);
  EXPECT_EQ(frozen.value(), full({3}, 1));
  EXPECT_NE(used.value(), full({3}, 1));
}

TEST(Sgd, HasOptionsOfItsOwnForEachGroup) {
  Parameter slow("slow", full({2}, 1));
  Parameter fast("fast", full({2}, 1));
  SGD sgd({{.parameters = {&slow}, .options = {.learning_rate = 0.125}},
           {.parameters = {&fast}, .options = {.learning_rate = 0.5}}});
  const auto step = [&] {
    sgd.zero_grad();
    slow.add_gradient(full({2}, 1));
    fast.add_gradient(full({2}, 1));
    sgd.step();
  };
  step();
  EXPECT_EQ(slow.value()(0), static_cast<real>(0.875));
  EXPECT_EQ(fast.value()(0), static_cast<real>(0.5));
  sgd.set_options({.learning_rate = 0.25}, 1);
  EXPECT_EQ(sgd.options(1).learning_rate, 0.25);
  step();
  EXPECT_EQ(slow.value()(0), static_cast<real>(0.75));
  EXPECT_EQ(fast.value()(0), static_cast<real>(0.25));
  EXPECT_THROW(sgd.set_options({}, 2), std::invalid_argument);
}

TEST(Sgd, RefusesAStateThatDoesNotFit) {
  Parameter w("w", full({2}, 1));
  SGD sgd({&w}, {.momentum = 0.9});
  Checkpoint fits;
  fits.put("w.step", 1);
  fits.put("w.momentum", zeros({2}));
  const auto message = [&](const Checkpoint& state) {
    return error_of<std::invalid_argument>([&] { sgd.load_state_dict(state); });
  };
  EXPECT_EQ(message(with(fits, "w.momentum", zeros({3}))),
            "Checkpoint: \"w.momentum\" has shape [3], expected [2]");
  EXPECT_EQ(message(with(fits, "w.momentum", "zeros")),
            "Checkpoint: \"w.momentum\" is not a tensor");
  EXPECT_EQ(message(with(fits, "other.momentum", zeros({2}))),
            "SGD::load_state_dict: there is no parameter for \"other.momentum\"");
  EXPECT_EQ(message(without(fits, "w.step")), "Checkpoint: \"w.step\" is missing");
  EXPECT_EQ(sgd.state_dict().integer("w.step"), 0);
  EXPECT_EQ(message(fits), "no error");
  EXPECT_EQ(sgd.state_dict().names(), (std::vector<std::string>{"w.momentum", "w.step"}));
  Parameter same("w", full({2}, 1));
  SGD ambiguous({&w, &same}, {.momentum = 0.9});
  EXPECT_INVALID("SGD::load_state_dict: two parameters are named w", ambiguous.load_state_dict({}));
  EXPECT_INVALID("SGD::state_dict: two parameters are named w", ambiguous.state_dict());
}

}  // namespace
