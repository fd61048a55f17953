#pragma once

// The values and states of a parameter, and the application of a rule to them, a vector at a time.

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include <rowgrad/core/autograd/table_file.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/lane_check.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// The states that a rule keeps for a parameter: tensors of its shape, or places in its table file,
/// or nothing for states that no options have needed so far.
template <class Rule>
class RuleArrays {
 public:
  static constexpr std::size_t kStates = Rule::kStates.size();
  static constexpr std::size_t kArrays = 1 + kStates;  // the values themselves, then the states

  using Simd = kernels::Simd;
  using Pointers = std::array<real*, kArrays>;  // null for states that are not in use
  using Vectors = std::array<Simd, kArrays>;    // their entries at one position

  using States = std::array<std::optional<Tensor>, kStates>;
  using Places = std::array<std::optional<std::size_t>, kStates>;

  States states = {};
  Places places = {};  // of the states that are beside the values in a table file instead

  /// Which states the options need beside the values in a file that have no place yet. Throws
  /// std::invalid_argument if the file has no room, and for states that do not start as zeros.
  std::array<bool, kStates> missing_in(const TableFile& file,
                                       const typename Rule::Options& options) const {
    std::array<bool, kStates> missing = Rule::uses(options);
    std::size_t count = 0;
    for (std::size_t i = 0; i < kStates; ++i) {
      missing[i] = missing[i] && !places[i];
      if (!missing[i]) continue;
      ++count;
      check_argument(Rule::start(options, i) == 0, Rule::kName, ": ", Rule::kStates[i],
                     " starts as ", Rule::start(options, i), ", expected 0 for a table in a file");
    }
    const std::size_t begun = has_places() ? file.states_begun() : 0;
    check_argument(begun + count <= file.states(), Rule::kName, ": needs ", begun + count,
                   " states of each row, but ", file.path().string(), " was made for ",
                   file.states(), " (TableFileOptions::states)");
    return missing;
  }
  bool has_places() const {
    return std::ranges::any_of(places, [](const auto& place) { return place.has_value(); });
  }

  /// The states that the options need and that do not exist yet, with their initial values.
  /// `rows`: whether few rows of them are expected to change.
  States missing(const typename Rule::Options& options, const Shape& shape, bool rows) const {
    const auto used = Rule::uses(options);
    States result;
    for (std::size_t i = 0; i < kStates; ++i) {
      if (!used[i] || states[i]) continue;
      const auto start = static_cast<real>(Rule::start(options, i));
      result[i] = rows && start == 0 ? sparse_zeros(shape) : full(shape, start);
    }
    return result;
  }

  /// Gives these states places in the file, as zeros. They count from begin() on.
  Places begin_in(TableFile& file, const std::array<bool, kStates>& missing) const {
    Places result;
    if (std::ranges::none_of(missing, std::identity())) return result;
    if (!has_places()) file.begin_states();
    for (std::size_t i = 0; i < kStates; ++i) {
      if (!missing[i]) continue;
      result[i] = file.state_place(Rule::kStates[i]);
      if (!result[i]) result[i] = file.begin_state(Rule::kStates[i]);
    }
    return result;
  }

  void begin(States missing, const Places& missing_places) {
    for (std::size_t i = 0; i < kStates; ++i) {
      if (missing[i]) states[i] = std::move(missing[i]);
      if (missing_places[i]) places[i] = missing_places[i];
    }
  }

  /// Pointers to entry `offset` of the parameter's values and of each state.
  Pointers at(real* numbers, std::size_t offset) {
    Pointers pointers{numbers + offset};
    for (std::size_t i = 0; i < kStates; ++i)
      if (states[i]) pointers[i + 1] = states[i]->data() + offset;
    return pointers;
  }

  /// Pointers to a row of a table file, which is followed by its states.
  Pointers beside(real* row, std::size_t width) const {
    Pointers pointers{row};
    for (std::size_t i = 0; i < kStates; ++i)
      if (places[i]) pointers[i + 1] = row + (1 + *places[i]) * width;
    return pointers;
  }

  /// One step of the rule.
  static void update(const Rule& rule, Vectors& x, const Simd& gradient) {
    auto kept = states_of(x);
    rule.update(x[0], gradient, kept);
    std::copy(kept.begin(), kept.end(), x.begin() + 1);
  }

  /// Throws std::logic_error if a step of the rule lets a value depend on its neighbours.
  static void check_lanes(const Rule& rule) {
    std::array<std::string_view, kArrays + 1> names{"the number"};
    std::copy(Rule::kStates.begin(), Rule::kStates.end(), names.begin() + 1);
    names.back() = "the gradient";
    kernels::check_lanes(Rule::kName, names, [&rule](std::span<Simd> vectors) {
      Vectors x;
      std::copy_n(vectors.begin(), kArrays, x.begin());
      update(rule, x, vectors.back());
      std::copy(x.begin(), x.end(), vectors.begin());
    });
  }

  static std::array<Simd, kStates> states_of(const Vectors& x) {
    std::array<Simd, kStates> result;
    std::copy(x.begin() + 1, x.end(), result.begin());
    return result;
  }

  /// Changes `count` entries in place: calls change(x, g) a vector at a time, where g is the
  /// gradient or zeros if there is none. `change` should hold its members by value (see
  /// visit_span).
  static void change_span(std::size_t count, const Pointers& pointers, const real* gradient,
                          const auto change) {
    std::array<const real*, kArrays + 1> inputs;
    std::copy(pointers.begin(), pointers.end(), inputs.begin());
    inputs.back() = gradient;
    kernels::visit_span(count, inputs, [pointers, change](const auto& in, const auto& put) {
      Vectors x;
      std::copy_n(in.begin(), kArrays, x.begin());
      change(x, in.back());
      for (std::size_t k = 0; k < kArrays; ++k)
        if (pointers[k] != nullptr) put(x[k], pointers[k]);
    });
  }

  /// Calls read(x, put) for `count` entries, as visit_span does.
  static void read_span(std::size_t count, const Pointers& pointers, const auto read) {
    std::array<const real*, kArrays> inputs;
    std::copy(pointers.begin(), pointers.end(), inputs.begin());
    kernels::visit_span(count, inputs, read);
  }
};

}  // namespace rowgrad
