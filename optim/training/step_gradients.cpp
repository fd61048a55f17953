#include <algorithm>
#include <cmath>
#include <utility>

#include <rowgrad/core/parallel/sharded_table.hpp>
#include <rowgrad/optim/training/step_gradients.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {

StepGradients::StepGradients(const TrainingRunOptions& options, ProcessGroup& group)
    : options_(options), group_(group) {
  follow_optimizer();
}

IndexRange StepGradients::own_slices() const {
  return range_of(options_.slices, group_.rank(), group_.size());
}

// Returns the sharded table that this parameter is a shard of, or null.
ShardedTable* StepGradients::table_of(const Parameter& parameter) const {
  ShardedTable* const table = options_.ranks != nullptr ? options_.ranks->find(parameter) : nullptr;
  return table != nullptr && !table->is_whole() ? table : nullptr;
}

// Includes parameters that were added to the optimizer since the last step.
void StepGradients::follow_optimizer() {
  const std::vector<Parameter*>& parameters = options_.optimizer.parameters();
  if (indices_.size() == parameters.size()) return;
  std::vector<Shape> shapes;
  indices_.clear();
  for (const Parameter* parameter : parameters) {
    ShardedTable* const table = table_of(*parameter);
    const Parameter& on_tape = table != nullptr ? table->table() : *parameter;
    indices_[&on_tape] = shapes.size();
    shapes.push_back(on_tape.shape());
  }
  if (options_.ranks != nullptr)
    sum_ = options_.ranks->gradient_sum(options_.slices, std::move(shapes), options_.bucket_bytes);
}

// Returns the sum of `own` over all ranks. Every rank passes one value for each slice of each
// batch, with 0 for slices of other ranks, so the sum does not depend on the number of ranks.
double StepGradients::sum_of_slices(const std::vector<double>& own) const {
  const std::vector<double> all = group_.all_gather(std::span<const double>(own));
  double sum = 0;
  for (std::size_t slice = 0; slice < own.size(); ++slice)
    for (std::size_t rank = 0; rank < group_.size(); ++rank) sum += all[rank * own.size() + slice];
  return sum;
}

StepGradients::Loss StepGradients::add(const std::vector<Batch>& slices, bool watched,
                                       const std::function<void(const Tape&)>& after_backward) {
  follow_optimizer();
  const IndexRange own = own_slices();
  const std::size_t count = slices.size() / own.size();  // number of batches
  // [slice][batch]: the weight of each slice, later divided by the step's total weight
  std::vector<double> shares(options_.slices * count);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const double weight = options_.model.loss_weight(slices[i]);
    shares[(own.begin + i % own.size()) * count + i / own.size()] = weight;
    check_argument(std::isfinite(weight) && weight >= 0, "TrainingRun: the weight of a batch is ",
                   weight, ", expected a finite value >= 0");
  }
  const double weight = sum_of_slices(shares);
  check_argument(std::isfinite(weight), "TrainingRun: the weights of a step add up to ", weight,
                 ", expected a finite sum");
  for (double& share : shares)
    if (share > 0) share /= weight;

  // With several slices, each slice has its own generator, whichever rank computes the slice.
  const std::uint32_t seed = options_.slices > 1 ? options_.random.bits() : 0;
  std::vector<double> losses(options_.slices * count);  // [slice][batch]: loss · share
  // Returns the gradients of a slice of all batches. If `submit`, gradients are submitted to sum_
  // during the backward pass of the last batch instead, and only the remaining gradients are
  // returned.
  const auto gradients_of = [&](std::size_t slice, bool submit) {
    Gradients sums(indices_.size());
    std::optional<Random> random_of_slice;
    if (options_.slices > 1)
      random_of_slice.emplace(seed + 0x9E3779B9U * static_cast<std::uint32_t>(slice));
    for (std::size_t i = 0; i < count; ++i) {
      const double share = shares[slice * count + i];
      if (share == 0) continue;
      Tape tape(random_of_slice ? *random_of_slice : options_.random);
      const Variable loss = options_.model.loss(tape, slices[i * own.size() + slice - own.begin]);
      const auto sink = [&](Parameter& parameter, Gradient gradient) {
        const auto found = indices_.find(&parameter);
        check_state(found != indices_.end() || table_of(parameter) == nullptr,
                    "TrainingRun: ", parameter.name(),
                    " is a shard of a table and got a gradient, expected a loss that only looks up "
                    "its rows");
        if (found == indices_.end()) options_.optimizer.check_trains_all(tape);
        check_state(found != indices_.end(), "TrainingRun: ", parameter.name(),
                    " was added to the optimizer during a step, expected a call between steps");
        const std::size_t p = found->second;
        if (!submit || i + 1 < count) return sums[p].add(std::move(gradient));
        if (!sums[p].is_none()) gradient.add(std::exchange(sums[p], {}));
        sum_->submit(p, std::move(gradient));
      };
      tape.backward(loss, scalar(static_cast<real>(share)), {.keep_values = false, .sink = sink});
      after_backward(tape);
      losses[slice * count + i] = loss.item() * share;
    }
    return sums;
  };
  const auto sum_of = [&](IndexRange some_slices) {
    return tree_sum<Gradients>(
        some_slices,
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
    for (const Parameter* parameter : options_.optimizer.parameters())
      sharded.push_back(!watched && table_of(*parameter) != nullptr);
    sum_->start(std::move(earlier), std::move(sharded));
    // Other ranks get the gradients of the last slice during its backward pass.
    Gradients rest = gradients_of(subtrees.back().begin, true);
    for (std::size_t p = 0; p < rest.size(); ++p)
      if (!rest[p].is_none()) sum_->submit(p, std::move(rest[p]));
    return sum_->finish();
  };
  Gradients sums = sum_ != nullptr ? sum_over_ranks() : sum_of({0, options_.slices});
  const std::vector<Parameter*>& parameters = options_.optimizer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    ShardedTable* const table = table_of(*parameters[p]);
    if (table != nullptr && sums[p].is_rows())
      options_.ranks->add_gradient(*table, std::move(sums[p]), watched);
    else if (!sums[p].is_none())
      parameters[p]->add_gradient(std::move(sums[p]));
  }
  return {.mean = sum_of_slices(losses), .weight = weight};
}

}  // namespace rowgrad
