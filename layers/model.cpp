#include <algorithm>
#include <cmath>

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

}  // namespace rowgrad
