#pragma once

// What an optimizer keeps for one parameter, and how a step changes it.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/optim/late_table.hpp>

namespace rowgrad {

/// A number of steps as it is saved: two numbers, so that none is lost to rounding.
constexpr std::uint64_t kStepDigit = std::uint64_t{1} << 24;
inline Tensor saved_steps(std::uint64_t steps) {
  return {static_cast<real>(steps / kStepDigit), static_cast<real>(steps % kStepDigit)};
}

/// The states of a parameter (its momentum, say), the number of its steps, its table while rows are
/// owed updates; and the step itself.
template <class Rule>
class ParameterUpdates {
 public:
  using Options = typename Rule::Options;
  using State = std::map<std::string, Tensor>;

  explicit ParameterUpdates(Parameter& parameter)
      : parameter_(&parameter), late_(parameter, arrays_) {}
  ParameterUpdates(const ParameterUpdates&) = delete;  // late_ knows the address of arrays_
  ParameterUpdates& operator=(const ParameterUpdates&) = delete;

  Parameter& parameter() const { return *parameter_; }

  /// The step of the dense optimizer with the parameter's gradient, which is not none. In two
  /// parts, so that the steps of several parameters are made all or none: the first may run out of
  /// memory and changes nothing that can be seen, the second cannot fail.
  struct Step {
    Rule rule;
    bool owes;  // the rule, to rows without gradient
    typename RuleArrays<Rule>::States beginning;
    std::optional<Tensor> copy = std::nullopt;  // of the table, for late_
  };
  Step prepare_step(const Options& options);
  void step(Step step);

  std::uint64_t rows_visited() const { return rows_visited_ + late_.rows_visited(); }

  /// Everything above by name, to be saved: "momentum.token.weight". Rows that are owed updates are
  /// saved as they stand, with what they are owed, so that a run goes on with the same bits.
  State save() const;

  /// The names that save() may use.
  std::vector<std::string> names() const;

  /// New updates for the same parameter that go on from what save() gave. The parameter keeps its
  /// present numbers (see LateTable::load). Throws std::invalid_argument for a shape or a number
  /// that does not fit, and parts that are missing.
  std::unique_ptr<ParameterUpdates> load(const State& all) const;

  /// For new updates, once the old ones are gone: from now on they keep the parameter's rows that
  /// are owed something.
  void take_over() { late_.take_over(); }

 private:
  using Arrays = RuleArrays<Rule>;
  using Simd = typename Arrays::Simd;
  using Vectors = typename Arrays::Vectors;

  static constexpr const char* kSteps = "step";
  static constexpr const char* kLate = "late.";

  std::string saved_name(std::string_view part) const {
    return concat(part, '.', parameter_->name());
  }
  std::string late_name(std::string_view part) const { return concat(kLate, saved_name(part)); }

  void step_dense(const Rule& rule, const Tensor& gradient);
  void step_rows(const Rule& rule, const RowGradient& gradient);

  Parameter* parameter_;
  std::uint64_t steps_ = 0;
  std::uint64_t rows_visited_ = 0;
  Arrays arrays_;
  LateTable<Rule> late_;
};

template <class Rule>
auto ParameterUpdates<Rule>::prepare_step(const Options& options) -> Step {
  auto beginning = arrays_.missing(options, parameter_->shape());
  const bool first = std::any_of(beginning.begin(), beginning.end(),
                                 [](const auto& state) { return state.has_value(); });
  const Rule rule(options, {.step = steps_ + 1, .first_of_state = first});
  const bool owes = options.rows == RowUpdates::kExact && rule.idle() != Idle::kNothing;
  Step step{rule, owes, std::move(beginning)};
  if (parameter_->gradient().is_rows() && (owes || late_.lent())) step.copy = late_.prepare_step();
  return step;
}

template <class Rule>
void ParameterUpdates<Rule>::step(Step step) {
  arrays_.begin(std::move(step.beginning));
  const Gradient& gradient = parameter_->gradient();
  if (gradient.is_dense()) {
    step_dense(step.rule, gradient.dense());
  } else if (step.owes || late_.lent()) {
    late_.step(step.rule, gradient.rows(), step.owes, std::move(step.copy));
  } else {
    step_rows(step.rule, gradient.rows());
  }
  ++steps_;
}

template <class Rule>
void ParameterUpdates<Rule>::step_dense(const Rule& rule, const Tensor& gradient) {
  real* numbers = parameter_->numbers().data();
  kernels::parallel_for(
      gradient.size(), kernels::kGrainNumbers, [&](std::size_t begin, std::size_t end) {
        Arrays::change_span(end - begin, arrays_.at(numbers, begin), gradient.data() + begin,
                            [rule](Vectors& x, const Simd& g) { Arrays::update(rule, x, g); });
      });
}

template <class Rule>
void ParameterUpdates<Rule>::step_rows(const Rule& rule, const RowGradient& gradient) {
  real* numbers = parameter_->numbers().data();
  const std::size_t width = gradient.width();
  const auto row_at = [&](std::size_t i) {
    return static_cast<std::size_t>(gradient.numbers()[i]);
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
auto ParameterUpdates<Rule>::save() const -> State {
  State all;
  if (steps_ == 0) return all;
  all[saved_name(kSteps)] = saved_steps(steps_);
  for (std::size_t i = 0; i < Arrays::kStates; ++i)
    if (arrays_.states[i]) all[saved_name(Rule::kStates[i])] = *arrays_.states[i];
  if (late_.lent()) {
    auto late = late_.save();
    all[late_name("numbers")] = std::move(late.numbers);
    all[late_name("at")] = std::move(late.at);
    all[late_name("history")] = std::move(late.history);
  }
  return all;
}

template <class Rule>
std::vector<std::string> ParameterUpdates<Rule>::names() const {
  std::vector<std::string> all{saved_name(kSteps), late_name("numbers"), late_name("at"),
                               late_name("history")};
  for (const std::string_view state : Rule::kStates) all.push_back(saved_name(state));
  return all;
}

template <class Rule>
auto ParameterUpdates<Rule>::load(const State& all) const -> std::unique_ptr<ParameterUpdates> {
  const auto refuse = [](const std::string& name, const std::string& what) {
    check_argument(false, Rule::kName, "::load_state: '", name, "' ", what);
  };
  const auto find = [&](const std::string& name, const Shape* shape) -> const Tensor* {
    const auto found = all.find(name);
    if (found == all.end()) return nullptr;
    if (shape != nullptr && found->second.shape() != *shape)
      refuse(name, concat("has shape ", bracketed(found->second.shape()), ", expected ",
                          bracketed(*shape)));
    return &found->second;
  };

  auto loaded = std::make_unique<ParameterUpdates>(*parameter_);
  loaded->rows_visited_ = rows_visited();
  const Shape& shape = parameter_->shape();
  bool any = false;
  for (std::size_t i = 0; i < Arrays::kStates; ++i)
    if (const Tensor* state = find(saved_name(Rule::kStates[i]), &shape)) {
      loaded->arrays_.states[i] = *state;
      any = true;
    }

  const Shape two{2};
  if (const Tensor* steps = find(saved_name(kSteps), &two)) {
    for (const real digit : *steps) {
      if (!(digit >= 0 && digit < static_cast<real>(kStepDigit) && digit == std::floor(digit)))
        refuse(saved_name(kSteps),
               concat("has ", digit, ", expected whole numbers from 0 to ", kStepDigit - 1));
      loaded->steps_ = loaded->steps_ * kStepDigit + static_cast<std::uint64_t>(digit);
    }
  } else if (any) {
    refuse(saved_name(kSteps), "is missing");
  }
  const auto always = Rule::uses(Options());
  for (std::size_t i = 0; i < Arrays::kStates; ++i)
    if (loaded->steps_ > 0 && always[i] && !loaded->arrays_.states[i])
      refuse(saved_name(Rule::kStates[i]), "is missing");

  const Shape rows{shape.empty() ? 0 : shape[0]};
  const Tensor* numbers = find(late_name("numbers"), &shape);
  const Tensor* at = find(late_name("at"), &rows);
  const Tensor* history = find(late_name("history"), nullptr);
  const bool none = numbers == nullptr && at == nullptr && history == nullptr;
  if (none) return loaded;
  for (const auto& [part, tensor] :
       {std::pair{"numbers", numbers}, {"at", at}, {"history", history}})
    if (tensor == nullptr) refuse(late_name(part), "is missing");
  if (shape.size() != 2) refuse(late_name("numbers"), "is for a table, the parameter is none");
  loaded->late_.load(
      {*numbers, *at, *history}, loaded->steps_,
      [&](const char* part, const std::string& what) { refuse(late_name(part), what); });
  return loaded;
}

}  // namespace rowgrad
