#pragma once

// What an optimizer keeps for one parameter, and how a step changes the parameter.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/optim/lazy_table_state.hpp>
#include <rowgrad/optim/saved_rows.hpp>

namespace rowgrad {

/// The states of a parameter (momentum, for example), the number of its steps, its table while
/// updates of rows are postponed; and the step itself.
template <class Rule>
class ParameterUpdates {
 public:
  using Options = typename Rule::Options;

  explicit ParameterUpdates(Parameter& parameter)
      : parameter_(&parameter), lazy_(parameter, arrays_) {}
  ParameterUpdates(const ParameterUpdates&) = delete;  // lazy_ refers to arrays_
  ParameterUpdates& operator=(const ParameterUpdates&) = delete;

  Parameter& parameter() const { return *parameter_; }

  /// A step with the parameter's gradient, which must not be none. In two parts, so that a step of
  /// several parameters is made for all or for none: the first may run out of memory and changes
  /// nothing visible, the second cannot fail.
  struct Step {
    Rule rule;
    bool owes;                                 // whether rows without gradient are owed this step
    typename RuleArrays<Rule>::States states;  // those that begin
    typename RuleArrays<Rule>::Places places = {};  // and those in a table file
    std::optional<Tensor> copy = std::nullopt;      // of the table, for lazy_
  };
  Step prepare_step(const Options& options);
  void step(Step step);

  std::uint64_t rows_visited() const { return rows_visited_ + lazy_.rows_visited(); }

  /// All of the above. Rows are saved as they are stored, with the steps they are owed, so that a
  /// resumed run has the same bits.
  Checkpoint state_dict() const;

  /// All names that a state may contain.
  static std::vector<std::string> names();

  /// A new object for the same parameter with such a state. The parameter keeps its present values
  /// (see LazyTable::load). Throws std::invalid_argument for a shape or a value that does not fit,
  /// and for missing values.
  std::unique_ptr<ParameterUpdates> load(const Checkpoint& state) const;

  /// For an object that load() returned, once the old one is destroyed: takes over the parameter's
  /// table if updates of its rows are postponed.
  void take_over() { lazy_.take_over(); }

 private:
  using Arrays = RuleArrays<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  static constexpr const char* kSteps = "step";
  static constexpr const char* kLazy = "lazy";

  bool is_lazy(bool owes) const { return owes || lazy_.lent() || parameter_->file() != nullptr; }
  void step_dense(const Rule& rule, const Tensor& gradient);
  void step_rows(const Rule& rule, const RowGradient& gradient);

  Parameter* parameter_;
  std::uint64_t steps_ = 0;
  std::uint64_t rows_visited_ = 0;
  Arrays arrays_;
  LazyTable<Rule> lazy_;
};

template <class Rule>
auto ParameterUpdates<Rule>::prepare_step(const Options& options) -> Step {
  const bool rows = parameter_->gradient().is_rows();
  TableFile* file = parameter_->file();
  check_argument(file == nullptr || rows, Rule::kName, ": the gradient of ", parameter_->name(),
                 " is dense, but the table is in a file; expected a row gradient");
  typename Arrays::States states;
  std::array<bool, Arrays::kStates> in_file{};
  if (file != nullptr) {
    in_file = arrays_.missing_in(*file, options);
  } else {
    states = arrays_.missing(options, parameter_->shape(), rows);
  }
  const bool first =
      std::ranges::any_of(states, [](const auto& state) { return state.has_value(); }) ||
      std::ranges::any_of(in_file, std::identity());
  const Rule rule(options, {.step = steps_ + 1, .first_of_state = first});
  const bool owes = options.rows == RowUpdates::kExact && rule.idle() != Idle::kNothing;
  Step step{rule, owes, std::move(states)};
  if (file != nullptr) {
    lazy_.check_file(rule);
    step.places = arrays_.begin_in(*file, in_file);
  }
  if (rows && is_lazy(owes)) step.copy = lazy_.prepare_step();
  return step;
}

template <class Rule>
void ParameterUpdates<Rule>::step(Step step) {
  arrays_.begin(std::move(step.states), step.places);
  const Gradient& gradient = parameter_->gradient();
  if (gradient.is_dense()) {
    step_dense(step.rule, gradient.dense());
  } else if (is_lazy(step.owes)) {
    lazy_.step(step.rule, gradient.rows(), step.owes, std::move(step.copy));
  } else {
    step_rows(step.rule, gradient.rows());
  }
  ++steps_;
}

template <class Rule>
void ParameterUpdates<Rule>::step_dense(const Rule& rule, const Tensor& gradient) {
  real* numbers = parameter_->mutable_values().data();
  kernels::parallel_for(
      gradient.size(), kernels::kGrainNumbers / 4, [&](std::size_t begin, std::size_t end) {
        Arrays::change_span(end - begin, arrays_.at(numbers, begin), gradient.data() + begin,
                            [rule](Vectors& x, const Simd& g) { Arrays::update(rule, x, g); });
      });
}

template <class Rule>
void ParameterUpdates<Rule>::step_rows(const Rule& rule, const RowGradient& gradient) {
  real* numbers = parameter_->mutable_values().data();
  const std::size_t width = gradient.width();
  const auto row_at = [&](std::size_t i) {
    return static_cast<std::size_t>(gradient.indices()[i]);
  };
  kernels::parallel_for(
      gradient.size(), kernels::row_grain(width), [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          if (i + kernels::kRowsAhead < end)
            kernels::prefetch_row(numbers + row_at(i + kernels::kRowsAhead) * width, width);
          const std::size_t row = row_at(i);
          Arrays::change_span(width, arrays_.at(numbers, row * width), gradient.row(i).data(),
                              [rule](Vectors& x, const Simd& g) { Arrays::update(rule, x, g); });
        }
      });
  rows_visited_ += gradient.size();
}

// --- Saving and loading -------------------------------------------------------------------------

template <class Rule>
Checkpoint ParameterUpdates<Rule>::state_dict() const {
  Checkpoint state;
  state.put(kSteps, steps_);
  for (std::size_t i = 0; i < Arrays::kStates; ++i)
    if (const std::string name(Rule::kStates[i]); arrays_.places[i]) {
      state.put(name, "in the table's file");
    } else if (arrays_.states[i]) {
      put_rows(state, name, *arrays_.states[i]);
    }
  if (lazy_.lent()) state.put(kLazy, lazy_.state_dict());
  return state;
}

template <class Rule>
std::vector<std::string> ParameterUpdates<Rule>::names() {
  std::vector<std::string> all{kSteps};
  for (const std::string_view state : Rule::kStates)
    for (const char* form : {"", ".rows", ".values"}) all.push_back(concat(state, form));
  for (const char* part : LazyTable<Rule>::kParts) all.push_back(concat(kLazy, '.', part));
  return all;
}

template <class Rule>
auto ParameterUpdates<Rule>::load(const Checkpoint& state) const
    -> std::unique_ptr<ParameterUpdates> {
  auto loaded = std::make_unique<ParameterUpdates>(*parameter_);
  loaded->rows_visited_ = rows_visited();
  loaded->steps_ = state.count(kSteps);
  if (loaded->steps_ == 0) return loaded;
  const auto always = Rule::uses(Options());
  for (std::size_t i = 0; i < Arrays::kStates; ++i)
    if (const std::string name(Rule::kStates[i]); always[i] || has_rows(state, name)) {
      if (TableFile* file = parameter_->file()) {
        state.text(name);
        loaded->arrays_.places[i] = file->state_place(name);
        check_argument(loaded->arrays_.places[i].has_value(), Rule::kName,
                       "::load_state_dict: ", file->path().string(), " has no ", name,
                       " of its rows");
      } else {
        loaded->arrays_.states[i] = rows_in(state, name, parameter_->shape());
      }
    }
  const Checkpoint lazy = state.part(kLazy);
  if (std::ranges::any_of(LazyTable<Rule>::kParts,
                          [&](const char* part) { return lazy.contains(part); }))
    loaded->lazy_.load(lazy, loaded->steps_);
  return loaded;
}

}  // namespace rowgrad
