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

// The same gradient twice: that of the rows, and that of the whole table.
inline void give(Parameter& table, Parameter& dense, const RowGradient& rows) {
  table.zero_gradient();
  table.add_gradient(rows);
  dense.zero_gradient();
  dense.add_gradient(rows.to_dense());
}

// The same training of a table with row gradients and of another with dense ones.
template <class Made>
struct RowsAndDense {
  RowsAndDense(const Tensor& start, const typename Made::Options& options)
      : table("table", start),
        dense("dense", start),
        optimizer({&table}, options),
        dense_optimizer({&dense}, options) {}

  void both(const auto& call) {
    call(optimizer);
    call(dense_optimizer);
  }
  void step() {
    both([](Optimizer& each) { each.step(); });
  }
  void step(const RowGradient& rows) {
    give(table, dense, rows);
    step();
  }
  void set_learning_rate(double rate) {
    both([rate](Optimizer& each) { each.set_learning_rate(rate); });
  }

  Parameter table, dense;
  Made optimizer, dense_optimizer;
};

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
