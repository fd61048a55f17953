// Steps with row gradients against the same steps with dense gradients: random programs.

#include "tests/test.hpp"

namespace {

// One program in kShare is run: fewer under AddressSanitizer.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr std::uint32_t kShare = 12;
#else
constexpr std::uint32_t kShare = 1;
#endif

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(Parameter&)> make;
  std::function<void(Optimizer&, std::mt19937&)> vary = {};  // sets all its options at random
};

void PrintTo(const Case& item, std::ostream* out) { *out << item.name; }

template <class Made, class Options>
Case optimizer(const char* name, const Options& options) {
  return {name, [options](Parameter& parameter) {
            return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
          }};
}

// The same training done in two ways: with row gradients and with dense ones.
class Twins {
 public:
  Twins(const Case& item, std::size_t rows, std::size_t width)
      : item_(item),
        lazy_(std::make_unique<Parameter>("table", irregular({rows, width}))),
        dense_("table", irregular({rows, width})),
        lazy_optimizer_(item.make(*lazy_)),
        dense_optimizer_(item.make(dense_)) {}

  void step(const RowGradient& gradient, bool lazy_is_dense) {
    lazy_->zero_gradient();
    dense_.zero_gradient();
    dense_.add_gradient(gradient.to_dense());
    if (lazy_is_dense) {
      lazy_->add_gradient(gradient.to_dense());
    } else {
      lazy_->add_gradient(gradient);
    }
    lazy_optimizer_->step();
    dense_optimizer_->step();
  }

  void set_learning_rate(double rate) {
    lazy_optimizer_->set_learning_rate(rate);
    dense_optimizer_->set_learning_rate(rate);
  }

  void vary_options(std::mt19937& random) {
    std::mt19937 same = random;
    item_.vary(*lazy_optimizer_, random);
    item_.vary(*dense_optimizer_, same);
  }

  // Continues with new optimizers that have other options and the state of these.
  void change_optimizers(std::mt19937& random) {
    auto late = item_.make(*lazy_);
    auto dense = item_.make(dense_);
    late->load_state_dict(lazy_optimizer_->state_dict());
    dense->load_state_dict(dense_optimizer_->state_dict());
    lazy_optimizer_ = std::move(late);
    dense_optimizer_ = std::move(dense);
    vary_options(random);
  }

  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values) {
    lazy_->assign_rows(ids, values);
    dense_.assign_rows(ids, values);
  }

  // Through a checkpoint, into another parameter and another optimizer.
  void save_and_load() {
    const Tensor value = lazy_->value();
    const Checkpoint state = lazy_optimizer_->state_dict();
    const double rate = lazy_optimizer_->learning_rate();
    lazy_optimizer_.reset();
    lazy_ = std::make_unique<Parameter>("table", zeros(value.shape()));
    lazy_->assign(value);
    lazy_optimizer_ = item_.make(*lazy_);
    lazy_optimizer_->set_learning_rate(rate);
    lazy_optimizer_->load_state_dict(state);
  }

  void expect_equal(const Tensor& late, const Tensor& dense, double tolerance) {
    ASSERT_EQ(late.shape(), dense.shape());
    for (std::size_t i = 0; i < late.size(); ++i)
      ASSERT_NEAR(late.data()[i], dense.data()[i],
                  tolerance * std::max<double>(1, std::abs(dense.data()[i])))
          << i;
  }

  // By a lookup on a tape.
  void look_up(std::span<const std::int32_t> ids, double tolerance) {
    Tape tape(Tape::inference);
    expect_equal(embedding(tape.parameter(*lazy_), to_ids(ids)).value(), dense_.rows(ids),
                 tolerance);
  }

  void read_all(double tolerance) { expect_equal(lazy_->value(), dense_.value(), tolerance); }

 private:
  const Case& item_;
  std::unique_ptr<Parameter> lazy_;
  Parameter dense_;
  std::unique_ptr<Optimizer> lazy_optimizer_;
  std::unique_ptr<Optimizer> dense_optimizer_;
};

// Programs differ only in their seeds.
std::vector<std::int32_t> some_of(std::size_t rows, std::uint32_t percent, std::mt19937& random) {
  std::vector<std::int32_t> ids;
  for (std::size_t row = 0; row < rows; ++row)
    if (random() % 100 < percent) ids.push_back(static_cast<std::int32_t>(row));
  return ids;
}

void run_program(const Case& item, std::uint32_t seed, double tolerance) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t limit) { return random() % limit; };
  const std::size_t rows = 1 + below(9);
  const std::size_t width = 1 + below(11);
  Twins twins(item, rows, width);
  const auto some_rows = [&](std::uint32_t share) { return some_of(rows, share, random); };
  for (int action = 0; action < 60; ++action) {
    switch (below(16)) {
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

class ExactRows : public ::testing::TestWithParam<Case> {};

TEST_P(ExactRows, EqualTheDenseOptimizerAfterEveryRead) {
  // Double: a few thousand roundings of numbers of about one. Float: the quotients of Adam and its
  // kin pass on the relative error of a root of differences, some hundred times their own.
  const double tolerance = sizeof(real) == 8 ? 1e-10 : 2e-3;
  for (std::uint32_t seed = 0; seed < 250 / kShare && !HasFailure(); ++seed)
    run_program(GetParam(), seed, tolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, ExactRows,
    ::testing::Values(
        optimizer<SGD>("sgd", SgdOptions{.learning_rate = 0.1}),
        optimizer<SGD>("sgd_decay", SgdOptions{.learning_rate = 0.1, .weight_decay = 0.05}),
        optimizer<SGD>("sgd_momentum", SgdOptions{.learning_rate = 0.1, .momentum = 0.9}),
        optimizer<SGD>("sgd_everything", SgdOptions{.learning_rate = 0.1,
                                                    .momentum = 0.8,
                                                    .dampening = 0.3,
                                                    .weight_decay = 0.05,
                                                    .maximize = true}),
        optimizer<SGD>("sgd_nesterov", SgdOptions{.learning_rate = 0.1,
                                                  .momentum = 0.9,
                                                  .nesterov = true,
                                                  .weight_decay = 0.01}),
        optimizer<Adam>("adam", AdamOptions{.learning_rate = 0.05}),
        optimizer<Adam>("adam_amsgrad", AdamOptions{.learning_rate = 0.05, .amsgrad = true}),
        optimizer<Adam>("adam_decay", AdamOptions{.learning_rate = 0.05, .weight_decay = 0.1}),
        optimizer<Adam>("adam_maximize", AdamOptions{.learning_rate = 0.05, .maximize = true}),
        optimizer<Adam>("adam_short", AdamOptions{.beta1 = 0.3, .beta2 = 0.5}),
        optimizer<Adam>("adam_slow_fading", AdamOptions{.beta1 = 0.9, .beta2 = 0.7}),
        optimizer<AdamW>("adamw", AdamWOptions{.learning_rate = 0.05}),
        optimizer<AdamW>("adamw_amsgrad",
                         AdamWOptions{.learning_rate = 0.05, .weight_decay = 0.5, .amsgrad = true}),
        optimizer<Adagrad>("adagrad", AdagradOptions{.learning_rate = 0.1}),
        optimizer<Adagrad>("adagrad_decay", AdagradOptions{.learning_rate = 0.1,
                                                           .learning_rate_decay = 0.1,
                                                           .weight_decay = 0.1,
                                                           .initial_accumulator = 0.1}),
        optimizer<RMSprop>("rmsprop", RmsPropOptions{}),
        optimizer<RMSprop>("rmsprop_momentum", RmsPropOptions{.momentum = 0.9}),
        optimizer<RMSprop>("rmsprop_centered", RmsPropOptions{.momentum = 0.5, .centered = true}),
        optimizer<RMSprop>("rmsprop_decay", RmsPropOptions{.weight_decay = 0.1})),
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
Case changing(const char* name) {
  Case made = optimizer<Made>(name, typename Made::Options{});
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
void run_changing_program(const Case& item, std::uint32_t seed, double tolerance) {
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

class ChangingOptions : public ::testing::TestWithParam<Case> {};

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
