// Steps with row gradients against the same steps with dense gradients: random programs.

#include "tests/optim/lazy_rows.hpp"

namespace {

// One program in kShare is run: fewer under AddressSanitizer.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr std::uint32_t kShare = 12;
#else
constexpr std::uint32_t kShare = 1;
#endif

class Twins : public RowsAndDense<Optimizer> {
 public:
  Twins(const OptimizerCase& item, std::size_t rows, std::size_t width)
      : RowsAndDense(irregular({rows, width}), item.make), item_(item) {}

  void step(const RowGradient& gradient, bool with_dense) {
    give(gradient);
    if (with_dense) {
      table->zero_gradient();
      table->add_gradient(gradient.to_dense());
    }
    RowsAndDense::step();
  }

  void vary_options(std::mt19937& random) {
    std::mt19937 same = random;
    item_.vary(*optimizer, random);
    item_.vary(*dense_optimizer, same);
  }

  // Continues with new optimizers that have other options and the state of these.
  void change_optimizers(std::mt19937& random) {
    auto late = item_.make(*table);
    auto late_dense = item_.make(dense);
    late->load_state_dict(optimizer->state_dict());
    late_dense->load_state_dict(dense_optimizer->state_dict());
    optimizer = std::move(late);
    dense_optimizer = std::move(late_dense);
    vary_options(random);
  }

  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values) {
    table->assign_rows(ids, values);
    dense.assign_rows(ids, values);
  }

  // Through a checkpoint, into another parameter and another optimizer.
  void save_and_load() {
    const Tensor value = table->value();
    const Checkpoint state = optimizer->state_dict();
    const double rate = optimizer->learning_rate();
    optimizer.reset();
    table = std::make_unique<Parameter>("table", zeros(value.shape()));
    table->assign(value);
    optimizer = item_.make(*table);
    optimizer->set_learning_rate(rate);
    optimizer->load_state_dict(state);
  }

  void set_trainable(bool trainable) {
    table->set_trainable(trainable);
    dense.set_trainable(trainable);
  }

  void expect_equal(const Tensor& late, const Tensor& expected, double tolerance) {
    ASSERT_EQ(late.shape(), expected.shape());
    for (std::size_t i = 0; i < late.size(); ++i)
      ASSERT_NEAR(late.data()[i], expected.data()[i],
                  tolerance * std::max<double>(1, std::abs(expected.data()[i])))
          << i;
  }

  // On a tape: by a lookup, by a product with the whole table, and as its value.
  void look_up(std::span<const std::int32_t> ids, double tolerance) {
    Tape tape(Tape::inference);
    const Variable variable = tape.parameter(*table);
    ASSERT_EQ(variable.shape(), dense.shape());
    expect_equal(embedding(variable, to_ids(ids)).value(), dense.rows(ids), tolerance);
    if (ids.size() % 2 == 0) return;
    const Tensor& all = dense.value();
    Tensor identity = zeros({all.shape()[0], all.shape()[0]});
    for (std::size_t i = 0; i < all.shape()[0]; ++i) identity(i, i) = 1;
    expect_equal(matmul(tape.constant(identity), variable).value(), all, tolerance);
    expect_equal(variable.value(), all, tolerance);
  }

  void read_all(double tolerance) { expect_equal(table->value(), dense.value(), tolerance); }

 private:
  const OptimizerCase& item_;
};

// Programs differ only in their seeds.
std::vector<std::int32_t> some_of(std::size_t rows, std::uint32_t percent, std::mt19937& random) {
  std::vector<std::int32_t> ids;
  for (std::size_t row = 0; row < rows; ++row)
    if (random() % 100 < percent) ids.push_back(static_cast<std::int32_t>(row));
  return ids;
}

void run_program(const OptimizerCase& item, std::uint32_t seed, double tolerance) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t limit) { return random() % limit; };
  const std::size_t rows = 1 + below(9);
  const std::size_t width = 1 + below(11);
  Twins twins(item, rows, width);
  const auto some_rows = [&](std::uint32_t share) { return some_of(rows, share, random); };
  for (int action = 0; action < 60; ++action) {
    switch (below(17)) {
      case 0:
        twins.set_learning_rate(0.001 * (1 + below(100)));
        break;
      case 1:
        twins.read_all(tolerance);
        break;
      case 2:
        twins.save_and_load();
        break;
      case 3: {
        const auto ids = some_rows(40);
        twins.assign_rows(ids, irregular({ids.size(), width}, static_cast<int>(seed)));
        break;
      }
      case 4:
      case 5: {
        auto ids = some_rows(40);
        if (!ids.empty()) ids.push_back(ids.front());
        twins.look_up(ids, tolerance);
        break;
      }
      case 6:
        twins.set_trainable(false);  // and steps on, by which nothing changes
        twins.step(RowGradient({rows, width}, {0}, full({1, width}, 1)), false);
        twins.set_trainable(true);
        break;
      default: {
        // None, few or all rows; now and then so many steps that every momentum fades away.
        const std::uint32_t share = std::array{0U, 5U, 15U, 40U, 100U}[below(5)];
        const bool dense = below(12) == 0;
        const std::uint32_t count = below(60) == 0 ? 700 : 1 + below(8);
        for (std::uint32_t i = 0; i < count; ++i) {
          const auto ids = some_rows(share);
          const std::size_t size = ids.size();
          twins.step(RowGradient({rows, width}, ids,
                                 irregular({size, width}, action + static_cast<int>(i))),
                     dense);
        }
      }
    }
    if (::testing::Test::HasFatalFailure()) {
      ADD_FAILURE() << "program " << seed << ", action " << action;
      return;
    }
  }
  twins.read_all(tolerance);
}

class ExactRows : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(ExactRows, EqualTheDenseOptimizerAfterEveryRead) {
  // Double: a few thousand roundings of numbers of about one. Float: the quotients of Adam and its
  // kin pass on the relative error of a root of differences, some hundred times their own.
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 2e-3;
  for (std::uint32_t seed = 0; seed < 250 / kShare && !HasFailure(); ++seed)
    run_program(GetParam(), seed, tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ExactRows,
    ::testing::Values(optimizer<SGD>("sgd", {.learning_rate = 0.1}),
                      optimizer<SGD>("sgd_decay", {.learning_rate = 0.1, .weight_decay = 0.05}),
                      optimizer<SGD>("sgd_momentum", {.learning_rate = 0.1, .momentum = 0.9}),
                      optimizer<SGD>("sgd_everything", {.learning_rate = 0.1,
                                                        .momentum = 0.8,
                                                        .dampening = 0.3,
                                                        .weight_decay = 0.05,
                                                        .maximize = true}),
                      optimizer<SGD>("sgd_nesterov", {.learning_rate = 0.1,
                                                      .momentum = 0.9,
                                                      .nesterov = true,
                                                      .weight_decay = 0.01}),
                      optimizer<Adam>("adam", {.learning_rate = 0.05}),
                      optimizer<Adam>("adam_amsgrad", {.learning_rate = 0.05, .amsgrad = true}),
                      optimizer<Adam>("adam_decay", {.learning_rate = 0.05, .weight_decay = 0.1}),
                      optimizer<Adam>("adam_maximize", {.learning_rate = 0.05, .maximize = true}),
                      optimizer<Adam>("adam_short", {.beta1 = 0.3, .beta2 = 0.5}),
                      optimizer<Adam>("adam_slow_fading", {.beta1 = 0.9, .beta2 = 0.7}),
                      optimizer<Adam>("adam_without_fading", {.beta2 = -0.0}),
                      optimizer<AdamW>("adamw", {.learning_rate = 0.05}),
                      optimizer<AdamW>("adamw_amsgrad", {.learning_rate = 0.05,
                                                         .weight_decay = 0.5,
                                                         .amsgrad = true}),
                      optimizer<Adagrad>("adagrad", {.learning_rate = 0.1}),
                      optimizer<Adagrad>("adagrad_decay", {.learning_rate = 0.1,
                                                           .learning_rate_decay = 0.1,
                                                           .weight_decay = 0.1,
                                                           .initial_accumulator = 0.1}),
                      optimizer<RMSprop>("rmsprop", {}),
                      optimizer<RMSprop>("rmsprop_momentum", {.momentum = 0.9}),
                      optimizer<RMSprop>("rmsprop_centered", {.momentum = 0.5, .centered = true}),
                      optimizer<RMSprop>("rmsprop_decay", {.weight_decay = 0.1})),
    [](const auto& tested) { return tested.param.name; });

// --- Options that change ------------------------------------------------------------------------

// One of a few values.
template <class Value>
Value any(std::mt19937& random, std::initializer_list<Value> values) {
  return values.begin()[random() % values.size()];
}

void set_any(SgdOptions& options, std::mt19937& random) {
  options.momentum = any(random, {0.0, 0.5, 0.9});
  options.dampening = any(random, {0.0, 0.3});
  options.nesterov = options.momentum > 0 && options.dampening == 0 && any(random, {true, false});
}

template <class Options>
void set_any_of_adam(Options& options, std::mt19937& random) {
  options.beta1 = any(random, {0.0, 0.3, 0.5, 0.9});
  options.beta2 = any(random, {0.5, 0.9, 0.999});
  options.epsilon = any(random, {1e-8, 1e-4});
  options.amsgrad = any(random, {true, false});
}
void set_any(AdamOptions& options, std::mt19937& random) {
  set_any_of_adam(options, random);
  // With decay alone and a small epsilon, steps are ±learning_rate around zero: two dense runs that
  // are one rounding apart when options change may be 1e-6 apart in the end.
  if (options.weight_decay != 0) options.epsilon = 1e-2;
}
void set_any(AdamWOptions& options, std::mt19937& random) { set_any_of_adam(options, random); }

void set_any(AdagradOptions& options, std::mt19937& random) {
  options.learning_rate_decay = any(random, {0.0, 0.1});
  options.epsilon = any(random, {1e-10, 1e-4});
}

void set_any(RmsPropOptions& options, std::mt19937& random) {
  options.alpha = any(random, {0.5, 0.9, 0.99});
  options.epsilon = any(random, {1e-3, 1e-2});
  options.momentum = any(random, {0.0, 0.5, 0.9});
  // With decay alone, the deviation of a row would soon consist of rounding errors only.
  options.centered = options.weight_decay == 0 && any(random, {true, false});
}

template <class Made>
OptimizerCase changing(const char* name) {
  OptimizerCase made = optimizer<Made>(name, {});
  made.vary = [](Optimizer& varied, std::mt19937& random) {
    typename Made::Options options;
    options.learning_rate = any(random, {0.001, 0.05, 0.1});
    options.weight_decay = any(random, {0.0, 0.0, 0.1});
    options.maximize = any(random, {true, false});
    set_any(options, random);
    dynamic_cast<Made&>(varied).set_options(options);
  };
  return made;
}

// Rows are not looked up for a long time, neither before nor after options change.
void run_changing_program(const OptimizerCase& item, std::uint32_t seed, double tolerance) {
  std::mt19937 random(seed);
  constexpr std::size_t kRows = 4;
  constexpr std::size_t kWidth = 3;
  Twins twins(item, kRows, kWidth);
  twins.vary_options(random);
  for (int change = 0; change < 6; ++change) {
    const std::uint32_t share = any(random, {0U, 5U, 30U});
    const std::uint32_t most = any(random, {20U, 200U});
    const std::uint32_t count = any(random, {random() % most, 8 * (random() % (most / 8))});
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto ids = some_of(kRows, i == 0 ? 50 : share, random);
      const std::size_t size = ids.size();
      twins.step(RowGradient({kRows, kWidth}, ids,
                             irregular({size, kWidth}, change + static_cast<int>(i))),
                 random() % 200 == 0);
    }
    if (random() % 3 == 0) {
      twins.change_optimizers(random);
    } else {
      twins.vary_options(random);
    }
  }
  twins.read_all(tolerance);
}

class ChangingOptions : public ::testing::TestWithParam<OptimizerCase> {};

TEST_P(ChangingOptions, EqualTheDenseOptimizer) {
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 2e-3;
  for (std::uint32_t seed = 0; seed < 400 / kShare && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run_changing_program(GetParam(), seed, tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ChangingOptions,
                         ::testing::Values(changing<SGD>("sgd"), changing<Adam>("adam"),
                                           changing<AdamW>("adamw"), changing<Adagrad>("adagrad"),
                                           changing<RMSprop>("rmsprop")),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
