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
    {{9}, 70, 9, 4, false, LossReduction::kNone, 7},
    {{9}, 67, 9, 4, true, LossReduction::kSum, 7},
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

Ids sampled_targets(const SampledCase& item) { return spread_ids(item.targets, item.classes, 5); }

NegativeSamples samples_for(const SampledCase& item) {
  std::vector<std::size_t> shape = item.shared ? std::vector<std::size_t>() : item.targets;
  shape.push_back(item.samples);
  return {spread_ids(shape, item.classes, 7), irregular(Shape(shape.begin(), shape.end()), 4)};
}

std::vector<Tensor> sampled_inputs(const SampledCase& item, std::size_t bias_rank) {
  Shape x(item.targets.begin(), item.targets.end());
  x.push_back(item.width);
  std::vector<Tensor> inputs{irregular(x, 1), irregular({item.classes, item.width}, 2)};
  if (bias_rank == 1) inputs.push_back(irregular({item.classes}, 3));
  if (bias_rank == 2) inputs.push_back(irregular({item.classes, 1}, 3));
  return inputs;
}

Variable negative_sampling(Inputs in, const SampledCase& item) {
  return negative_sampling_loss(
      in[0], in[1], sampled_targets(item), samples_for(item).ids,
      {.reduction = item.reduction, .negative_weight = 0.75, .ignore_index = item.ignore_index});
}

Variable sampled_softmax(Inputs in, const SampledCase& item) {
  const auto bias = in.size() > 2 ? std::optional(in[2]) : std::nullopt;
  return sampled_softmax_loss(in[0], in[1], bias, sampled_targets(item), samples_for(item),
                              {.reduction = item.reduction, .ignore_index = item.ignore_index});
}

// Returns the losses of the targets, computed with loops in double precision.
std::vector<double> losses_by_loops(const std::vector<Tensor>& in, const SampledCase& item,
                                    bool softmax) {
  const Ids targets = sampled_targets(item);
  const NegativeSamples samples = samples_for(item);
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

constexpr double kSampledTolerance = sizeof(real) == 4 ? 2e-5 : 1e-12;

TEST(SampledLoss, MatchesLoops) {
  for (const SampledCase& item : kSampledCases)
    for (const bool softmax : {false, true})
      for (const std::size_t bias : {0, 1, 2}) {
        if (bias > 0 && !softmax) continue;
        const std::vector<Tensor> inputs = sampled_inputs(item, bias);
        Tape tape(Tape::kInference);
        const Variable loss = softmax ? sampled_softmax(inputs_on(tape, inputs), item)
                                      : negative_sampling(inputs_on(tape, inputs), item);
        const std::vector<double> expected = losses_by_loops(inputs, item, softmax);
        const Ids targets = sampled_targets(item);
        const auto masked = std::count(targets.begin(), targets.end(), item.ignore_index.value());
        const auto count = static_cast<double>(targets.size()) - static_cast<double>(masked);
        const double total = std::accumulate(expected.begin(), expected.end(), 0.0);
        const std::string what = concat("width ", item.width, " softmax ", softmax);
        if (item.reduction == LossReduction::kNone) {
          ASSERT_EQ(loss.shape(), Shape(item.targets.begin(), item.targets.end()));
          for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_NEAR(loss.value().data()[i], expected[i], kSampledTolerance * (1 + expected[i]))
                << what;
        } else {
          const bool mean = item.reduction == LossReduction::kMean;
          EXPECT_NEAR(loss.item(), mean ? total / std::max(count, 1.0) : total,
                      kSampledTolerance * (1 + total))
              << what;
        }
      }
}

TEST(SampledLoss, HasGradientsOfAllInputs) {
  for (const SampledCase& item : kSampledCases) {
    const std::string what = concat("width ", item.width, " shared ", item.shared);
    expect_gradients([&](Inputs in) { return negative_sampling(in, item); },
                     sampled_inputs(item, 0), what);
    for (const std::size_t bias : {0, 1, 2})
      expect_gradients([&](Inputs in) { return sampled_softmax(in, item); },
                       sampled_inputs(item, bias), what);
  }
}

TEST(SampledLoss, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const bool shared : {false, true}) {
    const SampledCase item{{700}, 90, 50, 30, shared, LossReduction::kMean, 3};
    const std::vector<Tensor> inputs = sampled_inputs(item, 2);
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

// Rows of x with bags of targets: some are empty, some only have ignored targets. Targets repeat in
// a row, and hit samples.
struct BagCase {
  bool shared;
  LossReduction reduction;
  std::size_t scale = 1;  // repeats the bags
};

const std::vector<BagCase> kBagCases{{false, LossReduction::kMean},
                                     {true, LossReduction::kMean},
                                     {false, LossReduction::kNone},
                                     {true, LossReduction::kNone},
                                     {true, LossReduction::kSum, 20}};

Variable loss_of_bags(Inputs in, const BagCase& item, bool as_pairs = false) {
  std::vector<std::int32_t> offsets, rows;
  for (std::size_t i = 0; i < 5 * item.scale; ++i) {
    offsets.push_back(static_cast<std::int32_t>(rows.size()));
    const std::size_t count = std::array<std::size_t, 5>{0, 4, 1, 4, 0}[i % 5];
    rows.insert(rows.end(), count, static_cast<std::int32_t>(i));
  }
  const std::size_t targets = rows.size();
  NegativeSamplingOptions options{
      .reduction = item.reduction, .negative_weight = 0.75, .ignore_index = 5};
  if (!as_pairs) options.offsets = to_ids(offsets);
  const Variable x = as_pairs ? embedding(in[0], to_ids(rows)) : in[0];
  const Variable loss = negative_sampling_loss(
      x, in[1], spread_ids({targets}, 8, 5),
      spread_ids(item.shared ? std::vector<std::size_t>{6} : std::vector{targets, std::size_t{6}},
                 8, 7),
      options);
  if (item.reduction != LossReduction::kNone) return loss;
  const Variable factors = in[0].tape().constant(irregular({5 * item.scale, 1}, 3));
  return sum(reshape(loss, {loss.value().size(), 1}) *
             (as_pairs ? embedding(factors, to_ids(rows)) : factors));
}

std::vector<Tensor> bag_inputs(const BagCase& item) {
  return {irregular({5 * item.scale, 19}, 1), irregular({8, 19}, 2)};
}

TEST(NegativeSamplingLoss, OfBagsIsTheLossOfTheirPairs) {
  for (const BagCase& item : kBagCases) {
    SCOPED_TRACE(concat("shared ", item.shared, " scale ", item.scale));
    const std::vector<Tensor> inputs = bag_inputs(item);
    Tape tape(Tape::kInference);
    const real expected = loss_of_bags(inputs_on(tape, inputs), item, true).item();
    EXPECT_NEAR(loss_of_bags(inputs_on(tape, inputs), item).item(), expected,
                kSampledTolerance * (1 + std::abs(expected)));
    std::vector<Gradient> of_bags =
        gradients_of([&](Inputs in) { return loss_of_bags(in, item); }, inputs);
    std::vector<Gradient> of_pairs =
        gradients_of([&](Inputs in) { return loss_of_bags(in, item, true); }, inputs);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      expect_near(std::move(of_bags[i]).take_dense(), std::move(of_pairs[i]).take_dense(),
                  static_cast<double>(item.scale) * kSampledTolerance);
    if (item.scale == 1)
      expect_gradients([&](Inputs in) { return loss_of_bags(in, item); }, inputs, "bags");
  }
}

TEST(NegativeSamplingLoss, OfBagsHasTheSameBitsOnAnyNumberOfThreads) {
  for (const bool shared : {false, true}) {
    const BagCase item{shared, LossReduction::kMean, 200};
    const auto bits = [&](int threads) {
      const Threads count(threads);
      std::string all;
      for (Gradient& g :
           gradients_of([&](Inputs in) { return loss_of_bags(in, item); }, bag_inputs(item)))
        all += bits_of(std::move(g).take_dense());
      return all;
    };
    EXPECT_TRUE(bits(1) == bits(2) && bits(1) == bits(3)) << shared;
  }
}

constexpr std::size_t kHeadClasses = 6, kHeadWidth = 5;

struct SampledHead {
  Tensor x = irregular({kHeadWidth}, 1), weight = irregular({kHeadClasses, kHeadWidth}, 2),
         bias = irregular({kHeadClasses, 1}, 3);
  NegativeSampler sampler{std::vector<double>{3, 1, 4, 1, 5, 9}};

  // Returns the value and the gradients of an op.
  std::vector<double> all(const Function& op) const {
    Tape tape;
    const std::vector<Variable> in = inputs_on(tape, {x, weight, bias});
    const Variable loss = op(in);
    tape.backward(loss);
    std::vector<double> values{static_cast<double>(loss.item())};
    for (const Variable& input : in) {
      const Gradient& gradient = tape.gradient(input);
      const Tensor dense =
          gradient.is_none() ? zeros(input.shape()) : Gradient(gradient).take_dense();
      values.insert(values.end(), dense.begin(), dense.end());
    }
    return values;
  }
};

void expect_all_near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

// Weighted with the probabilities of the negatives, loss and gradients are those of the closed
// form, in which all classes except the target are negatives.
TEST(NegativeSamplingLoss, HasTheExpectationOverAllClasses) {
  const SampledHead head;
  const Ids target = ids({}, {2});
  std::vector<double> mean;
  Tensor signs = full({kHeadClasses}, -1), weights = zeros({kHeadClasses});
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kHeadClasses); ++id) {
    const double p = head.sampler.probability(id);
    const std::vector<double> one = head.all([&](Inputs in) {
      return negative_sampling_loss(in[0], in[1], target, ids({1}, {id}), {.negative_weight = 3});
    });
    mean.resize(one.size());
    for (std::size_t i = 0; i < one.size(); ++i) mean[i] += p * one[i];
    weights.data()[id] = static_cast<real>(id == 2 ? 1 : 3 * p);
  }
  signs(2) = 1;
  const std::vector<double> expected = head.all([&](Inputs in) {
    Tape& tape = in[0].tape();
    const Variable logits = squeeze(linear(unsqueeze(in[0], 0), in[1]), 0);
    return -sum(log_sigmoid(logits * tape.constant(signs)) * tape.constant(weights));
  });
  expect_all_near(mean, expected, 4 * kSampledTolerance);
}

TEST(SampledSoftmaxLoss, EqualsTheFullSoftmaxOverAllClasses) {
  const SampledHead head;
  Random random(1);
  const NegativeSamples all = head.sampler.draw_distinct(kHeadClasses, random);
  const Ids target = ids({}, {2});
  const std::vector<double> sampled =
      head.all([&](Inputs in) { return sampled_softmax_loss(in[0], in[1], in[2], target, all); });
  const std::vector<double> full = head.all([&](Inputs in) {
    return linear_cross_entropy(in[0], in[1], reshape(in[2], {kHeadClasses}), target);
  });
  expect_all_near(sampled, full, kSampledTolerance);
}

// exp(loss) is the sum of exponentials relative to the target's.
TEST(SampledSoftmaxLoss, HasTheFullSumOfExponentialsAsItsExpectation) {
  const SampledHead head;
  const Ids target = ids({}, {2});
  const auto sum_with = [&](const NegativeSamples& samples) {
    return std::exp(head.all(
        [&](Inputs in) { return sampled_softmax_loss(in[0], in[1], in[2], target, samples); })[0]);
  };
  Random random(1);
  const double full = sum_with(head.sampler.draw_distinct(kHeadClasses, random));
  double mean = 0;
  for (std::int32_t a = 0; a < static_cast<std::int32_t>(kHeadClasses); ++a)
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(kHeadClasses); ++b) {
      const double p = head.sampler.probability(a), q = head.sampler.probability(b);
      mean += p * q *
              sum_with({ids({2}, {a, b}), Tensor{static_cast<real>(std::log(2 * p)),
                                                 static_cast<real>(std::log(2 * q))}});
    }
  EXPECT_NEAR(mean, full, 20 * kSampledTolerance);

  constexpr int kDraws = 3000;
  double distinct = 0, squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double sum = sum_with(head.sampler.draw_distinct(2, random));
    distinct += sum / kDraws;
    squares += sum * sum / kDraws;
  }
  EXPECT_NEAR(distinct, full, 4 * std::sqrt((squares - distinct * distinct) / kDraws));
}

// The bias of the mean gradient falls as 1 / count.
TEST(SampledSoftmaxLoss, ConvergesToTheGradientOfTheFullSoftmax) {
  const SampledHead head;
  constexpr std::size_t kDraws = 20'000;
  Random random(1);
  const auto gradient = [&](std::size_t count) {
    const NegativeSamples samples = head.sampler.draw({kDraws, count}, random);
    Ids targets = Ids::from_shape({kDraws});
    std::fill(targets.begin(), targets.end(), 2);
    Tape tape;
    const Variable x = tape.input(head.x);
    tape.backward(sampled_softmax_loss(x + tape.constant(zeros({kDraws, kHeadWidth})),
                                       tape.constant(head.weight), tape.constant(head.bias),
                                       targets, samples));
    return tape.gradient(x).dense();
  };
  Tape tape;
  const Variable x = tape.input(head.x);
  tape.backward(linear_cross_entropy(x, tape.constant(head.weight),
                                     tape.constant(reshaped(head.bias, {kHeadClasses})),
                                     ids({}, {2})));
  const auto error = [&](std::size_t count) {
    const Tensor sampled = gradient(count);
    double total = 0;
    for (std::size_t i = 0; i < kHeadWidth; ++i)
      total += std::abs(sampled.data()[i] - tape.gradient(x).dense().data()[i]);
    return total;
  };
  const double with_2 = error(2), with_8 = error(8), with_32 = error(32);
  EXPECT_LT(with_8, with_2 / 2.5);
  EXPECT_LT(with_32, with_8 / 2.5);
}

TEST(SampledLoss, IgnoresSamplesEqualToTheTarget) {
  const SampledHead head;
  const Ids target = ids({}, {2});
  for (const auto& [with, without] : std::map<Ids32, Ids32>{{{2, 4}, {4}}, {{4, 2, 2}, {4}}}) {
    const auto both = [&](const Ids32& negatives) {
      const Tensor logs = full({negatives.size()}, real{0.25});
      return head.all([&](Inputs in) {
        return negative_sampling_loss(in[0], in[1], target, to_ids(negatives)) +
               sampled_softmax_loss(in[0], in[1], in[2], target, {to_ids(negatives), logs});
      });
    };
    expect_all_near(both(with), both(without), kSampledTolerance);
  }
}

// Row gradients on both tables give exact optimizers the steps of dense gradients.
TEST(SampledLoss, TrainsBothTablesLikeDenseGradients) {
  for (const std::string name : {"sgd", "momentum", "adam"})
    for (const bool softmax : {false, true}) {
      struct Model {
        Parameter input{"input", irregular({20, 5}, 1)}, output{"output", irregular({20, 5}, 2)},
            bias{"bias", irregular({20, 1}, 3)};
        std::vector<Parameter*> all() { return {&input, &output, &bias}; }
      };
      const auto train = [&](bool dense) {
        Model model;
        std::unique_ptr<Optimizer> optimizer;
        if (name == "adam")
          optimizer = std::make_unique<Adam>(model.all(), AdamOptions{.learning_rate = 0.1});
        else
          optimizer =
              std::make_unique<SGD>(model.all(), SgdOptions{.learning_rate = 0.1,
                                                            .momentum = name == "sgd" ? 0 : 0.9,
                                                            .weight_decay = 0.01});
        for (std::int32_t step = 0; step < 6; ++step) {
          Tape tape;
          const Variable x = embedding(tape.parameter(model.input), ids({2}, {step, 2 * step}));
          const Ids targets = ids({2}, {3 * step, 7}), negatives = ids({3}, {1, step + 4, 7});
          const Variable output = tape.parameter(model.output);
          tape.backward(softmax ? sampled_softmax_loss(x, output, tape.parameter(model.bias),
                                                       targets, {negatives, zeros({3})})
                                : negative_sampling_loss(x, output, targets, negatives));
          EXPECT_EQ(tape.lookups().size(), softmax ? 3U : 2U);
          for (Parameter* parameter : model.all()) {
            if (parameter->gradient().is_none()) continue;
            EXPECT_TRUE(parameter->gradient().is_rows());
            if (!dense) continue;
            const Tensor gradient = parameter->gradient().rows().to_dense();
            parameter->zero_gradient();
            parameter->add_gradient(gradient);
          }
          optimizer->step();
          optimizer->zero_grad();
        }
        std::vector<double> values;
        for (Parameter* parameter : model.all())
          values.insert(values.end(), parameter->value().begin(), parameter->value().end());
        return values;
      };
      expect_all_near(train(false), train(true), kSampledTolerance);
    }
}

TEST(SampledLoss, ReadsTablesInFiles) {
  const TemporaryFolder folder;
  TableFile file(folder / "output.table", {.rows = 20, .width = 5});
  Parameter in_file("output", file_rows(file)), in_memory("output", irregular({20, 5}, 2));
  Ids32 rows(20);
  std::iota(rows.begin(), rows.end(), 0);
  in_file.assign_rows(rows, in_memory.value());
  for (const Ids& negatives : {ids({3}, {1, 4, 19}), ids({2, 2}, {1, 4, 19, 4})}) {
    const auto loss = [&](Parameter& table) {
      Tape tape(Tape::kInference);
      return negative_sampling_loss(tape.constant(irregular({2, 5}, 1)), tape.parameter(table),
                                    ids({2}, {3, 0}), negatives)
          .item();
    };
    EXPECT_EQ(loss(in_file), loss(in_memory));
  }
}

TEST(SampledLoss, OfMaskedTargetsIsZero) {
  for (const Ids& negatives : {ids({3}, {1, 4, 5}), ids({2, 2}, {1, 4, 5, 4})}) {
    Tape tape;
    const Variable x = tape.input(irregular({2, 3}, 1)), w = tape.input(irregular({6, 3}, 2));
    const Variable loss = negative_sampling_loss(x, w, ids({2}, {-100, -100}), negatives);
    EXPECT_EQ(loss.item(), 0);
    tape.backward(loss);
    EXPECT_EQ(tape.gradient(x).dense(), zeros({2, 3}));
    EXPECT_TRUE(tape.gradient(w).rows().empty());
  }
}

}  // namespace
