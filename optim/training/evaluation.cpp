#include <algorithm>
#include <utility>
#include <vector>

#include <rowgrad/optim/training/evaluation.hpp>

namespace rowgrad {

std::optional<Score> evaluate(Model& model, DataLoader& loader, const EvaluateOptions& options) {
  const EvaluationMode mode(model);
  SingleProcess alone;
  ProcessGroup& ranks = options.ranks != nullptr ? *options.ranks : alone;
  const std::size_t last =
      options.batches > 0 ? std::min(options.batches, loader.size()) : loader.size();
  std::vector<double> sums;  // four of each batch of this rank, which is one of as many as ranks
  std::size_t batches = 0;
  std::optional<Batch> mine;
  for (const Batch& batch : loader) {
    if (batches % ranks.size() == ranks.rank()) mine = batch;
    if (++batches % ranks.size() == 0 || batches == last) {
      BatchScore score;
      if (options.tables != nullptr)
        options.tables->fetch(mine ? model.lookups(*mine) : std::vector<TableLookup>());
      Tape tape(Tape::inference);
      if (mine) score = model.score(tape, *std::exchange(mine, {}), options.accuracy);
      sums.insert(sums.end(), {score.loss, score.weight, static_cast<double>(score.correct),
                               static_cast<double>(score.predicted)});
    }
    if (options.after_batch && !options.after_batch()) return std::nullopt;
    if (batches == last) break;
  }
  const std::vector<double> all = ranks.gather(std::span<const double>(sums));
  double loss = 0, weight = 0, correct = 0, predicted = 0;
  for (std::size_t i = 0; i < batches; ++i) {
    const double* const of_batch = &all[i % ranks.size() * sums.size() + i / ranks.size() * 4];
    loss += of_batch[0];
    weight += of_batch[1];
    correct += of_batch[2];
    predicted += of_batch[3];
  }
  check_argument(weight > 0, "evaluate: none of the targets counts, so there is no mean");
  Score score{loss / weight};
  if (predicted > 0) score.accuracy = correct / predicted;
  return score;
}

}  // namespace rowgrad
