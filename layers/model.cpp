#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <rowgrad/core/parallel/split_rows.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

double Model::weight(const Batch& batch) const { return static_cast<double>(batch.rows()); }

BatchScore Model::score(Tape& tape, const Batch& batch, bool /*accuracy*/) {
  const double weight = this->weight(batch);
  if (weight == 0) return {};
  return {.loss = loss(tape, batch).item() * weight, .weight = weight};
}

std::vector<TableLookup> Model::lookups(const Batch&) const { return {}; }

void count_correct(BatchScore& score, const Tensor& logits, const Ids& targets,
                   std::optional<std::int32_t> ignored) {
  check_argument(logits.dimension() > 0 && logits.size() == targets.size() * logits.shape().back(),
                 "count_correct: logits have shape ", bracketed(logits.shape()), ", targets ",
                 bracketed(targets.shape()), ", expected as many rows");
  const std::size_t classes = logits.shape().back();
  for (std::size_t row = 0; row < targets.size(); ++row) {
    const std::int32_t target = targets.data()[row];
    if (target == ignored) continue;
    const real* begin = logits.data() + row * classes;
    const bool known = std::none_of(begin, begin + classes, [](real x) { return std::isnan(x); });
    score.correct += known && std::max_element(begin, begin + classes) - begin == target ? 1U : 0U;
    ++score.predicted;
  }
}

std::optional<Score> evaluate(Model& model, DataLoader& loader, const EvaluateOptions& options) {
  const EvaluationMode mode(model);
  SingleProcess alone;
  ProcessGroup& ranks = options.ranks != nullptr ? *options.ranks : alone;
  const SplitTables tables(model.parameters());
  const std::size_t last =
      options.batches > 0 ? std::min(options.batches, loader.size()) : loader.size();
  std::vector<double> sums;  // four of each batch of this rank, which is one of as many as ranks
  std::size_t batches = 0;
  std::optional<Batch> mine;
  for (const Batch& batch : loader) {
    if (batches % ranks.size() == ranks.rank()) mine = batch;
    if (++batches % ranks.size() == 0 || batches == last) {
      BatchScore score;
      if (mine && !tables.empty())
        for (const TableLookup& lookup : model.lookups(*mine)) lookup.table->read_ahead(lookup.ids);
      if (tables.ranks() == ranks.size()) tables.fetch();
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
