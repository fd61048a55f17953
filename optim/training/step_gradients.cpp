#include <algorithm>
#include <utility>

#include <rowgrad/optim/training/step_gradients.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

// How many batches have targets that count, at least 1: the mean of a step is over these.
double counted_batches(std::span<const double> weights) {
  const auto count = std::ranges::count_if(weights, [](double weight) { return weight > 0; });
  return static_cast<double>(std::max<std::ptrdiff_t>(count, 1));
}

Batch rows_of(const Batch& batch, IndexRange part) {
  const auto cut = [&](const Ids& ids) {
    Ids rows = Ids::from_shape({part.size(), ids.shape(1)});
    std::copy_n(ids.data() + part.begin * ids.shape(1), rows.size(), rows.data());
    return rows;
  };
  return {cut(batch.inputs), cut(batch.targets)};
}

// Of numbers [shard][batch], the sums over shards.
std::vector<double> sums_of_shards(const std::vector<double>& numbers, std::size_t batches) {
  std::vector<double> sums(batches);
  for (std::size_t i = 0; i < numbers.size(); ++i) sums[i % batches] += numbers[i];
  return sums;
}

}  // namespace

double StepGradients::Losses::mean() const {
  double sum = 0;
  for (const double mean : means) sum += mean;
  return sum / counted_batches(weights);
}

StepGradients::StepGradients(const TrainingParts& parts, ProcessGroup& ranks)
    : parts_(parts), ranks_(ranks) {
  follow_optimizer();
}

BatchShard StepGradients::shard() const {
  const IndexRange own = range_of(parts_.shards, ranks_.rank(), ranks_.size());
  return {own.begin, own.end, parts_.shards};
}

// Prepares for the optimizer's parameters, which may have become more.
void StepGradients::follow_optimizer() {
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  if (exchange_ && indices_.size() == parameters.size()) return;
  std::vector<Shape> shapes;
  indices_.clear();
  for (const Parameter* parameter : parameters) {
    indices_[parameter] = shapes.size();
    shapes.push_back(parameter->shape());
  }
  exchange_.emplace(ranks_, parts_.shards, std::move(shapes), parts_.bucket_bytes);
}

// The rows of a shard of a batch that has so many `rows` on all ranks.
Batch StepGradients::part_of(const Batch& batch, std::size_t rows, std::size_t shard) const {
  const IndexRange part = range_of(rows, shard, parts_.shards);
  const std::size_t first = parts_.loader.shard().rows(rows).begin;  // that was read
  return rows_of(batch, {part.begin - first, part.end - first});
}

// Numbers [shard][batch], of which each rank has those of its own shards.
std::vector<double> StepGradients::of_all_shards(const std::vector<double>& own) const {
  const std::vector<double> all = ranks_.gather(std::span<const double>(own));
  const std::size_t batches = own.size() / parts_.shards;
  std::vector<double> numbers;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const IndexRange shards = range_of(parts_.shards, rank, ranks_.size());
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(rank * own.size());
    numbers.insert(numbers.end(), first + static_cast<std::ptrdiff_t>(shards.begin * batches),
                   first + static_cast<std::ptrdiff_t>(shards.end * batches));
  }
  return numbers;
}

StepGradients::Losses StepGradients::add(std::span<const Batch> batches, std::size_t first,
                                         const std::function<void(const Tape&)>& after_backward) {
  follow_optimizer();
  const std::size_t count = batches.size();
  std::vector<Batch> parts;                           // [own shard][batch]
  std::vector<double> shares(parts_.shards * count);  // [shard][batch]: first weights of targets
  const IndexRange own = range_of(parts_.shards, ranks_.rank(), ranks_.size());
  for (std::size_t shard = own.begin; shard < own.end; ++shard)
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(part_of(batches[i], parts_.loader.rows(first + i), shard));
      shares[shard * count + i] =
          total_weight(parts.back().targets, parts_.model.classes(), parts_.loss);
    }
  const std::vector<double> weights = sums_of_shards(of_all_shards(shares), count);
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (shares[i] > 0) shares[i] /= weights[i % count];

  // With several shards, each has random numbers of its own, on whatever rank it is.
  const std::uint32_t seed = parts_.shards > 1 ? parts_.random.bits() : 0;
  std::vector<double> losses(parts_.shards * count);  // [shard][batch], shares of the mean
  // With `give`, the exchange gets those that the last batch has a part in, and they are not
  // returned.
  const auto gradients_of = [&](std::size_t shard, bool give) {
    Gradients sums(indices_.size());
    std::optional<Random> random_of_shard;
    if (parts_.shards > 1)
      random_of_shard.emplace(seed + 0x9E3779B9U * static_cast<std::uint32_t>(shard));
    for (std::size_t i = 0; i < count; ++i) {
      const double share = shares[shard * count + i];
      if (share == 0) continue;
      const Batch& part = parts[(shard - own.begin) * count + i];
      Tape tape(random_of_shard ? *random_of_shard : parts_.random);
      const Variable loss = parts_.model.loss(tape, part.inputs, part.targets, parts_.loss);
      const auto sink = [&](Parameter& parameter, Gradient gradient) {
        if (!indices_.contains(&parameter)) parts_.optimizer.check_trains_all(tape);
        const std::size_t p = indices_.at(&parameter);
        sums[p].add(std::move(gradient));
        if (give && i + 1 == count) exchange_->give(p, std::exchange(sums[p], {}));
      };
      tape.backward(loss, scalar(static_cast<real>(share / counted_batches(weights))),
                    {.keep_values = false, .sink = sink});
      after_backward(tape);
      losses[shard * count + i] = loss.item() * share;
    }
    return sums;
  };
  const std::vector<IndexRange>& subtrees = exchange_->subtrees();
  std::vector<Gradients> earlier;
  for (std::size_t i = 0; i + 1 < subtrees.size(); ++i)
    earlier.push_back(sum_of_tree<Gradients>(
        subtrees[i],
        [&](IndexRange range, Gradients& gradients) {
          if (range.size() == 1) gradients = gradients_of(range.begin, false);
          return range.size() == 1;
        },
        [](Gradients& a, Gradients&& b) { rowgrad::add(a, std::move(b)); }));
  exchange_->start(std::move(earlier));
  // Others get the gradients of the last shard while it still goes backward.
  Gradients rest = gradients_of(subtrees.back().begin, true);
  for (std::size_t p = 0; p < rest.size(); ++p)
    if (!rest[p].is_none()) exchange_->give(p, std::move(rest[p]));
  Gradients sums = exchange_->finish();
  const std::vector<Parameter*>& parameters = parts_.optimizer.parameters();
  for (std::size_t p = 0; p < parameters.size(); ++p)
    if (!sums[p].is_none()) parameters[p]->add_gradient(std::move(sums[p]));
  return {sums_of_shards(of_all_shards(losses), count), weights};
}

}  // namespace rowgrad
