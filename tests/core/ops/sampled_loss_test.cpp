#include "tests/test.hpp"

namespace {

struct SampledCase {
  std::vector<std::size_t> targets;  // shape of the targets
  std::size_t width, classes, samples;
  bool shared = false;
  LossReduction reduction = LossReduction::kMean;
  std::optional<std::int32_t> ignore_index = -100;
};

// Sizes around the boundaries of vectors, tiles and blocks of targets. Ids repeat, and samples hit
// targets.
const std::vector<SampledCase> kSampledCases{
    {{3}, 2, 4, 2},
    {{3}, 2, 4, 2, true},
    {{}, 5, 3, 2},
    {{2, 3}, 7, 11, 3, false, LossReduction::kSum},
    {{2, 3}, 7, 11, 6, true, LossReduction::kNone},
    {{9}, 16, 30, 5, false, LossReduction::kNone},
    {{8}, 17, 30, 20, true},
    {{10}, 31, 9, 5, false, LossReduction::kMean, 3},
    {{10}, 33, 9, 5, true, LossReduction::kMean, 3},
    {{17}, 70, 40, 4, false, LossReduction::kNone, 7},
    {{17}, 100, 40, 4, true, LossReduction::kSum, 7},
    {{2}, 3, 1, 4, false, LossReduction::kMean, 0},
    {{2}, 3, 1, 4, true, LossReduction::kSum, 0},
    {{0}, 3, 5, 2, true},
};

Ids spread_ids(const std::vector<std::size_t>& shape, std::size_t classes, std::size_t factor) {
  Ids ids = Ids::from_shape(Ids::shape_type(shape.begin(), shape.end()));
  for (std::size_t k = 0; k < ids.size(); ++k)
    ids.data()[k] = static_cast<std::int32_t>((factor * k + k / 3) % classes);
  return ids;
}

Ids targets_of(const SampledCase& item) { return spread_ids(item.targets, item.classes, 5); }

NegativeSamples samples_of(const SampledCase& item) {
  std::vector<std::size_t> shape = item.shared ? std::vector<std::size_t>() : item.targets;
  shape.push_back(item.samples);
  return {spread_ids(shape, item.classes, 7), irregular(Shape(shape.begin(), shape.end()), 4)};
}

std::vector<Tensor> inputs_of(const SampledCase& item, std::size_t bias_rank) {
  Shape x(item.targets.begin(), item.targets.end());
  x.push_back(item.width);
  std::vector<Tensor> inputs{irregular(x, 1), irregular({item.classes, item.width}, 2)};
  if (bias_rank == 1) inputs.push_back(irregular({item.classes}, 3));
  if (bias_rank == 2) inputs.push_back(irregular({item.classes, 1}, 3));
  return inputs;
}

Variable negative_sampling(Inputs in, const SampledCase& item) {
  return negative_sampling_loss(
      in[0], in[1], targets_of(item), samples_of(item).ids,
      {.reduction = item.reduction, .negative_weight = 0.75, .ignore_index = item.ignore_index});
}

Variable sampled_softmax(Inputs in, const SampledCase& item) {
  const auto bias = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
  return sampled_softmax_loss(in[0], in[1], bias, targets_of(item), samples_of(item),
                              {.reduction = item.reduction, .ignore_index = item.ignore_index});
}

// Returns the losses of the targets, computed with loops in double precision.
std::vector<double> losses_by_loops(const std::vector<Tensor>& in, const SampledCase& item,
                                    bool softmax) {
  const Ids targets = targets_of(item);
  const NegativeSamples samples = samples_of(item);
  std::vector<double> losses;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto logit = [&](std::int32_t id) {
      double sum = in.size() > 2 ? in[2].data()[id] : 0;
      for (std::size_t j = 0; j < item.width; ++j)
        sum += static_cast<double>(in[0].data()[i * item.width + j]) *
               in[1].data()[static_cast<std::size_t>(id) * item.width + j];
      return sum;
    };
    const std::int32_t target = targets.data()[i];
    const double of_target = logit(target);
    double loss = std::log1p(std::exp(-of_target)), sum = std::exp(of_target);
    for (std::size_t j = 0; j < item.samples; ++j) {
      const std::size_t at = (item.shared ? 0 : i * item.samples) + j;
      const std::int32_t id = samples.ids.data()[at];
      if (id == target) continue;
      loss += 0.75 * std::log1p(std::exp(logit(id)));
      sum += std::exp(logit(id) - samples.log_expected_counts.data()[at]);
    }
    if (softmax) loss = std::log(sum) - of_target;
    losses.push_back(target == item.ignore_index ? 0 : loss);
  }
  return losses;
}

constexpr double kTolerance = sizeof(real) == 4 ? 2e-5 : 1e-12;

TEST(SampledLoss, MatchesLoops) {
  for (const SampledCase& item : kSampledCases)
    for (const bool softmax : {false, true})
      for (const std::size_t bias : {0, 1, 2}) {
        if (bias > 0 && !softmax) continue;
        const std::vector<Tensor> inputs = inputs_of(item, bias);
        Tape tape(Tape::kInference);
        const Variable loss = softmax ? sampled_softmax(inputs_on(tape, inputs), item)
                                      : negative_sampling(inputs_on(tape, inputs), item);
        const std::vector<double> expected = losses_by_loops(inputs, item, softmax);
        const Ids targets = targets_of(item);
        const auto masked = std::count(targets.begin(), targets.end(), item.ignore_index.value());
        const auto count = static_cast<double>(targets.size()) - static_cast<double>(masked);
        const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
        const std::string what = concat("width ", item.width, " softmax ", softmax);
        if (item.reduction == LossReduction::kNone) {
          ASSERT_EQ(loss.shape(), Shape(item.targets.begin(), item.targets.end()));
          for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_NEAR(loss.value().data()[i], expected[i], kTolerance * (1 + expected[i]))
                << what;
        } else {
          const bool mean = item.reduction == LossReduction::kMean;
          EXPECT_NEAR(loss.item(), mean ? total / std::max(count, 1.0) : total,
                      kTolerance * (1 + total))
              << what;
        }
      }
}

TEST(SampledLoss, HasGradientsOfAllInputs) {
  for (const SampledCase& item : kSampledCases) {
    const std::string what = concat("width ", item.width, " shared ", item.shared);
    expect_gradients([&](Inputs in) { return negative_sampling(in, item); }, inputs_of(item, 0),
                     what);
    for (const std::size_t bias : {0, 1, 2})
      expect_gradients([&](Inputs in) { return sampled_softmax(in, item); }, inputs_of(item, bias),
                       what);
  }
}

TEST(SampledLoss, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const bool shared : {false, true}) {
    const SampledCase item{{700}, 90, 50, 30, shared, LossReduction::kMean, 3};
    const std::vector<Tensor> inputs = inputs_of(item, 2);
    const auto bits = [&](int threads) {
      const Threads count(threads);
      std::string all;
      for (Gradient& g : gradients_of([&](Inputs in) { return sampled_softmax(in, item); }, inputs))
        all += bits_of(std::move(g).take_dense());
      return all;
    };
    EXPECT_TRUE(bits(1) == bits(2) && bits(1) == bits(3)) << shared;
  }
}

}  // namespace
