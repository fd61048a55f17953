#pragma once

// Optimizers with names, and steps with made-up row gradients.

#include "tests/support/any_optimizer.hpp"
#include "tests/test.hpp"

namespace rowgrad::testing {

/// 0 … rows − 1
inline Ids32 all_rows(std::size_t rows) {
  Ids32 all(rows);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

inline std::unique_ptr<Optimizer> make_optimizer(const AnyOptions& options, Parameter& parameter) {
  return make_optimizer(options, std::vector<Parameter*>{&parameter});
}

/// Options with a name, for tests that are run with each of many.
struct OptimizerCase {
  const char* name;
  AnyOptions options;
};

inline void PrintTo(const OptimizerCase& item, std::ostream* out) { *out << item.name; }

inline const SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
inline const AdamOptions kAdam{.learning_rate = 0.01};

inline RowGradient gradient(const Shape& table, const Ids32& rows, int seed = 0) {
  return RowGradient(table, rows, irregular({rows.size(), table[1]}, seed));
}

inline void step(Optimizer& optimizer, Parameter& table, const Ids32& rows, int seed = 0) {
  table.zero_gradient();
  table.add_gradient(gradient(table.shape(), rows, seed));
  optimizer.step();
}

/// The same training of a table with row gradients and of another with dense ones.
struct RowsAndDense {
  RowsAndDense(const Tensor& start, const AnyOptions& options)
      : table("table", start),
        dense("table", start),
        optimizer(make_optimizer(options, table)),
        dense_optimizer(make_optimizer(options, dense)) {}

  void give(const RowGradient& rows) {
    table.zero_gradient();
    table.add_gradient(rows);
    dense.zero_gradient();
    dense.add_gradient(rows.to_dense());
  }
  void step() {
    optimizer->step();
    dense_optimizer->step();
  }
  void step(const RowGradient& rows) {
    give(rows);
    step();
  }

  Parameter table, dense;
  std::unique_ptr<Optimizer> optimizer, dense_optimizer;
};

/// A table, up to date, and all that its optimizer keeps.
inline std::string bits_of(const Parameter& table, const Optimizer& optimizer) {
  Checkpoint all;
  all.put("table", table.value());
  all.put("optimizer", optimizer.state_dict());
  return bits_of(all);
}

}  // namespace rowgrad::testing
