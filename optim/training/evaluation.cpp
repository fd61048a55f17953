#include <algorithm>
#include <vector>

#include <rowgrad/optim/training/evaluation.hpp>

namespace rowgrad {

std::optional<Score> evaluate(Model& model, const DataLoader& loader,
                              const EvaluateOptions& options) {
  const EvaluationMode mode(model);
  SingleProcess alone;
  ProcessGroup& ranks = options.ranks != nullptr ? *options.ranks : alone;
  const DataLoader::Epoch epoch =
      options.random != nullptr ? loader.epoch(loader.start(0, *options.random)) : loader.epoch(0);
  const std::size_t all = loader.batches();
  check_argument(all > 0, "evaluate: the loader has no batches, expected at least 1");
  const std::size_t count = options.batches > 0 ? std::min(options.batches, all) : all;
  std::vector<double> sums;  // four sums for each batch of this rank
  for (std::size_t first = 0; first < count; first += ranks.size()) {
    std::optional<Batch> batch;  // empty if the last round has no batch for this rank
    if (first + ranks.rank() < count) batch = epoch.read(first + ranks.rank());
    if (options.tables != nullptr)
      options.tables->fetch(batch ? model.lookups(*batch) : std::vector<TableLookup>());
    BatchScore score;
    Tape tape(Tape::kInference);
    if (batch) score = model.score(tape, *batch, options.accuracy);
    sums.insert(sums.end(), {score.loss, score.weight, static_cast<double>(score.correct),
                             static_cast<double>(score.predicted)});
    if (options.after_batch && !options.after_batch()) return std::nullopt;
  }
  const std::vector<double> of_ranks = ranks.all_gather(std::span<const double>(sums));
  double loss = 0, weight = 0, correct = 0, predicted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double* const of_batch = &of_ranks[i % ranks.size() * sums.size() + i / ranks.size() * 4];
    loss += of_batch[0];
    weight += of_batch[1];
    correct += of_batch[2];
    predicted += of_batch[3];
  }
  check_argument(weight > 0,
                 "evaluate: all targets have weight 0, expected at least one with nonzero weight");
  Score score{loss / weight};
  if (predicted > 0) score.accuracy = correct / predicted;
  return score;
}

}  // namespace rowgrad
