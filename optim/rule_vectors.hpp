#pragma once

// A rule applied to arrays, a vector of values and slots at a time.

#include <algorithm>
#include <array>

#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// A vector of values and one of each slot; pointers to them, null for slots that are not in use.
template <class Rule>
using RuleVectors = std::array<kernels::Simd, kArraysOf<Rule>>;
template <class Rule>
using RulePointers = std::array<real*, kArraysOf<Rule>>;

/// One step of the rule. Inlined, or its vectors would go through memory.
template <class Rule>
[[gnu::always_inline]] inline void update(const Rule& rule, RuleVectors<Rule>& x,
                                          const kernels::Simd& gradient) {
  std::array<kernels::Simd, Rule::kSlots.size()> states;
  std::copy(x.begin() + 1, x.end(), states.begin());
  rule.update(x[0], gradient, states);
  std::copy(states.begin(), states.end(), x.begin() + 1);
}

/// Changes `count` values with their state in place: calls change(x, g) a vector at a time, where g
/// is the gradient or zeros if there is none. `change` should hold its members by value (see
/// for_each_vector).
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

/// Calls read(x, put) for `count` values with their state, as for_each_vector does.
template <class Rule>
[[gnu::always_inline]] inline void read_values(std::size_t count,
                                               const RulePointers<Rule>& pointers,
                                               const auto read) {
  std::array<const real*, kArraysOf<Rule>> inputs;
  std::copy(pointers.begin(), pointers.end(), inputs.begin());
  kernels::for_each_vector(count, inputs, read);
}

}  // namespace rowgrad
