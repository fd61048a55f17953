#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include <rowgrad/optim/callbacks/row_movement.hpp>

namespace rowgrad {
namespace {

using RowVector = std::vector<double>;

double dot(const RowVector& a, const RowVector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double length(const RowVector& movement) { return std::sqrt(dot(movement, movement)); }

void add(RowVector& sum, const RowVector& movement) {
  std::ranges::transform(sum, movement, sum.begin(), std::plus<>());
}

// Returns the gradient of a row; an empty span if the row has no gradient.
std::span<const real> gradient_of(const Parameter& table, std::int32_t row) {
  const Gradient& gradient = table.gradient();
  const std::size_t width = table.shape()[1];
  if (gradient.is_dense())
    return gradient.values().subspan(static_cast<std::size_t>(row) * width, width);
  if (gradient.is_rows())
    for (const auto [index, values] : gradient.rows())
      if (index == row) return values;
  return {};
}

}  // namespace

RowMovement::RowMovement(const Layer& model, const Parameter& table, std::int32_t row,
                         const RowMovementOptions& options)
    : table_(&table), row_(row), options_(options) {
  check_argument(table.shape().size() == 2, "RowMovement: ", table.name(), " has shape ",
                 bracketed(table.shape()), ", expected a table [rows, width]");
  check_argument(row >= 0 && static_cast<std::size_t>(row) < table.shape()[0], "RowMovement: row ",
                 row, " is out of range: ", table.name(), " has ", table.shape()[0], " rows");
  const std::vector<Parameter*> own = model.parameters(), on_tape = model.parameters_on_tape();
  for (std::size_t i = 0; i < own.size(); ++i)
    if (on_tape[i] == &table) trained_ = own[i];
  check_argument(trained_ != nullptr, "RowMovement: ", table.name(),
                 " is not a parameter of the model");
  by_gradients_ = by_momentum_ = by_decay_ = RowVector(table.shape()[1]);
}

std::vector<double> RowMovement::read(const TrainingRun& run) const {
  const TableLookup lookup{table_, {row_}};
  if (run.tables() != nullptr) run.tables()->fetch({&lookup, 1});
  const Tensor values = table_->rows({&row_, 1});
  return {values.begin(), values.end()};
}

void RowMovement::after_backward(const TrainingRun&, const Tape& tape) {
  for (const Tape::Lookup& lookup : tape.lookups()) {
    if (lookup.table != table_) continue;
    now_.lookups += static_cast<std::size_t>(std::ranges::count(lookup.ids, row_));
    const std::shared_ptr<const Ids>& tokens = lookup.tokens;
    if (tokens == nullptr) continue;
    const std::size_t context = tokens->shape().back();
    const std::size_t lookups_per_token = lookup.ids.size() / tokens->size();
    for (std::size_t begin = 0; begin < tokens->size(); begin += context) {
      std::vector<std::size_t> positions;
      for (std::size_t i = 0; i < context; ++i)
        if (std::ranges::count(
                std::span(lookup.ids.data() + (begin + i) * lookups_per_token, lookups_per_token),
                row_))
          positions.push_back(i);
      const std::span window(tokens->data() + begin, context);
      if (!positions.empty() && now_.windows.size() < options_.windows)
        now_.windows.push_back({{window.begin(), window.end()}, std::move(positions)});
    }
  }
}

void RowMovement::before_update(const TrainingRun& run) {
  if (start_.empty()) start_ = latest_ = read(run);
  const std::span<const real> gradient = gradient_of(*table_, row_);
  has_gradient_ = !gradient.empty();
  double squares = 0;
  for (const real g : gradient) squares += static_cast<double>(g) * static_cast<double>(g);
  now_.gradient_norm = std::sqrt(squares);
  decay_ = run.options().optimizer.decay_without_gradient(*trained_);
}

void RowMovement::after_step(const TrainingRun& run, const StepResult& result) {
  if (!result.loss) return;
  RowVector values = read(run);
  RowVector movement(values.size());
  for (std::size_t i = 0; i < movement.size(); ++i) {
    const double decayed = -decay_.value_or(0) * latest_[i];
    by_decay_[i] += decayed;
    movement[i] = values[i] - latest_[i] - decayed;
  }
  latest_ = std::move(values);
  counts_.knows_decay &= decay_.has_value();
  counts_.lookups += now_.lookups;
  ++(has_gradient_ ? counts_.with_gradient : counts_.without);
  add(has_gradient_ ? by_gradients_ : by_momentum_, movement);
  if (has_gradient_) {
    now_.step = run.steps();
    now_.moved = length(movement);
    keep({std::move(now_), std::move(movement)});
  }
  now_ = {};
}

// Keeps a step, and drops the least important one if there are too many. Prefers steps that looked
// the row up, because a dense gradient moves the row in all steps.
void RowMovement::keep(KeptStep kept) {
  kept_.push_back(std::move(kept));
  if (kept_.size() <= options_.steps) return;
  kept_.erase(std::ranges::min_element(kept_, {}, [](const KeptStep& each) {
    return std::pair(each.step.lookups > 0, each.step.moved);
  }));
}

RowMovement::Summary RowMovement::summary() const {
  Summary result = counts_;
  RowVector movement(latest_.size());
  std::ranges::transform(latest_, start_, movement.begin(), std::minus<>());
  result.moved = length(movement);
  const double squares = dot(movement, movement);
  const auto share = [&](const RowVector& part) {
    return squares > 0 ? dot(part, movement) / squares : 0;
  };
  result.by_gradients = share(by_gradients_);
  result.by_momentum = share(by_momentum_);
  result.by_decay = share(by_decay_);
  for (const KeptStep& kept : kept_) {
    result.steps.push_back(kept.step);
    result.steps.back().share = share(kept.movement);
  }
  std::ranges::sort(result.steps, {}, &Step::step);
  return result;
}

}  // namespace rowgrad
