#pragma once

// Applies a rule to arrays, one vector of values and slots at a time.

#include <algorithm>
#include <array>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// A vector of values, followed by a vector of each slot.
template <class Rule>
using RuleVectors = std::array<kernels::Simd, kArraysOf<Rule>>;
/// Pointers to values and slots; null if a slot is not in use.
template <class Rule>
using RulePointers = std::array<real*, kArraysOf<Rule>>;

/// Makes one step of the rule. Inlined to keep its vectors in registers.
template <class Rule>
[[gnu::always_inline]] inline void update(const Rule& rule, RuleVectors<Rule>& x,
                                          const kernels::Simd& gradient) {
  std::array<kernels::Simd, Rule::kSlots.size()> states;
  std::copy(x.begin() + 1, x.end(), states.begin());
  rule.update(x[0], gradient, states);
  std::copy(states.begin(), states.end(), x.begin() + 1);
}

/// Changes `count` values and their state in place: calls change(x, g) for each vector, where g is
/// the gradient, or zeros if there is none. `change` should capture by value (see for_vectors).
template <class Rule>
[[gnu::always_inline]] inline void change_values(std::size_t count,
                                                 const RulePointers<Rule>& pointers,
                                                 const real* gradient, const auto change) {
  constexpr std::size_t kArrays = kArraysOf<Rule>;
  std::array<const real*, kArrays + 1> inputs;
  std::copy(pointers.begin(), pointers.end(), inputs.begin());
  inputs.back() = gradient;
  kernels::for_each_vector(count, inputs, [pointers, change](const auto& in, const auto& put) {
    RuleVectors<Rule> x;
    std::copy_n(in.begin(), kArrays, x.begin());
    change(x, in.back());
    for (std::size_t k = 0; k < kArrays; ++k)
      if (pointers[k] != nullptr) put(x[k], pointers[k]);
  });
}

/// Calls read(x, put) for `count` values and their state, as for_each_vector does.
template <class Rule>
[[gnu::always_inline]] inline void read_values(std::size_t count,
                                               const RulePointers<Rule>& pointers,
                                               const auto read) {
  std::array<const real*, kArraysOf<Rule>> inputs;
  std::copy(pointers.begin(), pointers.end(), inputs.begin());
  kernels::for_each_vector(count, inputs, read);
}

}  // namespace rowgrad
