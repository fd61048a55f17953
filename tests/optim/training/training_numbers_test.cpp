// Compares the results of a run with plain loops in double, and its times with a clock.

#include <chrono>
#include <thread>

#include "tests/optim/training/runs.hpp"

namespace {

/// y = slope · x + offset with squared errors and a weight for each example.
struct Line : Model {
  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable x = tape.constant(batch.tensors[0]), weight = tape.constant(batch.tensors[2]);
    const Variable error =
        x * tape.parameter(slope) + tape.parameter(offset) - tape.constant(batch.tensors[1]);
    return sum(error * error * weight) / sum(weight);
  }
  double loss_weight(const Batch& batch) const override {
    double total = 0;
    for (const real each : batch.tensors[2]) total += each;
    return total;
  }
  Parameter slope{*this, "slope", Tensor{0.5}};
  Parameter offset{*this, "offset", Tensor{-0.25}};
};

// Returns points with very different weights, including 0.
Batch points(std::size_t count, int seed) {
  Tensor weight = irregular({count}, seed + 2, 0, 4);
  for (std::size_t i = 0; i < count; i += 3) weight.data()[i] = i % 2 == 0 ? real{0} : real{40};
  return {.tensors = {irregular({count}, seed), irregular({count}, seed + 1), weight}};
}

/// Line, computed in double. sums() adds up examples begin … end − 1.
struct LineInDouble {
  struct Sums {
    double loss = 0, slope = 0, offset = 0, weight = 0;
  };
  Sums sums(const Batch& batch, std::size_t begin, std::size_t end) const {
    Sums sums;
    for (std::size_t i = begin; i < end; ++i) {
      const double x = batch.tensors[0].data()[i], y = batch.tensors[1].data()[i];
      const double weight = batch.tensors[2].data()[i], error = slope * x + offset - y;
      sums.loss += weight * error * error;
      sums.slope += weight * 2 * error * x;
      sums.offset += weight * 2 * error;
      sums.weight += weight;
    }
    return sums;
  }
  double mean(const Batch& batch, std::size_t end) const {
    const Sums all = sums(batch, 0, end);
    return all.loss / all.weight;
  }
  double slope = 0.5, offset = -0.25;
};

TEST(NumbersOfATrainingRun, EqualPlainLoops) {
  constexpr std::size_t kExamples = 22, kBatch = 3, kEpochs = 3, kEvery = 2;
  // A loss and its gradient have some 30 roundings. There are at most 24 steps, whose roundings
  // partly cancel.
  constexpr double kTolerance = 12 * 30 * kEpsilon;
  for (const std::size_t accumulate : {1, 2, 3, 8})
    for (const std::size_t slices : {1, 2, 3}) {
      SCOPED_TRACE(concat(accumulate, " batches, ", slices, " slices"));
      const Batch known = points(kExamples, 1), unknown = points(7, 5);
      Random random(1);
      Line model;
      SGD sgd(model.parameters(), {.learning_rate = 0.2});
      LearningRateSchedule schedule(
          sgd, Schedule::lambda([](std::uint64_t step) { return 1 / (1 + 0.1 * double(step)); }));
      DataLoader loader(TensorDataset(known), {.batch = kBatch});
      DataLoader sample(TensorDataset(known), {.batch = kBatch});
      DataLoader validation(TensorDataset(unknown), {.batch = 2});
      TrainingRun run(
          {.model = model,
           .optimizer = sgd,
           .loader = loader,
           .random = random,
           .schedule = &schedule,
           .validation = &validation,
           .accumulate = accumulate,
           .slices = slices,
           .epochs = kEpochs,
           .evaluation = {
               .every = kEvery, .batches = 2, .training = &sample, .validation = &validation}});
      struct Rates : TrainingCallback {
        void before_update(const TrainingRun& run) override {
          all.push_back(run.options().optimizer.learning_rate());
        }
        std::vector<double> all;
      } rates;
      Losses losses;
      run.add(rates);
      run.add(losses);
      EXPECT_TRUE(run.train());

      LineInDouble line;
      std::vector<double> expected_losses, expected_rates;
      std::vector<TrainingRecord> history;
      std::size_t step = 0;
      for (std::size_t epoch = 1; epoch <= kEpochs; ++epoch) {
        double loss = 0, weight = 0;
        for (std::size_t begin = 0; begin < kExamples; begin += accumulate * kBatch) {
          const std::size_t end = std::min(begin + accumulate * kBatch, kExamples);
          const LineInDouble::Sums sums = line.sums(known, begin, end);
          loss += sums.loss;
          weight += sums.weight;
          expected_losses.push_back(sums.loss / sums.weight);
          expected_rates.push_back(0.2 / (1 + 0.1 * static_cast<double>(step)));
          line.slope -= expected_rates.back() * sums.slope / sums.weight;
          line.offset -= expected_rates.back() * sums.offset / sums.weight;
          if (step++ % kEvery == 0)
            history.push_back({.steps = step,
                               .training_loss = line.mean(known, 2 * kBatch),
                               .validation_loss = line.mean(unknown, 4)});
        }
        history.push_back({.steps = step,
                           .epoch = epoch,
                           .training_loss = loss / weight,
                           .validation_loss = line.mean(unknown, 4)});
      }
      const auto expect_equal = [&](double number, double expected) {
        EXPECT_NEAR(number, expected, kTolerance * std::max(1.0, std::abs(expected)));
      };
      ASSERT_EQ(losses.all.size(), expected_losses.size());
      for (std::size_t i = 0; i < losses.all.size(); ++i) {
        expect_equal(losses.all[i], expected_losses[i]);
        EXPECT_NEAR(rates.all[i], expected_rates[i], 1e-15);
      }
      expect_equal(model.slope.value().data()[0], line.slope);
      expect_equal(model.offset.value().data()[0], line.offset);
      ASSERT_EQ(run.history().size(), history.size());
      for (std::size_t i = 0; i < history.size(); ++i) {
        EXPECT_EQ(run.history()[i].steps, history[i].steps);
        EXPECT_EQ(run.history()[i].epoch, history[i].epoch);
        expect_equal(run.history()[i].training_loss, history[i].training_loss);
        expect_equal(*run.history()[i].validation_loss, *history[i].validation_loss);
      }
      EXPECT_EQ(run.steps(), step);
      EXPECT_EQ(run.epochs(), kEpochs);
      EXPECT_EQ(run.steps_per_epoch(), step / kEpochs);
    }
}

TEST(NumbersOfATrainingRun, EndWithTheEpochOrAtAStop) {
  struct Stops : TrainingCallback {
    explicit Stops(std::size_t step) : last(step) {}
    bool should_continue(const TrainingRun& run) override { return run.steps() < last; }
    std::size_t last;
  };
  for (const std::size_t last : {1, 2, 3, 4, 9}) {
    Random random(1);
    Line model;
    SGD sgd(model.parameters());
    DataLoader loader(TensorDataset(points(8, 1)), {.batch = 2});
    TrainingRun run({.model = model, .optimizer = sgd, .loader = loader, .random = random});
    Stops stops(last);
    run.add(stops);
    EXPECT_EQ(run.run_epoch(), last >= 4) << last;
    EXPECT_EQ(run.steps(), std::min<std::size_t>(last, 4)) << last;
    EXPECT_EQ(run.epochs(), last >= 4 ? 1U : 0U) << last;
  }
}

// Speeds do not include the time of evaluations and callbacks.
TEST(NumbersOfATrainingRun, MatchAClock) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr std::chrono::milliseconds kStep(5), kElsewhere(40);
  struct Slow : Line {
    Variable loss(Tape& tape, const Batch& batch) override {
      std::this_thread::sleep_for(training() ? kStep : kElsewhere);
      return Line::loss(tape, batch);
    }
  };
  struct Waits : TrainingCallback {
    void before_update(const TrainingRun&) override { std::this_thread::sleep_for(kElsewhere); }
    void after_step(const TrainingRun& run, const StepResult&) override {
      std::this_thread::sleep_for(kElsewhere);
      const double left = 4 * static_cast<double>(run.steps_left());  // examples, in batches of 4
      EXPECT_NEAR(run.seconds_left() * run.speed(), left, 1e-9);
    }
  };
  Random random(1);
  Slow model;
  Waits waits;
  SGD sgd(model.parameters());
  DataLoader loader(TensorDataset(points(10, 1)), {.batch = 4});
  DataLoader validation(TensorDataset(points(4, 2)), {.batch = 4});
  TrainingRun run({.model = model,
                   .optimizer = sgd,
                   .loader = loader,
                   .random = random,
                   .validation = &validation,
                   .epochs = 1});
  run.add(waits);
  const auto start = Clock::now();
  run.train();
  const Seconds all = Clock::now() - start;
  const Seconds least = 3 * kStep, elsewhere = 7 * kElsewhere;  // 3 · 2 callbacks, 1 evaluation
  for (const double speed : {run.speed(), run.history().back().speed}) {
    EXPECT_LE(speed, 10 / least.count());
    EXPECT_GE(speed, 10 / (all - elsewhere).count());
  }
}

}  // namespace
