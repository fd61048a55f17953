#include <algorithm>
#include <cmath>
#include <utility>

#include <rowgrad/core/parallel/sharded_table.hpp>
#include <rowgrad/optim/training/step_gradients.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

StepGradients::StepGradients(const TrainingRunOptions& parts, ProcessGroup& group)
    : parts_(parts), group_(group) {
  follow_optimizer();
}

IndexRange StepGradients::own_shards() const {
  return range_of(parts_.slices, group_.rank(), group_.size());
}

// Returns the table of which this parameter is a slice, or null.
ShardedTable* StepGradients::table_of(const Parameter& parameter) const {
  ShardedTable* const table = parts_.ranks != nullptr ? parts_.ranks->find(parameter) : nullptr;
  return table != nullptr && !table->is_whole() ? table : nullptr;
}

// Prepares for parameters that were added to the optimizer.
void StepGradients::follow_optimizer() {
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  if (indices_.size() == parameters.size()) return;
  std::vector<Shape> shapes;
  indices_.clear();
  for (const Parameter* parameter : parameters) {
    ShardedTable* const table = table_of(*parameter);
    const Parameter& on_tape = table != nullptr ? table->table() : *parameter;
    indices_[&on_tape] = shapes.size();
    shapes.push_back(on_tape.shape());
  }
  if (parts_.ranks != nullptr)
    sum_ = parts_.ranks->gradient_sum(parts_.slices, std::move(shapes), parts_.bucket_bytes);
}

// Returns the sum of `own` over all ranks. Every rank passes one value for each part of the step,
// with 0 for parts of other ranks, so the sum does not depend on the number of ranks.
double StepGradients::sum_of_parts(const std::vector<double>& own) const {
  const std::vector<double> all = group_.all_gather(std::span<const double>(own));
  double sum = 0;
  for (std::size_t part = 0; part < own.size(); ++part)
    for (std::size_t rank = 0; rank < group_.size(); ++rank) sum += all[rank * own.size() + part];
  return sum;
}

StepGradients::Loss StepGradients::add(const std::vector<Batch>& parts, bool watched,
                                       const std::function<void(const Tape&)>& after_backward) {
  follow_optimizer();
  const IndexRange own = own_shards();
  const std::size_t count = parts.size() / own.size();  // number of batches
  // [slice][batch]: the weight of each part, later divided by the step's total weight
  std::vector<double> shares(parts_.slices * count);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double weight = parts_.model.loss_weight(parts[i]);
    shares[(own.begin + i % own.size()) * count + i / own.size()] = weight;
    check_argument(std::isfinite(weight) && weight >= 0, "TrainingRun: the weight of a batch is ",
                   weight, ", expected a finite value of at least 0");
  }
  const double weight = sum_of_parts(shares);
  check_argument(std::isfinite(weight), "TrainingRun: the weights of a step add up to ", weight,
                 ", expected a finite sum");
  for (double& share : shares)
    if (share > 0) share /= weight;

  // With several slices, each has its own generator, whichever rank computes it.
  const std::uint32_t seed = parts_.slices > 1 ? parts_.random.bits() : 0;
  std::vector<double> losses(parts_.slices * count);  // [slice][batch]: loss · share
  // With `give`, gradients that the last batch contributes to go to sum_ and are not returned.
  const auto gradients_of = [&](std::size_t slice, bool give) {
    Gradients sums(indices_.size());
    std::optional<Random> random_of_slice;
    if (parts_.slices > 1)
      random_of_slice.emplace(seed + 0x9E3779B9U * static_cast<std::uint32_t>(slice));
    for (std::size_t i = 0; i < count; ++i) {
      const double share = shares[slice * count + i];
      if (share == 0) continue;
      Tape tape(random_of_slice ? *random_of_slice : parts_.random);
      const Variable loss = parts_.model.loss(tape, parts[i * own.size() + slice - own.begin]);
      const auto sink = [&](Parameter& parameter, Gradient gradient) {
        const auto found = indices_.find(&parameter);
        check_state(found != indices_.end() || table_of(parameter) == nullptr,
                    "TrainingRun: ", parameter.name(),
                    " is a slice of a table and got a gradient, expected a loss that only looks up "
                    "its rows");
        if (found == indices_.end()) parts_.optimizer.check_trains_all(tape);
        check_state(found != indices_.end(), "TrainingRun: ", parameter.name(),
                    " was added to the optimizer during a step, expected a call between steps");
        const std::size_t p = found->second;
        if (!give || i + 1 < count) return sums[p].add(std::move(gradient));
        if (!sums[p].is_none()) gradient.add(std::exchange(sums[p], {}));
        sum_->submit(p, std::move(gradient));
      };
      tape.backward(loss, scalar(static_cast<real>(share)), {.keep_values = false, .sink = sink});
      after_backward(tape);
      losses[slice * count + i] = loss.item() * share;
    }
    return sums;
  };
  const auto sum_of = [&](IndexRange slices) {
    return tree_sum<Gradients>(
        slices,
        [&](IndexRange range, Gradients& gradients) {
          if (range.size() == 1) gradients = gradients_of(range.begin, false);
          return range.size() == 1;
        },
        [](Gradients& a, Gradients&& b) { rowgrad::add(a, std::move(b)); });
  };
  const auto sum_over_ranks = [&] {
    const std::vector<IndexRange>& subtrees = sum_->subtrees();
    std::vector<Gradients> earlier;
    for (std::size_t i = 0; i + 1 < subtrees.size(); ++i) earlier.push_back(sum_of(subtrees[i]));
    std::vector<bool> sharded;
    for (const Parameter* parameter : parts_.optimizer.parameters())
      sharded.push_back(!watched && table_of(*parameter) != nullptr);
    sum_->start(std::move(earlier), std::move(sharded));
    // Other ranks get the gradients of the last slice during its backward pass.
    Gradients rest = gradients_of(subtrees.back().begin, true);
    for (std::size_t p = 0; p < rest.size(); ++p)
      if (!rest[p].is_none()) sum_->submit(p, std::move(rest[p]));
    return sum_->finish();
  };
  Gradients sums = sum_ != nullptr ? sum_over_ranks() : sum_of({0, parts_.slices});
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    ShardedTable* const table = table_of(*parameters[p]);
    if (table != nullptr && sums[p].is_rows())
      parts_.ranks->add_gradient(*table, std::move(sums[p]), watched);
    else if (!sums[p].is_none())
      parameters[p]->add_gradient(std::move(sums[p]));
  }
  return {.mean = sum_of_parts(losses), .weight = weight};
}

}  // namespace rowgrad
