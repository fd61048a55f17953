#include "tests/optim/training/runs.hpp"

namespace {

// The minimal components of a run, for tests to change.
struct Plain {
  explicit Plain(std::size_t ignored = 0, bool draws = false)
      : loader(windows(61, ignored), {.batch = 3}),
        sample(windows(31), {.batch = 2, .shuffle = true, .drop_last = true, .draw_order = draws}) {
  }

  Random random{1};
  Bigram model{random};
  AdamW optimizer{model.parameters(), {.learning_rate = 0.05}};
  DataLoader loader;
  DataLoader sample;
  TrainingRunOptions options{
      .model = model, .optimizer = optimizer, .loader = loader, .random = random};
};

// Makes the steps of an epoch by hand, each with the gradients of options.accumulate batches.
std::vector<double> make_steps(Plain& by_hand, LearningRateSchedule& schedule, auto clip) {
  std::vector<double> losses;
  std::size_t batches = 0;
  double sum = 0;
  const std::size_t accumulate = by_hand.options.accumulate;
  for (const Batch& batch : by_hand.loader.epoch(0)) {
    const std::size_t left = by_hand.loader.batches() - batches / accumulate * accumulate;
    const std::size_t count = std::min(accumulate, left);
    if (batches % accumulate == 0) by_hand.optimizer.zero_grad();
    Tape tape(by_hand.random);
    const Variable loss = by_hand.model.loss(tape, batch);
    tape.backward(loss, scalar(real{1} / static_cast<real>(count)));
    sum += loss.item();
    if (++batches % accumulate != 0 && batches != by_hand.loader.batches()) continue;
    clip(losses.size());
    by_hand.optimizer.step();
    schedule.step();
    losses.push_back(sum / static_cast<double>(count));
    sum = 0;
  }
  return losses;
}

TEST(TrainingRun, MakesTheStepsOfAHandWrittenLoop) {
  struct Case {
    std::size_t accumulate;
    double clip_norm;
    std::size_t clip_from;
  };
  for (const Case& of : {Case{1, 1, 0}, Case{1, 0.01, 2}, Case{3, 0, 0}}) {
    Plain trained, by_hand;
    LearningRateSchedule schedule(trained.optimizer, Schedule::cosine({.steps = 20}));
    LearningRateSchedule by_hand_too(by_hand.optimizer, Schedule::cosine({.steps = 20}));
    trained.options.schedule = &schedule;
    trained.options.clip_norm = of.clip_norm;
    trained.options.clip_from = of.clip_from;
    trained.options.accumulate = by_hand.options.accumulate = of.accumulate;
    trained.options.epochs = 1;
    TrainingRun run(trained.options);
    Losses losses;
    run.add(losses);
    while (run.step()) EXPECT_EQ(run.steps(), losses.all.size());
    const std::vector<double> expected = make_steps(by_hand, by_hand_too, [&](std::size_t step) {
      if (of.clip_norm == 0 || step < of.clip_from) return;
      EXPECT_GT(clip_grad_norm(by_hand.optimizer.parameters(), of.clip_norm), 0.01);
    });
    ASSERT_EQ(losses.all.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_DOUBLE_EQ(losses.all[i], expected[i]) << i;
    EXPECT_TRUE(bits_of(trained.model.state_dict()) == bits_of(by_hand.model.state_dict()));
    EXPECT_TRUE(bits_of(trained.optimizer.state_dict()) == bits_of(by_hand.optimizer.state_dict()));
  }
}

TEST(TrainingRun, IsResumable) {
  for (const std::string_view name : {"a recommender", "targets that are chosen", "tied tables",
                                      "a GPT with T5's positions and a memory"})
    for (const std::size_t slices : {1, 3}) {
      const RunCase& of = run_case(name);
      Resumable run{.name = concat(name, " in ", slices),
                    .make =
                        [&](bool other) {
                          return std::make_unique<RunningTraining<RunOf>>(
                              of, RunWay{.slices = slices, .other = other});
                        },
                    .steps = 15,
                    .taken = kTakenByRuns};
      if (name == "a recommender") run.failing = {1};
      // A GPT has more states than the other models, but not more kinds of states.
      if (slices == 1 && !name.starts_with("a GPT"))
        expect_resumable(run);
      else
        expect_to_go_on(run);
    }
}

TEST(TrainingRun, TrainsAnyModelInAFewLines) {
  const std::size_t users = kUsers, films = kFilms;
  const Batch known = ratings(200, 3), unknown = ratings(50, 4);
  // [ratings]
  Random random(123);
  Ratings model(users, films, random);
  AdamW optimizer(model.parameters(), {.learning_rate = 0.05});
  LearningRateSchedule schedule(optimizer, Schedule::cosine({.steps = 200}));
  DataLoader loader(TensorDataset(known), {.batch = 10, .shuffle = true});
  DataLoader validation(TensorDataset(unknown), {.batch = 50});
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .schedule = &schedule,
                   .validation = &validation,
                   .clip_norm = 1,
                   .epochs = 10,
                   .evaluation = {.accuracy = true}});
  run.train();
  // [ratings]
  const double last = run.history().back().validation_loss.value();
  EXPECT_LT(last, 0.8 * *run.history().front().validation_loss);
  Tape tape(Tape::kInference);
  EXPECT_NEAR(last, model.loss(tape, unknown).item(), 100 * kEpsilon);
  EXPECT_EQ(run.history().back().validation_accuracy,
            evaluate(model, validation, {.accuracy = true})->accuracy);
  EXPECT_GT(*run.history().back().validation_accuracy, *run.history().front().validation_accuracy);
  EXPECT_FALSE(evaluate(model, validation)->accuracy.has_value());
  EXPECT_EQ(run.unit().name, "examples");
}

TEST(TrainingRun, IsSavedInOneFileWithOtherData) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  RunOf trained(kWholeCases.front()), resumed(kWholeCases.front(), {.other = true});
  TrainingRun &run = trained.run, &other = resumed.run;
  run.run_epoch();
  // [save]
  StateDict all;
  all.put("run", run.state_dict());
  all.put("text", "The Verdict");
  write_safetensors(path, all);
  // [save]
  // [resume]
  const StateDict file = read_safetensors(path);
  other.load_state_dict(file.part("run"));
  // [resume]
  EXPECT_TRUE(bits_of(other.state_dict()) == bits_of(run.state_dict()));
  EXPECT_EQ(file.string("text"), "The Verdict");
}

TEST(TrainingRun, LoadsForeignWeights) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "foreign.safetensors";
  Random random(1);
  Bigram model(random);
  StateDict theirs;
  theirs.put("wte.weight", full({Bigram::kVocabulary, 4}, 2));
  theirs.put("h.0.proj.weight", full({4, Bigram::kVocabulary}, 3));
  theirs.put("h.0.attn.mask", zeros({2, 2}));
  write_safetensors(path, theirs);
  // [foreign]
  const std::vector<Renaming> names = {
      {.from = "wte.weight", .to = "token.weight"},
      {.from = "h.*.proj.weight", .to = "head.weight", .transpose = true}};
  const LoadReport report =
      model.load_state_dict(read_safetensors(path).renamed(names), {.strict = false});
  // [foreign]
  EXPECT_EQ(report.missing, std::vector<std::string>{"head.bias"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"h.0.attn.mask"});
  EXPECT_EQ(model.token.weight.value(), full({Bigram::kVocabulary, 4}, 2));
  EXPECT_EQ(model.head.weight.value(), full({Bigram::kVocabulary, 4}, 3));
}

// A run ends after the evaluation of its last step, even in the middle of an epoch. If a callback
// interrupts this evaluation, even after a batch, the run repeats it with the same examples.
TEST(TrainingRun, EndsAfterItsLastEvaluation) {
  struct Stops : TrainingCallback {
    bool should_continue(const TrainingRun& run) override {
      return run.steps_left() > 0 || asked++ < batches;
    }
    int batches = 0, asked = 0;
  };
  for (const std::size_t steps : {0, 4, 7})
    for (const int batches : {0, 1}) {
      const auto evaluated = [&](Plain& plain) {
        plain.options.validation = &plain.sample;
        plain.options.evaluation = {.every = 6, .training = &plain.sample};
        plain.options.epochs = 1;
        plain.options.steps = steps;
        return plain.options;
      };
      Plain plain(0, true), by_steps(0, true), resumed(0, true), reference(0, true);
      Stops stops, stops_too;
      stops.batches = stops_too.batches = batches;
      TrainingRun run(evaluated(plain)), stepwise(evaluated(by_steps));
      TrainingRun other(evaluated(resumed)), whole(evaluated(reference));
      run.add(stops);
      stepwise.add(stops_too);
      EXPECT_FALSE(run.train());
      while (stepwise.step()) continue;
      EXPECT_TRUE(whole.train());
      other.load_state_dict(run.state_dict());
      run.remove(stops);
      stepwise.remove(stops_too);
      for (TrainingRun* each : {&run, &stepwise, &other}) {
        EXPECT_FALSE(each->has_ended());
        EXPECT_EQ(each->history().size(), whole.history().size() - 1);
        EXPECT_TRUE(each == &stepwise ? each->step() : each->train());
        EXPECT_TRUE(each->has_ended());
        EXPECT_TRUE(bits_of(without(each->state_dict(), "history.tokens_per_second")) ==
                    bits_of(without(whole.state_dict(), "history.tokens_per_second")));
      }
    }
}

TEST(TrainingRun, EvaluatesTheSameExamplesWithoutChangingTheRun) {
  Plain plain;
  plain.options.validation = &plain.sample;
  plain.options.epochs = 2;
  plain.options.evaluation = {.every = 2,
                              .batches = 1,
                              .accuracy = true,
                              .training = &plain.sample,
                              .validation = &plain.sample};
  TrainingRun run(plain.options);
  run.train();
  EXPECT_EQ(run.history().size(), 6U);  // after steps 1, 3, 4, 5, 7 and 8
  EXPECT_TRUE(run.history().front().training_accuracy.has_value());
  const auto expected = evaluate(plain.model, plain.sample, {.batches = 1, .accuracy = true});
  EXPECT_EQ(run.history().back().validation_loss, expected->loss);
  EXPECT_EQ(run.history().back().validation_accuracy, expected->accuracy);
  Plain without;  // a run without these evaluations
  without.options.validation = &without.sample;
  without.options.evaluation.batches = 1;
  without.options.epochs = 2;
  TrainingRun twin(without.options);
  twin.train();
  ASSERT_EQ(twin.history().size(), 2U);
  EXPECT_EQ(run.history().back().training_loss, twin.history().back().training_loss);
  EXPECT_EQ(run.history().back().validation_loss, twin.history().back().validation_loss);
  EXPECT_TRUE(bits_of(plain.model.state_dict()) == bits_of(without.model.state_dict()));
  EXPECT_TRUE(bits_of(plain.optimizer.state_dict()) == bits_of(without.optimizer.state_dict()));
  EXPECT_TRUE(bits_of(plain.random.state_dict()) == bits_of(without.random.state_dict()));
}

TEST(TrainingRun, MakesNoStepIfTheNextRateIsInvalid) {
  Plain plain;
  double factor = 1;
  LearningRateSchedule schedule(plain.optimizer, Schedule::lambda([&](auto) { return factor; }));
  plain.options.schedule = &schedule;
  TrainingRun run(plain.options);
  run.train(1);
  factor = NAN;
  const auto bits = [&] {
    return bits_of(plain.model.state_dict()) + bits_of(plain.optimizer.state_dict());
  };
  const std::string before = bits();
  EXPECT_THROW(run.train(2), std::invalid_argument);
  EXPECT_EQ(run.steps(), 1U);
  EXPECT_TRUE(bits() == before);
}

TEST(TrainingRun, ReportsTheValidationLossToTheSchedule) {
  struct Reduced : Plain {
    Reduced() {
      options.schedule = &schedule;
      options.validation = &sample;
      options.epochs = 4;
    }
    // A loss improves if it is less than a tenth of the best one, so each later epoch reduces.
    LearningRateSchedule schedule{optimizer, Schedule::constant(),
                                  PlateauOptions{.factor = 0.5, .patience = 0, .threshold = 0.9}};
  };
  Reduced whole, first, second;
  TrainingRun run(whole.options), before(first.options), after(second.options);
  for (const double rate : {0.05, 0.025, 0.0125, 0.00625}) {
    run.run_epoch();
    EXPECT_DOUBLE_EQ(whole.optimizer.learning_rate(0), rate);
  }
  before.train(2 * before.steps_per_epoch() + 1);
  after.load_state_dict(before.state_dict());
  EXPECT_DOUBLE_EQ(second.optimizer.learning_rate(0), 0.025);
  after.train();
  EXPECT_TRUE(bits_of(second.model.state_dict()) == bits_of(whole.model.state_dict()));
  EXPECT_TRUE(bits_of(second.schedule.state_dict()) == bits_of(whole.schedule.state_dict()));

  Reduced blind;
  blind.options.validation = nullptr;
  EXPECT_INVALID(
      "TrainingRun: the schedule has PlateauOptions, but validation is null; expected a loader",
      TrainingRun(blind.options));
}

TEST(TrainingRun, RefusesLoadersWithoutBatches) {
  Plain plain;
  const DataLoader none(windows(31), {.batch = 100, .drop_last = true});
  TrainingRunOptions empty{
      .model = plain.model, .optimizer = plain.optimizer, .loader = none, .random = plain.random};
  const std::string message =
      "TrainingRun: a loader has no batches, expected at least 1 (see drop_last)";
  EXPECT_INVALID(message, TrainingRun{empty});
  plain.options.validation = &none;
  EXPECT_INVALID(message, TrainingRun{plain.options});
  EXPECT_INVALID("evaluate: the loader has no batches, expected at least 1",
                 evaluate(plain.model, none));
}

TEST(TrainingRun, NamesParametersThatTheLossDoesNotUse) {
  struct Forgetful : Ratings {
    explicit Forgetful(Random& random)
        : Ratings(kUsers, kFilms, random), norm(*this, "norm", 1, 4, random) {}
    Variable loss(Tape& tape, const Batch& batch) override {
      tape.parameter(norm.weight);  // on the tape, but the loss does not depend on it
      return Ratings::loss(tape, batch);
    }
    Submodule<Embedding> norm;
  };
  for (const std::size_t slices : {1, 2}) {
    Random random(1);
    Forgetful model(random);
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(rated_films(20, 1), {.batch = 3});
    const auto train = [&](bool allow_unused) {
      TrainingRun({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .slices = slices,
                   .allow_unused = allow_unused})
          .run_epoch();
    };
    const std::string before = bits_of(model.state_dict());
    EXPECT_ERROR(std::logic_error,
                 "Optimizer: 'norm.weight' [1, 4] is a parameter of the optimizer, but the loss "
                 "does not use it: does forward use its layer? Freeze the parameter if the loss "
                 "should not use it.",
                 train(false));
    EXPECT_TRUE(bits_of(model.state_dict()) == before);
    EXPECT_NO_THROW(train(true));
    model.norm.freeze();
    EXPECT_NO_THROW(train(false));
  }
}

TEST(TrainingRun, TrainsParametersAddedBetweenEpochs) {
  for (const std::size_t slices : {1, 2}) {
    Plain plain;
    plain.model.token.freeze();
    SGD optimizer(plain.model.head.parameters(), {.learning_rate = 0.1});
    TrainingRun run({.model = plain.model,
                     .optimizer = optimizer,
                     .loader = plain.loader,
                     .random = plain.random,
                     .slices = slices});
    run.run_epoch();
    plain.model.token.unfreeze();
    const Tensor before = plain.model.token.weight.value();
    const StateDict last = run.state_dict();
    EXPECT_ERROR(std::logic_error,
                 "Optimizer: 'token.weight' [7, 4] is used by the loss, but is not one of the "
                 "optimizer's parameters: is its layer a Submodule of the model?",
                 run.run_epoch());
    run.load_state_dict(last);
    optimizer.add_group({.parameters = plain.model.token.parameters(), .options = {}});
    run.run_epoch();
    EXPECT_NE(plain.model.token.weight.value(), before);
  }
}

TEST(TrainingRun, RejectsInvalidOptionsAndStates) {
  Plain plain, begun;
  LearningRateSchedule later(plain.optimizer, Schedule::cosine({.steps = 20}));
  later.step();
  LearningRateSchedule of_another(begun.optimizer, Schedule::constant());
  using Change = std::function<void(TrainingRunOptions&)>;
  for (const auto& [message, change] : std::vector<std::pair<std::string, Change>>{
           {"clip_norm is -1, expected a finite number >= 0",
            [](auto& options) { options.clip_norm = -1; }},
           {"clip_norm is nan, expected a finite number >= 0",
            [](auto& options) { options.clip_norm = NAN; }},
           {"accumulate is 0, expected at least 1", [](auto& options) { options.accumulate = 0; }},
           {"compare_every is 0, expected at least 1",
            [](auto& options) { options.compare_every = 0; }},
           {"evaluation.every is 5, but evaluation.training is null; expected a loader",
            [](auto& options) { options.evaluation.every = 5; }},
           {"the schedule has made steps, expected a new one",
            [&](auto& options) { options.schedule = &later; }},
           {"the schedule belongs to another optimizer, expected the run's",
            [&](auto& options) { options.schedule = &of_another; }}}) {
    TrainingRunOptions options = plain.options;
    change(options);
    EXPECT_INVALID("TrainingRun: " + message, TrainingRun{options});
  }
  TrainingRun run(plain.options);
  const StateDict good = run.state_dict();
  EXPECT_INVALID("TrainingRun: the state has a schedule, but the run has none",
                 run.load_state_dict(with(good, "schedule.step", std::int64_t{0})));
  EXPECT_INVALID(
      "TrainingRun: not the state of a run, or saved by an older version; its model and optimizer "
      "can be loaded separately",
      run.load_state_dict(without(good, "progress.epoch")));
  EXPECT_INVALID(
      "TrainingRun: the state has 2 steps, expected 0 for its epoch and batch with accumulate 1",
      run.load_state_dict(with(good, "steps", std::int64_t{2})));
  const std::string message =
      "Classifier::set_loss: got a reduction other than kMean, or target_weights, expected kMean "
      "without target_weights";
  EXPECT_INVALID(message, plain.model.set_loss({.reduction = LossReduction::kSum}));
  EXPECT_INVALID(message, plain.model.set_loss({.target_weights = Tensor{1}}));
  EXPECT_NO_THROW(run.train(1));  // the loss is unchanged
  plain.model.set_loss({.class_weights = Tensor{1, 1}});
  EXPECT_INVALID("total_weight: class_weights has shape [2], expected [7]", run.train(2));
}

TEST(TrainingRun, EndsAfterItsStepsOrEpochs) {
  Plain plain;
  TrainingRun run(plain.options);
  EXPECT_FALSE(run.has_ended());
  const std::string endless =
      "TrainingRun::train: the run has no length, expected steps, epochs or last_step";
  EXPECT_INVALID(endless, run.train());
  EXPECT_FALSE(run.train(1));
  run.set_length(kNoLimit, 0);
  EXPECT_INVALID(endless, run.train());
  run.set_length(2, 0);
  EXPECT_EQ(run.total_steps(), 2 * run.steps_per_epoch());
  EXPECT_TRUE(run.train());
  EXPECT_EQ(run.history().size(), 2U);
  run.set_length(2, run.steps() + 3);
  EXPECT_EQ(run.steps_left(), 3U);
  EXPECT_FALSE(run.train(run.steps() + 2));
  EXPECT_TRUE(run.train());
  EXPECT_EQ(run.steps_left(), 0U);
  EXPECT_EQ(run.history().size(), 2U);
}

TEST(TrainingRun, CallsItsCallbacksInOrder) {
  // A callback that records each call with the number of steps.
  struct Diary : TrainingCallback {
    void after_backward(const TrainingRun& run, const Tape& tape) override {
      EXPECT_EQ(tape.parameters().size(), 3U);  // table, weight and bias
      note("backward", run);
    }
    void before_update(const TrainingRun& run) override { note("update", run); }
    void after_step(const TrainingRun& run, const StepResult& result) override {
      EXPECT_GT(run.speed(), 0);
      EXPECT_EQ(result.records.size(), run.history().size() - known);
      for (const TrainingRecord& record : result.records) {
        EXPECT_GT(record.speed, 0);
        note(record.ends_epoch() ? "epoch" : "losses", run);
      }
      known = run.history().size();
      if (result.loss) note("step", run);
    }
    bool should_continue(const TrainingRun& run) override { return run.steps() < last_step; }
    void at_end(const TrainingRun& run) override { note("end", run); }

    void note(const char* what, const TrainingRun& run) {
      text += concat(what, ' ', run.steps(), run.has_more_steps() ? ", " : "; ");
    }
    std::size_t known = 0, last_step = 9;
    std::string text;
  };
  for (const std::size_t slices : {1, 3}) {
    Plain plain;
    plain.options.accumulate = 2;
    plain.options.slices = slices;
    plain.options.steps = 3;
    plain.options.evaluation = {.every = 2, .batches = 1, .training = &plain.sample};
    TrainingRun run(plain.options);
    ASSERT_EQ(run.steps_per_epoch(), 2U);
    Diary diary;
    run.add(diary);
    const auto backward = [&](int step) {
      std::string all;
      for (std::size_t i = 0; i < 2 * slices; ++i) all += concat("backward ", step, ", ");
      return all;
    };
    run.train(1);
    EXPECT_EQ(diary.text, backward(0) + "update 0, losses 1; step 1; end 1; ");
    diary.text.clear();
    diary.last_step = 3;  // stops before the evaluation after step 3
    run.train();
    EXPECT_EQ(diary.text, backward(1) + "update 1, epoch 2, step 2, " + backward(2) +
                              "update 2, step 3; end 3; ");
    diary.text.clear();
    diary.last_step = 9;
    run.train();
    EXPECT_EQ(diary.text, "losses 3; end 3; ");
  }
}

TEST(TrainingRun, SkipsBatchesWithoutUnmaskedTargets) {
  Plain plain(30), nothing(61);  // `plain` has no targets in its first two batches
  TrainingRun run(plain.options);
  const std::string before = bits_of(plain.model.state_dict());
  run.train(2);
  EXPECT_EQ(bits_of(plain.model.state_dict()), before);
  run.load_state_dict(run.state_dict());
  EXPECT_TRUE(run.run_epoch());
  EXPECT_NE(bits_of(plain.model.state_dict()), before);
  EXPECT_GT(run.history().front().training_loss, 0);
  EXPECT_INVALID(
      "TrainingRun: all targets of epoch 1 have weight 0, expected at least one with nonzero "
      "weight",
      TrainingRun(nothing.options).run_epoch());
}

TEST(TrainingRun, IgnoresBatchesOfAStepWithoutUnmaskedTargets) {
  const auto losses_with = [](std::size_t accumulate) {
    Plain plain(15);  // no targets in the first batch
    plain.model.eval();
    plain.options.accumulate = accumulate;
    TrainingRun run(plain.options);
    Losses losses;
    run.add(losses);
    run.train(accumulate == 1 ? 2 : 1);
    return std::pair(losses.all.back(), bits_of(plain.model.state_dict()));
  };
  EXPECT_EQ(losses_with(2), losses_with(1));
}

TEST(TrainingRun, ReportsTheArithmeticOfALoadedState) {
  RunOf trained(kWholeCases.front()), resumed(kWholeCases.front());
  trained.run.train(2);
  EXPECT_EQ(trained.run.loaded_arithmetic(), "");
  EXPECT_HAS(TrainingRun::arithmetic(), blas::describe());
  StateDict elsewhere = with(trained.run.state_dict(), "arithmetic", "an abacus");
  resumed.run.load_state_dict(elsewhere);
  EXPECT_EQ(resumed.run.loaded_arithmetic(), "an abacus");
  elsewhere.erase("steps");
  elsewhere = with(elsewhere, "arithmetic", "fingers");
  EXPECT_THROW(resumed.run.load_state_dict(elsewhere), std::invalid_argument);
  EXPECT_EQ(resumed.run.loaded_arithmetic(), "an abacus");  // nothing has changed
  resumed.run.load_state_dict(trained.run.state_dict());
  EXPECT_EQ(resumed.run.loaded_arithmetic(), TrainingRun::arithmetic());
}

}  // namespace
