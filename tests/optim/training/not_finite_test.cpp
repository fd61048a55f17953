// Runs whose losses or gradients are infinite or NaN, and runs that failed.

#include "tests/optim/training/runs.hpp"

namespace {

/// A model whose gradient is not finite if the loss takes the square root of zeros.
struct Roots : Model {
  explicit Roots(Random& random, TablePlacement* tables = nullptr)
      : table(*this, "table", kUsers, 2, random, EmbeddingOptions{.init_std = 0, .tables = tables}),
        other(*this, "other", full({2}, 4)) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable rows = table.forward(tape, batch.ids[0]);
    const Variable by_row = mean(bad_row ? sqrt(rows) : rows * rows);
    const Variable x = tape.parameter(other);
    return by_row + mean(bad_parameter ? sqrt(x - x) : x * x) * factor;
  }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    return {table.lookup_of(batch.ids[0])};
  }

  Submodule<Embedding> table;
  Parameter other;
  bool bad_row = false, bad_parameter = false;
  real factor = 1;
};

struct RootsRun : TrainingCallback {
  explicit RootsRun(std::size_t slices = 1, ProcessGroup* ranks = nullptr, bool sharded = false,
                    bool allowed = false)
      : ranks_of_run(parallel(ranks)),
        model(random, sharded ? &*ranks_of_run : nullptr),
        optimizer(model.parameters(), {.learning_rate = 0.1}),
        loader(TensorDataset({.ids = {ids({4}, {29, 7, 25, 29})}}), {.batch = 2}),
        run({.model = model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .clip_norm = 1,
             .slices = slices,
             .ranks = ranks_of_run ? &*ranks_of_run : nullptr,
             .allow_non_finite = allowed,
             .epochs = 3}) {
    run.add(*this);
  }
  void before_update(const TrainingRun&) override { ++updates; }

  std::string bits() { return bits_of(model.state_dict()) + bits_of(optimizer.state_dict()); }

  Random random{1};
  std::optional<ParallelTraining> ranks_of_run;
  Roots model;
  AdamW optimizer;
  DataLoader loader;
  TrainingRun run;
  int updates = 0;
};

constexpr const char* kAdvice =
    ". Try a lower learning rate or clip_norm, check the data, or set allow_non_finite";

TEST(NotFinite, StepsThrowBeforeAnythingChanges) {
  struct Case {
    std::string what;
    std::function<void(Roots&)> change;
  };
  const std::vector<Case> cases{
      {"the loss became inf and the gradient of other is not finite",
       [](Roots& model) { model.factor = kInfinity; }},
      {"the loss became nan and other is not finite",
       [](Roots& model) { std::ranges::fill(model.other.mutable_values(), -kNaN); }},
      {"the gradient of table.weight is not finite in row 25",
       [](Roots& model) { model.bad_row = true; }},
      {"the gradient of other is not finite", [](Roots& model) { model.bad_parameter = true; }}};
  for (const auto& [what, change] : cases)
    for (const std::size_t ranks : {1, 2})
      for (const bool sharded : {false, true}) {
        if (sharded && ranks == 1) continue;
        SCOPED_TRACE(concat(what, ", ranks ", ranks, sharded ? ", sharded" : ""));
        run_ranks(ranks, [&, what = what, change = change](ProcessGroup& group) {
          RootsRun trained(2, &group, sharded);
          trained.run.train(1);
          change(trained.model);
          const std::string before = trained.bits();
          EXPECT_ERROR(std::runtime_error,
                       concat("TrainingRun: ", what,
                              " at step 2, expected finite values (no update was made)", kAdvice),
                       trained.run.step());
          EXPECT_EQ(trained.bits(), before);
          EXPECT_EQ(trained.updates, 1);
          EXPECT_EQ(trained.run.steps(), 1U);
          EXPECT_THROW(trained.run.step(), std::logic_error);
        });
      }
}

TEST(NotFinite, StepsContinueIfAllowed) {
  RootsRun trained(1, nullptr, false, true);
  trained.model.factor = kNaN;
  EXPECT_TRUE(trained.run.train());
  EXPECT_EQ(trained.run.steps(), 6U);
  EXPECT_TRUE(std::isnan(trained.model.other.value().data()[0]));
  EXPECT_NO_THROW(trained.run.state_dict());
}

// The last update may not be finite even if its gradients are finite.
TEST(NotFinite, ParametersAreNotSaved) {
  for (const bool allowed : {false, true}) {
    RootsRun trained(1, nullptr, false, allowed);
    trained.run.train(1);
    std::ranges::fill(trained.model.other.mutable_values(), kInfinity);
    const std::string message = error_of<std::runtime_error>([&] { trained.run.state_dict(); });
    EXPECT_EQ(message, allowed ? "no error"
                               : concat("TrainingRun: other is not finite after step 1, expected "
                                        "finite values",
                                        kAdvice));
  }
}

TEST(NotFinite, ParametersThrowAfterTheLastStep) {
  struct Breaks : TrainingCallback {
    void before_update(const TrainingRun& run) override {
      if (run.steps() == 5) std::ranges::fill(parameter->mutable_values(), kInfinity);
    }
    Parameter* parameter;
  };
  for (const std::size_t ranks : {1, 2})
    for (const bool allowed : {false, true})
      for (const bool by_steps : {false, true})
        run_ranks(ranks, [&](ProcessGroup& group) {
          RootsRun trained(2, &group, ranks > 1, allowed);
          Breaks breaks;
          breaks.parameter = &trained.model.table.weight;
          if (group.rank() + 1 == ranks) trained.run.add(breaks);
          EXPECT_EQ(error_of<std::runtime_error>([&] {
                      while (by_steps && trained.run.step()) continue;
                      trained.run.train();
                    }),
                    allowed ? "no error"
                            : concat("TrainingRun: table.weight is not finite after step 6, "
                                     "expected finite values",
                                     kAdvice));
        });
}

TEST(NotFinite, RecordsThrow) {
  for (const bool allowed : {false, true}) {
    RootsRun trained(1, nullptr, false, allowed);
    DataLoader validation(TensorDataset({.ids = {ids({2}, {3, 4})}}), {.batch = 2});
    TrainingRunOptions options = trained.run.options();
    options.validation = &validation;
    TrainingRun run(options);
    struct Breaks : TrainingCallback {
      void before_update(const TrainingRun& broken) override {
        if (broken.steps() == 1) std::ranges::fill(parameter->mutable_values(), kInfinity);
      }
      Parameter* parameter;
    } breaks;
    breaks.parameter = &trained.model.other;
    run.add(breaks);
    EXPECT_EQ(error_of<std::runtime_error>([&] { run.train(2); }),
              allowed ? "no error"
                      : concat("TrainingRun: the validation loss became inf after step 2, expected "
                               "a finite value",
                               kAdvice));
  }
}

// A frozen parameter may be an additive mask, for example.
TEST(NotFinite, FrozenParametersAreSaved) {
  RootsRun trained;
  trained.run.train(1);
  std::ranges::fill(trained.model.other.mutable_values(), kInfinity);
  trained.model.other.set_trainable(false);
  EXPECT_NO_THROW(trained.run.state_dict());
}

TEST(FailedRuns, CanBeSavedIfTheyFailBetweenSteps) {
  enum Where { kBackward, kUpdate, kBegin, kContinue, kStep, kEnd };
  struct Fails : TrainingCallback {
    void after_backward(const TrainingRun&, const Tape&) override { fail(kBackward); }
    void before_update(const TrainingRun& run) override {
      EXPECT_THROW(run.state_dict(), std::logic_error);
      fail(kUpdate);
    }
    void after_step(const TrainingRun& run, const StepResult&) override {
      EXPECT_NO_THROW(run.state_dict());
      fail(kStep);
    }
    bool should_continue(const TrainingRun& run) override {
      fail(run.steps() == 2 ? kBegin : kContinue);
      return true;
    }
    void at_end(const TrainingRun&) override { fail(kEnd); }
    void fail(Where here) const { check_runtime(bad != here, "a failure"); }
    std::optional<Where> bad;
  };
  for (const Where where : {kBackward, kUpdate, kBegin, kContinue, kStep, kEnd}) {
    RunOf trained(kWholeCases.front()), reference(kWholeCases.front());
    Fails fails;
    trained.run.add(fails);
    trained.run.train(2);
    const StateDict good = trained.run.state_dict();
    fails.bad = where;
    EXPECT_ERROR(std::runtime_error, "a failure", trained.run.train(4));
    EXPECT_TRUE(trained.run.has_more_steps());  // the limit is only for train(4)
    EXPECT_ERROR(std::logic_error, "TrainingRun: the run has failed; load the last saved state",
                 trained.run.step());
    StateDict latest = good;
    if (where >= kBegin)
      latest = trained.run.state_dict();
    else
      EXPECT_ERROR(
          std::logic_error,
          "TrainingRun::state_dict: a step failed before its end, so the run cannot be saved; "
          "load the last saved state",
          trained.run.state_dict());
    fails.bad.reset();
    trained.run.load_state_dict(latest);
    trained.run.train(4);
    reference.run.train(4);
    EXPECT_TRUE(bits_of(without(trained.run.state_dict(), "history.examples_per_second")) ==
                bits_of(without(reference.run.state_dict(), "history.examples_per_second")));
  }
}

}  // namespace
