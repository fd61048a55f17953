#pragma once

// What an optimizer keeps for one parameter, and how a step changes it.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/optim/step_history.hpp>

namespace rowgrad {

/// The states of a parameter (its momentum, say) and the updates of its numbers, by one rule.
///
/// A step with row gradients changes the rows that have one, and only notes what it would have done
/// to the others. From then on the table is kept here, and every row stands as of the step
/// at_[row]. Reading a row applies what it is owed since:
///
/// - Steps without a closed form are replayed, and stay done: at_[row] moves on.
/// - A closed form is applied to the copy that is read; the row itself stays as it was. So the bits
///   of a run do not depend on when somebody looked: at a checkpoint, in an evaluation.
///
/// Anything that changes a whole table (a dense gradient, Parameter::numbers) settles all of it for
/// good and ends this.
template <class Rule>
class ParameterUpdates final : public LazyRows {
 public:
  using Options = typename Rule::Options;
  using State = std::map<std::string, Tensor>;
  static constexpr std::size_t kStates = Rule::kStates.size();
  static constexpr std::size_t kArrays = 1 + kStates;  // the numbers themselves, then the states

  explicit ParameterUpdates(Parameter& parameter) : parameter_(&parameter) {}
  ~ParameterUpdates() override {
    if (lent_) parameter_->reclaim();
  }

  Parameter& parameter() const { return *parameter_; }

  /// The step of the dense optimizer with the parameter's gradient. The gradient is not none.
  void step(const Options& options) {
    const bool first = make_states(options);
    const Rule rule(options, {.step = ++steps_, .first_of_state = first});
    const Gradient& gradient = parameter_->gradient();
    if (gradient.is_dense()) return step_dense(rule, gradient.dense());
    const bool owes = options.rows == RowUpdates::kExact && rule.idle() != Idle::kNothing;
    if (lent_ && history_is_long()) parameter_->reclaim();
    if (owes && !lent_) borrow();
    step_rows(rule, gradient.rows(), owes);
  }

  /// How many rows were updated, settled or replayed so far; one replayed over n steps counts n
  /// times.
  std::uint64_t rows_visited() const { return rows_visited_; }

  /// Everything above by name, to be saved: "momentum.token.weight". Rows that are owed updates are
  /// saved as they stand, with what they are owed, so that a run goes on with the same bits.
  State save() const;

  /// What save() gave, checked before anything changes. Throws std::invalid_argument for a shape or
  /// a number that does not fit.
  struct Loaded;
  Loaded check(const State& all) const;

  /// Goes on from there. The parameter keeps its present numbers: rows go on being owed updates
  /// only if, brought up to date, they are these numbers; otherwise just the states are taken.
  void load(Loaded loaded);

  /// The names that save() may use.
  std::vector<std::string> names() const;

 private:
  using History = StepHistory<Rule>;
  static constexpr std::size_t kFields = sizeof(Rule) / sizeof(real);
  static_assert(std::is_trivially_copyable_v<Rule> && sizeof(Rule) % sizeof(real) == 0,
                "a rule has numbers of type real and nothing else");
  using Simd = kernels::Simd;
  using Arrays = std::array<real*, kArrays>;  // null for states that are not in use
  using Vectors = std::array<Simd, kArrays>;  // their entries at one place

  // A row may rest only at these steps, so that resting does not depend on when it is read.
  static constexpr std::uint64_t kRestInterval = 8;
  // A history of more runs than this, and of about the table's memory, is settled and begins anew:
  // on average that is kNumbersPerRun numbers a step.
  static constexpr std::size_t kMostRuns = 4096;
  static constexpr std::size_t kNumbersPerRun = 128;
  // Step numbers up to here are numbers of type `real` without loss.
  static constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 24;

  // A linear map of numbers and states, for vectors.
  class VectorMap {
   public:
    VectorMap() = default;
    explicit VectorMap(const LinearMap<kArrays>& map) {
      for (std::size_t i = 0; i < kArrays; ++i)
        for (std::size_t j = 0; j < kArrays; ++j) map_[i][j] = Simd(static_cast<real>(map[i][j]));
    }

    Simd number(const Vectors& x) const { return row(0, x); }

    Vectors apply(const Vectors& x) const {
      Vectors y;
      for (std::size_t i = 0; i < kArrays; ++i) y[i] = row(i, x);
      return y;
    }

   private:
    Simd row(std::size_t i, const Vectors& x) const {
      Simd sum = map_[i][0] * x[0];
      for (std::size_t j = 1; j < kArrays; ++j) sum = sum + map_[i][j] * x[j];
      return sum;
    }

    std::array<std::array<Simd, kArrays>, kArrays> map_;
  };

  // What rows are owed up to a step, in closed form. Neighbours often are owed the same.
  class Owed {
   public:
    Owed(const History& history, std::uint64_t to) : history_(history), to_(to) {}

    // Whether a row that stands at `from` is owed anything; then map() is for it.
    bool since(std::uint64_t from) {
      if (from == to_) return false;
      if (std::exchange(from_, from) != from) map_ = VectorMap(history_.compose_steps(from, to_));
      return true;
    }

    std::uint64_t to() const { return to_; }
    const VectorMap& map() const { return map_; }

   private:
    const History& history_;
    std::uint64_t to_;
    std::uint64_t from_ = ~std::uint64_t{0};
    VectorMap map_;
  };

  static void update(const Rule& rule, Vectors& x, const Simd& gradient) {
    std::array<Simd, kStates> states;
    std::copy(x.begin() + 1, x.end(), states.begin());
    rule.update(x[0], gradient, states);
    std::copy(states.begin(), states.end(), x.begin() + 1);
  }

  static constexpr const char* kSteps = "step";
  static constexpr const char* kLateNumbers = "late.numbers";
  static constexpr const char* kLateAt = "late.at";
  static constexpr const char* kLateHistory = "late.history";

  std::string saved_name(std::string_view part) const {
    return concat(part, '.', parameter_->name());
  }

  std::size_t width() const { return parameter_->shape()[1]; }

  Arrays arrays_at(real* numbers, std::size_t offset) {
    Arrays arrays{};
    arrays[0] = numbers + offset;
    for (std::size_t i = 0; i < kStates; ++i)
      if (has_state_[i]) arrays[i + 1] = states_[i].data() + offset;
    return arrays;
  }
  Arrays arrays_of(std::size_t row) { return arrays_at(table_.data(), row * width()); }

  // Returns whether any state began.
  bool make_states(const Options& options) {
    const auto used = Rule::uses(options);
    bool made = false;
    for (std::size_t i = 0; i < kStates; ++i) {
      if (!used[i] || has_state_[i]) continue;
      states_[i] = full(parameter_->shape(), static_cast<real>(Rule::start(options, i)));
      has_state_[i] = made = true;
    }
    return made;
  }

  bool history_is_long() const {
    return history_.runs().size() > std::max(kMostRuns, table_.size() / kNumbersPerRun) ||
           history_.steps() >= kMostSteps;
  }

  void borrow() {
    at_.assign(parameter_->shape()[0], 0);
    history_.clear();
    table_ = parameter_->lend(*this);
    lent_ = true;
  }

  // Changes `count` numbers and their states: change(x, g) gets them a vector at a time, with the
  // gradient or, without one, zeros.
  template <class Change>
  static void change_span(std::size_t count, const Arrays& arrays, const real* gradient,
                          const Change change) {
    std::array<const real*, kArrays + 1> inputs;
    std::copy(arrays.begin(), arrays.end(), inputs.begin());
    inputs.back() = gradient;
    kernels::visit_span(count, inputs, [arrays, change](const auto& in, const auto& put) {
      Vectors x;
      std::copy_n(in.begin(), kArrays, x.begin());
      change(x, in.back());
      for (std::size_t k = 0; k < kArrays; ++k)
        if (arrays[k] != nullptr) put(x[k], arrays[k]);
    });
  }

  static std::array<const real*, kArrays> read_only(const Arrays& arrays) {
    std::array<const real*, kArrays> result;
    std::copy(arrays.begin(), arrays.end(), result.begin());
    return result;
  }

  void step_dense(const Rule& rule, const Tensor& gradient) {
    real* numbers = parameter_->numbers().data();
    kernels::parallel_for(
        gradient.size(), kernels::kGrainNumbers, [&](std::size_t begin, std::size_t end) {
          change_span(end - begin, arrays_at(numbers, begin), gradient.data() + begin,
                      [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
        });
  }

  void step_rows(const Rule& rule, const RowGradient& gradient, bool owes) {
    const std::uint64_t now = history_.steps();
    real* numbers = lent_ ? table_.data() : parameter_->numbers().data();
    std::atomic<std::uint64_t> replayed = 0;
    kernels::parallel_for(
        gradient.size(), kernels::row_grain(width()), [&](std::size_t begin, std::size_t end) {
          Owed owed(history_, now);
          for (std::size_t i = begin; i < end; ++i) {
            const auto row = static_cast<std::size_t>(gradient.numbers()[i]);
            if (lent_ && history_.has_replay()) replayed += catch_up(row);
            const Arrays arrays = arrays_at(numbers, row * width());
            const real* row_gradient = gradient.row(i).data();
            if (lent_ && owed.since(at_[row])) {
              change_span(width(), arrays, row_gradient,
                          [rule, map = owed.map()](Vectors& x, const Simd& g) {
                            x = map.apply(x);
                            update(rule, x, g);
                          });
            } else {
              change_span(width(), arrays, row_gradient,
                          [rule](Vectors& x, const Simd& g) { update(rule, x, g); });
            }
            if (lent_) at_[row] = owes ? now + 1 : now;
          }
        });
    rows_visited_ += gradient.size() + replayed;
    if (owes) history_.append(rule);
    if (lent_) parameter_->note_change(*this);
  }

  // Replays what a row is owed until a closed form holds for all the rest. Returns the number of
  // steps replayed.
  [[gnu::noinline]] std::uint64_t catch_up(std::size_t row) {
    std::uint64_t& at = at_[row];
    std::uint64_t replayed = 0;
    while (at < history_.steps()) {
      const auto* run = &history_.runs()[history_.run_of(at + 1)];
      if (at % kRestInterval == 0 && rests(run->rule, row)) {
        const std::uint64_t end = history_.closed_until(at);
        if (end == history_.steps()) return replayed;
        if (end > at) {
          Owed owed(history_, end);
          settle(row, owed);
          continue;
        }
      }
      // As many steps at once as fit: the numbers stay in registers meanwhile.
      std::array<const Rule*, kRestInterval> rules;
      std::size_t count = 0;
      do {
        rules[count++] = &run->rule;
        if (++at == run->end) ++run;
      } while (at % kRestInterval != 0 && at < history_.steps());
      change_span(width(), arrays_of(row), nullptr, [&](Vectors& x, const Simd& zero) {
        for (std::size_t i = 0; i < count; ++i) update(*rules[i], x, zero);
      });
      replayed += count;
    }
    return replayed;
  }

  // Whether the closed form of a step holds for a row as it is.
  bool rests(const Rule& rule, std::size_t row) {
    if (rule.idle() != Idle::kFading) return rule.idle() != Idle::kReplay;
    bool all = true;
    kernels::visit_span(width(), read_only(arrays_of(row)), [&](const Vectors& x, const auto&) {
      std::array<Simd, kStates> states;
      std::copy(x.begin() + 1, x.end(), states.begin());
      all = all && xsimd::all(rule.faded(x[0], states));
    });
    return all;
  }

  // Applies for good what a row is owed, all of it in closed form.
  void settle(std::size_t row, Owed& owed) {
    if (!owed.since(at_[row])) return;
    change_span(width(), arrays_of(row), nullptr,
                [map = owed.map()](Vectors& x, const Simd&) { x = map.apply(x); });
    at_[row] = owed.to();
  }

  // A row's numbers, up to date, to `out`. It has been caught up with.
  void copy_row(std::size_t row, Owed& owed, real* out) {
    const Arrays arrays = arrays_of(row);
    if (!owed.since(at_[row])) {
      std::copy_n(arrays[0], width(), out);
      return;
    }
    kernels::visit_span(
        width(), read_only(arrays),
        [map = owed.map(), out](const Vectors& x, const auto& put) { put(map.number(x), out); });
  }

  // Catches up with all rows and calls visit(row, owed) for each.
  template <class Visit>
  void visit_all(const Visit& visit) {
    std::atomic<std::uint64_t> replayed = 0;
    kernels::parallel_for(at_.size(), kernels::row_grain(width()),
                          [&](std::size_t begin, std::size_t end) {
                            Owed owed(history_, history_.steps());
                            for (std::size_t row = begin; row < end; ++row) {
                              if (history_.has_replay()) replayed += catch_up(row);
                              visit(row, owed);
                            }
                          });
    rows_visited_ += at_.size() + replayed;
  }

  // Replays write to rows, so each row is caught up with once, however often its id occurs.
  void catch_up_with(std::span<const std::int32_t> ids) {
    std::vector<std::int32_t> late;
    for (const std::int32_t id : ids)
      if (at_[static_cast<std::size_t>(id)] < history_.steps()) late.push_back(id);
    std::sort(late.begin(), late.end());
    late.erase(std::unique(late.begin(), late.end()), late.end());
    std::atomic<std::uint64_t> replayed = 0;
    kernels::parallel_for(late.size(), kernels::row_grain(width()),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t i = begin; i < end; ++i)
                              replayed += catch_up(static_cast<std::size_t>(late[i]));
                          });
    rows_visited_ += replayed;
  }

  // --- LazyRows ---------------------------------------------------------------------------------

  void read_rows(std::span<const std::int32_t> ids, real* out) override {
    if (history_.has_replay()) catch_up_with(ids);
    kernels::parallel_for(
        ids.size(), kernels::row_grain(width()), [&](std::size_t begin, std::size_t end) {
          Owed owed(history_, history_.steps());
          for (std::size_t i = begin; i < end; ++i) {
            if (i + kernels::kRowsAhead < end)
              for (const real* array :
                   arrays_of(static_cast<std::size_t>(ids[i + kernels::kRowsAhead])))
                if (array != nullptr) kernels::prefetch_row(array, width());
            copy_row(static_cast<std::size_t>(ids[i]), owed, out + i * width());
          }
        });
    rows_visited_ += ids.size();
  }

  Tensor read() override {
    Tensor whole = empty(parameter_->shape());
    visit_all(
        [&](std::size_t row, Owed& owed) { copy_row(row, owed, whole.data() + row * width()); });
    return whole;
  }

  void write_rows(std::span<const std::int32_t> ids, const real* values) override {
    Owed owed(history_, history_.steps());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = static_cast<std::size_t>(ids[i]);
      rows_visited_ += 1 + catch_up(row);
      settle(row, owed);
      std::copy_n(values + i * width(), width(), arrays_of(row)[0]);
    }
  }

  Tensor release() override {
    visit_all([&](std::size_t row, Owed& owed) { settle(row, owed); });
    lent_ = false;
    history_.clear();
    return std::move(table_);
  }

  void abandon() noexcept override { lent_ = false; }

  Parameter* parameter_;
  std::uint64_t steps_ = 0;
  std::array<Tensor, kStates> states_;
  std::array<bool, kStates> has_state_{};
  std::atomic<std::uint64_t> rows_visited_ = 0;

  // While the parameter is lent:
  bool lent_ = false;
  Tensor table_;
  std::vector<std::uint64_t> at_;  // the step that each row stands at
  History history_;
};

// --- Saving and loading -------------------------------------------------------------------------

template <class Rule>
struct ParameterUpdates<Rule>::Loaded {
  std::uint64_t steps = 0;
  std::array<std::optional<Tensor>, kStates> states = {};
  std::optional<Tensor> table = std::nullopt;  // with the two below: rows that are owed updates
  std::vector<std::uint64_t> at = {};
  History history = {};
};

template <class Rule>
std::vector<std::string> ParameterUpdates<Rule>::names() const {
  std::vector<std::string> all;
  for (const std::string_view state : Rule::kStates) all.push_back(saved_name(state));
  for (const char* part : {kSteps, kLateNumbers, kLateAt, kLateHistory})
    all.push_back(saved_name(part));
  return all;
}

template <class Rule>
auto ParameterUpdates<Rule>::save() const -> State {
  State all;
  if (steps_ == 0) return all;
  // In two numbers, so that no step is lost to rounding.
  all[saved_name(kSteps)] =
      Tensor{static_cast<real>(steps_ / kMostSteps), static_cast<real>(steps_ % kMostSteps)};
  for (std::size_t i = 0; i < kStates; ++i)
    if (has_state_[i]) all[saved_name(Rule::kStates[i])] = states_[i];
  if (!lent_) return all;
  all[saved_name(kLateNumbers)] = table_;
  Tensor at = empty({at_.size()});
  std::copy(at_.begin(), at_.end(), at.data());
  all[saved_name(kLateAt)] = std::move(at);
  Tensor runs = empty({history_.runs().size(), 1 + kFields});
  std::uint64_t begin = 0;
  real* next = runs.data();
  for (const auto& run : history_.runs()) {
    *next++ = static_cast<real>(run.end - std::exchange(begin, run.end));
    const auto fields = std::bit_cast<std::array<real, kFields>>(run.rule);
    next = std::copy(fields.begin(), fields.end(), next);
  }
  all[saved_name(kLateHistory)] = std::move(runs);
  return all;
}

template <class Rule>
auto ParameterUpdates<Rule>::check(const State& all) const -> Loaded {
  const auto find = [&](std::string_view part, const std::optional<Shape>& shape) -> const Tensor* {
    const auto found = all.find(saved_name(part));
    if (found == all.end()) return nullptr;
    check_argument(!shape || found->second.shape() == *shape, Rule::kName, "::load_state: '",
                   found->first, "' has shape ", bracketed(found->second.shape()), ", expected ",
                   bracketed(shape.value_or(Shape())));
    return &found->second;
  };
  // A number that counts something.
  const auto count = [&](std::string_view part, real number, std::uint64_t least,
                         std::uint64_t most) {
    check_argument(number >= static_cast<real>(least) && number <= static_cast<real>(most) &&
                       number == std::floor(number),
                   Rule::kName, "::load_state: '", saved_name(part), "' has ", number,
                   ", expected a whole number from ", least, " to ", most);
    return static_cast<std::uint64_t>(number);
  };

  Loaded loaded;
  const Shape& shape = parameter_->shape();
  bool any = false;
  for (std::size_t i = 0; i < kStates; ++i)
    if (const Tensor* state = find(Rule::kStates[i], shape)) {
      loaded.states[i] = *state;
      any = true;
    }
  if (const Tensor* steps = find(kSteps, Shape{2})) {
    loaded.steps = count(kSteps, (*steps)(0), 0, kMostSteps - 1) * kMostSteps +
                   count(kSteps, (*steps)(1), 0, kMostSteps - 1);
  } else {
    check_argument(!any, Rule::kName, "::load_state: '", saved_name(kSteps), "' is missing");
  }

  const Tensor* table = find(kLateNumbers, shape);
  const Tensor* at = find(kLateAt, Shape{shape.empty() ? 0 : shape[0]});
  const Tensor* runs = find(kLateHistory, std::nullopt);
  check_argument((table == nullptr) == (at == nullptr) && (at == nullptr) == (runs == nullptr),
                 Rule::kName, "::load_state: of '", saved_name(kLateNumbers), "', '",
                 saved_name(kLateAt), "' and '", saved_name(kLateHistory), "' some are missing");
  if (table == nullptr) return loaded;
  check_argument(shape.size() == 2 && runs->dimension() == 2 && runs->shape()[1] == 1 + kFields,
                 Rule::kName, "::load_state: '", saved_name(kLateHistory), "' has shape ",
                 bracketed(runs->shape()), ", expected [runs, ", 1 + kFields, "]");
  loaded.table = *table;
  for (std::size_t i = 0; i < runs->shape()[0]; ++i) {
    const real* row = runs->data() + i * (1 + kFields);
    std::array<real, kFields> fields;
    std::copy_n(row + 1, kFields, fields.begin());
    loaded.history.append(std::bit_cast<Rule>(fields), count(kLateHistory, row[0], 1, kMostSteps));
  }
  for (const real number : *at)
    loaded.at.push_back(count(kLateAt, number, 0, loaded.history.steps()));
  return loaded;
}

template <class Rule>
void ParameterUpdates<Rule>::load(Loaded loaded) {
  if (lent_) parameter_->reclaim();
  steps_ = loaded.steps;
  for (std::size_t i = 0; i < kStates; ++i) {
    has_state_[i] = loaded.states[i].has_value();
    states_[i] = has_state_[i] ? std::move(*loaded.states[i]) : Tensor();
  }
  if (!loaded.table) return;
  table_ = std::move(*loaded.table);
  at_ = std::move(loaded.at);
  history_ = std::move(loaded.history);
  const Tensor numbers = read();
  const Tensor& present = parameter_->value();
  if (std::equal(numbers.begin(), numbers.end(), present.begin())) {
    parameter_->lend(*this);
    lent_ = true;
  } else {
    release();
  }
}

}  // namespace rowgrad
