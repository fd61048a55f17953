#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>
#include <utility>

#include <rowgrad/core/tensor/negative_sampler.hpp>

namespace rowgrad {

NegativeSampler::NegativeSampler(std::span<const double> weights) {
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  const std::size_t classes = weights.size();
  check_argument(classes > 0 && classes <= kMax, "NegativeSampler: there are ", classes,
                 " weights, expected 1 to ", kMax);
  for (std::size_t i = 0; i < classes; ++i)
    if (!(weights[i] >= 0 && std::isfinite(weights[i])))
      check_argument(false, "NegativeSampler: weight ", i, " is ", weights[i],
                     ", expected a finite number >= 0");
  const double largest = *std::ranges::max_element(weights);
  check_argument(largest > 0, "NegativeSampler: all ", classes,
                 " weights are 0, expected one above 0");
  long double total = 0;
  for (const double weight : weights) total += weight / largest;  // does not overflow
  // Fills each cell whose share is below 1 from a cell whose share is at least 1.
  const auto table = std::make_shared<Table>();
  std::vector<std::int32_t> small, large;
  for (std::size_t i = 0; i < classes; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const auto share = static_cast<double>(weights[i] / largest / total * classes);
    table->cells.push_back({share, id});
    (share < 1 ? small : large).push_back(id);
  }
  while (!small.empty() && !large.empty()) {
    Cell& to = table->cells[static_cast<std::size_t>(small.back())];
    Cell& from = table->cells[static_cast<std::size_t>(large.back())];
    small.pop_back();
    to.alias = large.back();
    from.share -= 1 - to.share;
    if (from.share >= 1) continue;
    small.push_back(large.back());
    large.pop_back();
  }
  table->probabilities.resize(classes);
  for (std::size_t i = 0; i < classes; ++i) {
    const auto [share, alias] = table->cells[i];  // if `alias` is i, share is 1 except for rounding
    table->probabilities[i] += share / static_cast<double>(classes);
    table->probabilities[static_cast<std::size_t>(alias)] +=
        (1 - share) / static_cast<double>(classes);
  }
  for (const double p : table->probabilities) table->possible += p > 0;
  table_ = table;
}

NegativeSampler NegativeSampler::from_counts(std::span<const std::uint64_t> counts, double power) {
  std::vector<double> weights;
  for (const std::uint64_t count : counts)
    weights.push_back(count > 0 ? std::pow(static_cast<double>(count), power) : 0);
  return NegativeSampler(weights);
}

double NegativeSampler::probability(std::int32_t id) const {
  check_argument(id >= 0 && static_cast<std::size_t>(id) < classes(),
                 "NegativeSampler::probability: id ", id, " is out of range: there are ", classes(),
                 " classes");
  return table_->probabilities[static_cast<std::size_t>(id)];
}

inline std::int32_t NegativeSampler::draw_one(Random& random) const {
  // The integer part chooses a cell, and the fraction a class of the cell.
  const double at = random.uniform_double() * static_cast<double>(classes());
  const auto i = static_cast<std::int32_t>(at);
  const Cell& cell = table_->cells[static_cast<std::size_t>(i)];
  const std::int32_t choices[] = {cell.alias, i};  // avoids an unpredictable branch
  return choices[at - i < cell.share];
}

void NegativeSampler::fill(std::span<std::int32_t> ids, Random& random) const {
  for (std::int32_t& id : ids) id = draw_one(random);
}

NegativeSamples NegativeSampler::draw(const Shape& shape, Random& random) const {
  check_argument(!shape.empty() && shape.back() > 0, "NegativeSampler::draw: the shape is ",
                 bracketed(shape), ", expected a last extent above 0");
  element_count(shape, "NegativeSampler::draw");
  NegativeSamples samples{Ids::from_shape({shape.begin(), shape.end()}), empty(shape)};
  fill({samples.ids.data(), samples.ids.size()}, random);
  std::transform(samples.ids.begin(), samples.ids.end(), samples.log_expected_counts.data(),
                 [&, count = static_cast<double>(shape.back())](std::int32_t id) {
                   return static_cast<real>(std::log(count * probability(id)));
                 });
  return samples;
}

NegativeSamples NegativeSampler::draw_distinct(std::size_t count, Random& random) const {
  check_argument(count > 0 && count <= table_->possible,
                 "NegativeSampler::draw_distinct: count is ", count, ", expected 1 to ",
                 table_->possible, ", the number of classes with nonzero weight");
  // Lets draws arrive at random times at rate 1. So each class first arrives after an exponential
  // time at the rate of its probability, independently of the others.
  const auto exponential = [&random] { return -std::log1p(-random.uniform_double()); };
  std::vector<std::pair<double, std::int32_t>> arrivals;
  std::unordered_set<std::int32_t> arrived;
  double time = 0;
  for (std::size_t draws = 0; draws < classes() && arrivals.size() <= count; ++draws) {
    time += exponential();
    const std::int32_t id = draw_one(random);
    if (arrived.insert(id).second) arrivals.emplace_back(time, id);
  }
  if (arrivals.size() <= count) {  // draws the times of the others, which may be rare
    for (std::int32_t id = 0; id < static_cast<std::int32_t>(classes()); ++id)
      if (const double p = probability(id); p > 0 && !arrived.contains(id))
        arrivals.emplace_back(time + exponential() / p, id);
    std::sort(arrivals.begin(), arrivals.end());
  }
  // Given the other classes' times, a sample has arrived before the first class that is left out.
  const double end = count < arrivals.size() ? arrivals[count].first : HUGE_VAL;
  NegativeSamples samples{Ids::from_shape({count}), empty({count})};
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t id = samples.ids.data()[i] = arrivals[i].second;
    samples.log_expected_counts.data()[i] =
        static_cast<real>(std::log(-std::expm1(-probability(id) * end)));
  }
  return samples;
}

}  // namespace rowgrad
