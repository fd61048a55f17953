#pragma once

// What the tests of lazy updates share: steps with made-up row gradients.

#include "tests/test.hpp"

namespace rowgrad::testing {

inline const SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
inline const AdamOptions kAdam{.learning_rate = 0.01};

inline RowGradient gradient(const Shape& table, std::vector<std::int32_t> rows, int seed = 0) {
  const std::size_t size = rows.size();
  return RowGradient(table, std::move(rows), irregular({size, table[1]}, seed));
}

inline void step(Optimizer& optimizer, Parameter& table, std::vector<std::int32_t> rows,
                 int seed = 0) {
  optimizer.zero_grad();
  table.add_gradient(gradient(table.shape(), std::move(rows), seed));
  optimizer.step();
}

using Optimizers = ::testing::Types<SGD, Adam, AdamW, RMSprop, Adagrad>;

template <class Made>
class OfEachOptimizer : public ::testing::Test {
 public:
  // Adam with decay in the gradient has no closed form; AdamW, where it is decoupled, has one.
  static typename Made::Options options() {
    return {.learning_rate = 0.01, .weight_decay = std::is_same_v<Made, Adam> ? 0 : 0.01};
  }
};

// The same training of a table with row gradients and of another with dense ones.
template <class Made>
struct RowsAndDense {
  using Make = std::function<std::unique_ptr<Made>(Parameter&)>;

  RowsAndDense(const Tensor& start, const Make& make)
      : table(std::make_unique<Parameter>("table", start)),
        dense("table", start),
        optimizer(make(*table)),
        dense_optimizer(make(dense)) {}

  RowsAndDense(const Tensor& start, const auto& options)
      : RowsAndDense(start, Make([&](Parameter& parameter) {
                       return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
                     })) {}

  void both(const auto& call) {
    call(*optimizer);
    call(*dense_optimizer);
  }
  void give(const RowGradient& rows) {
    table->zero_gradient();
    table->add_gradient(rows);
    dense.zero_gradient();
    dense.add_gradient(rows.to_dense());
  }
  void step() {
    both([](Optimizer& each) { each.step(); });
  }
  void step(const RowGradient& rows) {
    give(rows);
    step();
  }
  void set_learning_rate(double rate) {
    both([rate](Optimizer& each) { each.set_learning_rate(rate); });
  }

  void expect_equal(double tolerance) const {
    expect_near(table->value(), dense.value(), tolerance);
  }
  void expect_equal_rows(const std::vector<std::int32_t>& ids, double tolerance) const {
    expect_near(table->rows(ids), dense.rows(ids), tolerance);
  }

  std::unique_ptr<Parameter> table;
  Parameter dense;
  std::unique_ptr<Made> optimizer, dense_optimizer;
};

// An optimizer with options, of whatever kind, for tests that are run with each of many.
struct OptimizerCase {
  const char* name;
  RowsAndDense<Optimizer>::Make make;
  std::function<void(Optimizer&, std::mt19937&)> vary = {};  // sets all its options at random
};

inline void PrintTo(const OptimizerCase& item, std::ostream* out) { *out << item.name; }

template <class Made>
OptimizerCase optimizer(const char* name, const typename Made::Options& options) {
  return {name, [options](Parameter& parameter) {
            return std::make_unique<Made>(std::vector<Parameter*>{&parameter}, options);
          }};
}

// Steps with gradients of two rows each: never of row 0, and of row 1 only at first.
template <class Look>
void train(Optimizer& optimizer, Parameter& table, int from, int to, const Look& look) {
  const auto rows = static_cast<std::int32_t>(table.shape()[0]);
  for (int i = from; i < to; ++i) {
    const std::int32_t row = 2 + i % (rows - 3);
    step(optimizer, table,
         i < 5 ? std::vector<std::int32_t>{1, row} : std::vector<std::int32_t>{row, rows - 1}, i);
    look(i);
  }
}

// A table, up to date, and all that its optimizer keeps.
inline std::string bits_of(const Parameter& table, const Optimizer& optimizer) {
  Checkpoint all;
  all.put("table", table.value());
  all.put("optimizer", optimizer.state_dict());
  return bits_of(all);
}

// About twenty steps with a few roundings each, of values of about 1.
constexpr double kTwentySteps = 200 * kEpsilon;

}  // namespace rowgrad::testing
