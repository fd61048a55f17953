// Steps with row gradients against the same steps with dense gradients: random programs.

#include <functional>
#include <memory>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/tensors.hpp"
#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/optim/adagrad.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/rmsprop.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

using testing::irregular;

struct Case {
  const char* name;
  std::function<std::unique_ptr<Optimizer>(Parameter&)> make;
};

void PrintTo(const Case& item, std::ostream* out) { *out << item.name; }

template <class Made, class Options>
Case optimizer(const char* name, const Options& options) {
  return {name, [options](Parameter& parameter) {
            return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
          }};
}

// One training, kept in two ways.
class Twins {
 public:
  Twins(const Case& item, std::size_t rows, std::size_t width)
      : item_(item),
        late_(std::make_unique<Parameter>("table", irregular({rows, width}))),
        dense_("table", irregular({rows, width})),
        late_optimizer_(item.make(*late_)),
        dense_optimizer_(item.make(dense_)) {}

  void step(const RowGradient& gradient, bool late_is_dense) {
    late_->zero_gradient();
    dense_.zero_gradient();
    dense_.add_gradient(gradient.to_dense());
    if (late_is_dense) {
      late_->add_gradient(gradient.to_dense());
    } else {
      late_->add_gradient(gradient);
    }
    late_optimizer_->step();
    dense_optimizer_->step();
  }

  void set_learning_rate(double rate) {
    late_optimizer_->set_learning_rate(rate);
    dense_optimizer_->set_learning_rate(rate);
  }

  void assign_rows(std::span<const std::int32_t> ids, const Tensor& values) {
    late_->assign_rows(ids, values);
    dense_.assign_rows(ids, values);
  }

  // Through a checkpoint, into another parameter and another optimizer.
  void save_and_load() {
    const Tensor value = late_->value();
    const auto state = late_optimizer_->state();
    const double rate = late_optimizer_->learning_rate();
    late_optimizer_.reset();
    late_ = std::make_unique<Parameter>("table", zeros(value.shape()));
    late_->assign(value);
    late_optimizer_ = item_.make(*late_);
    late_optimizer_->set_learning_rate(rate);
    late_optimizer_->load_state(state);
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
    expect_equal(embedding(tape.parameter(*late_), to_ids(ids)).value(), dense_.rows(ids),
                 tolerance);
  }

  void read_all(double tolerance) { expect_equal(late_->value(), dense_.value(), tolerance); }

 private:
  const Case& item_;
  std::unique_ptr<Parameter> late_;
  Parameter dense_;
  std::unique_ptr<Optimizer> late_optimizer_;
  std::unique_ptr<Optimizer> dense_optimizer_;
};

// Programs differ by their seed alone.
void run_program(const Case& item, std::uint32_t seed, double tolerance) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t limit) { return random() % limit; };
  const std::size_t rows = 1 + below(9);
  const std::size_t width = 1 + below(11);
  Twins twins(item, rows, width);
  const auto some_rows = [&](std::uint32_t share) {
    std::vector<std::int32_t> ids;
    for (std::size_t row = 0; row < rows; ++row)
      if (below(100) < share) ids.push_back(static_cast<std::int32_t>(row));
    return ids;
  };
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
  for (std::uint32_t seed = 0; seed < 250 && !HasFailure(); ++seed)
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

}  // namespace
}  // namespace rowgrad
