#pragma once

// The library's optimizers, made from their options.

#include <memory>
#include <variant>
#include <vector>

#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad::testing {

/// The options of an optimizer, which say which one it is.
using AnyOptions =
    std::variant<SgdOptions, AdamOptions, AdamWOptions, AdagradOptions, RmsPropOptions>;

SGD optimizer_with(const SgdOptions&);  // never defined: only their types are used
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

/// Options of the same optimizer. Throws std::bad_cast for those of another.
inline void set_options(Optimizer& optimizer, const AnyOptions& any) {
  std::visit(
      [&](const auto& options) {
        dynamic_cast<decltype(optimizer_with(options))&>(optimizer).set_options(options);
      },
      any);
}

}  // namespace rowgrad::testing
