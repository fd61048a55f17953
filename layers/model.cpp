#include <algorithm>
#include <cmath>
#include <utility>

#include <rowgrad/layers/model.hpp>

namespace rowgrad {

double Model::loss_weight(const Batch& batch) const { return static_cast<double>(batch.rows()); }

BatchScore Model::score(Tape& tape, const Batch& batch, bool /*accuracy*/) {
  const double weight = this->loss_weight(batch);
  if (weight == 0) return {};
  return {.loss = loss(tape, batch).item() * weight, .weight = weight};
}

std::vector<TableLookup> Model::lookups(const Batch&) const { return {}; }

Variable Classifier::loss_with(Tape& tape, const Batch& batch, const CrossEntropyOptions& options) {
  return cross_entropy(logits(tape, batch), targets(batch), options);
}

void Classifier::set_loss(CrossEntropyOptions options) {
  check_argument(options.reduction == LossReduction::kMean && !options.target_weights,
                 "Classifier::set_loss: got a reduction other than kMean, or target_weights, "
                 "expected kMean without target_weights");
  loss_ = std::move(options);
}

double Classifier::loss_weight(const Batch& batch) const {
  return total_weight(targets(batch), classes(), loss_);
}

BatchScore Classifier::score(Tape& tape, const Batch& batch, bool accuracy) {
  CrossEntropyOptions sum_of = loss_;
  sum_of.reduction = LossReduction::kSum;
  BatchScore score{.weight = loss_weight(batch)};
  if (accuracy) {
    const Variable logits = this->logits(tape, batch);
    score.loss = cross_entropy(logits, targets(batch), sum_of).item();
    count_correct(score, logits.value(), targets(batch), loss_.ignore_index);
  } else if (score.weight > 0) {
    score.loss = loss_with(tape, batch, sum_of).item();
  }
  return score;
}

void count_correct(BatchScore& score, const Tensor& logits, const Ids& targets,
                   std::optional<std::int32_t> ignored) {
  check_argument(logits.dimension() > 0 && logits.size() == targets.size() * logits.shape().back(),
                 "count_correct: logits have shape ", bracketed(logits.shape()), ", targets ",
                 bracketed(targets.shape()), ", expected one row of logits for each target");
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

}  // namespace rowgrad
