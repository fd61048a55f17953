#pragma once

// Creates optimizers from their options, and makes steps with irregular row gradients.

#include <variant>

#include "tests/test.hpp"

namespace rowgrad::testing {

/// The options of any optimizer; their type selects the optimizer.
using AnyOptions =
    std::variant<SgdOptions, AdamOptions, AdamWOptions, AdagradOptions, RmsPropOptions>;

SGD optimizer_with(const SgdOptions&);  // never defined: only the return types are used
Adam optimizer_with(const AdamOptions&);
AdamW optimizer_with(const AdamWOptions&);
Adagrad optimizer_with(const AdagradOptions&);
RMSprop optimizer_with(const RmsPropOptions&);

inline std::unique_ptr<Optimizer> make_optimizer(const AnyOptions& any,
                                                 const std::vector<Parameter*>& parameters) {
  return std::visit(
      [&](const auto& options) -> std::unique_ptr<Optimizer> {
        return std::make_unique<decltype(optimizer_with(options))>(parameters, options);
      },
      any);
}

/// Sets the options of an optimizer. Throws std::bad_cast for options of another optimizer.
inline void set_options(Optimizer& optimizer, const AnyOptions& any) {
  std::visit(
      [&](const auto& options) {
        dynamic_cast<decltype(optimizer_with(options))&>(optimizer).set_options(options);
      },
      any);
}

/// Options with a name, for parameterized tests.
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

/// A table trained with row gradients, and another with their dense forms.
struct RowsAndDense {
  RowsAndDense(const Tensor& start, const AnyOptions& options)
      : table("table", start),
        dense("table", start),
        optimizer(make_optimizer(options, {&table})),
        dense_optimizer(make_optimizer(options, {&dense})) {}

  void set_gradients(const RowGradient& rows) {
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
    set_gradients(rows);
    step();
  }

  Parameter table, dense;
  std::unique_ptr<Optimizer> optimizer, dense_optimizer;
};

/// Returns the bits of a table, up to date, and of its optimizer's state.
inline std::string bits_of(const Parameter& table, const Optimizer& optimizer) {
  StateDict all;
  all.put("table", table.value());
  all.put("optimizer", optimizer.state_dict());
  return bits_of(all);
}

}  // namespace rowgrad::testing
