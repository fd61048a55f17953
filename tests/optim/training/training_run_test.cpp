#include "tests/support/models.hpp"
#include "tests/test.hpp"

namespace {

// A run that owns all its parts. Another one begins with other numbers.
struct Trained {
  explicit Trained(bool other = false) : random(other ? 2 : 1) {}

  Random random;
  Bigram model{random};
  AdamW optimizer{model.parameters(), {.learning_rate = 0.05}};
  DataLoader loader{windows(61), {.batch = 3, .shuffle = true}};
  DataLoader validation{windows(31), {.batch = 2}};
  LearningRateSchedule schedule{optimizer, Schedule::cosine({.steps = 20})};
  TrainingRun run{{.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .schedule = &schedule,
                   .validation = &validation,
                   .clip_norm = 1}};

  std::string bits() const {
    return bits_of(without(run.state_dict(), "history.tokens_per_second"));
  }
};

// The parts of a run that needs no more, for a test to change.
struct Plain {
  explicit Plain(std::size_t ignored = 0) : loader(windows(61, ignored), {.batch = 3}) {}

  Random random{1};
  Bigram model{random};
  SGD optimizer{model.parameters(), {.learning_rate = 0.1}};
  DataLoader loader;
  DataLoader sample{windows(31), {.batch = 2}};
  TrainingParts parts{.model = model, .optimizer = optimizer, .loader = loader, .random = random};
};

// The steps of a run, made by hand: each takes the gradients of so many batches.
std::vector<double> make_steps(Trained& by_hand, std::size_t accumulate, auto clip) {
  std::vector<double> losses;
  std::size_t batches = 0;
  double sum = 0;
  for (const Batch& batch : by_hand.loader) {
    const std::size_t left = by_hand.loader.size() - batches / accumulate * accumulate;
    const std::size_t count = std::min(accumulate, left);
    if (batches % accumulate == 0) by_hand.optimizer.zero_grad();
    Tape tape(by_hand.random);
    const Variable loss = by_hand.model.loss(tape, batch);
    tape.backward(loss, scalar(real{1} / static_cast<real>(count)));
    sum += loss.item();
    if (++batches % accumulate != 0 && batches != by_hand.loader.size()) continue;
    clip(losses.size());
    by_hand.optimizer.step();
    losses.push_back(sum / static_cast<double>(count));
    sum = 0;
  }
  return losses;
}

TEST(TrainingRun, TrainsAnyLanguageModel) {
  Trained trained;
  for (int epoch = 0; epoch < 5; ++epoch) EXPECT_TRUE(trained.run.run_epoch());
  const auto& history = trained.run.history();
  ASSERT_EQ(history.size(), 5U);
  EXPECT_LT(history.back().training_loss, history.front().training_loss);
  EXPECT_LT(*history.back().validation_loss, *history.front().validation_loss);
  for (std::size_t i = 0; i < history.size(); ++i) {
    EXPECT_EQ(history[i].epoch, i + 1);
    EXPECT_EQ(history[i].steps, (i + 1) * trained.loader.size());
    EXPECT_GT(history[i].speed, 0);
  }
  EXPECT_EQ(*history.back().validation_loss, evaluate(trained.model, trained.validation)->loss);
}

TEST(TrainingRun, IsALoopOfSteps) {
  Trained trained, reference;
  for (Trained* each : {&trained, &reference}) each->run.set_length(2, 0);
  std::size_t steps = 0;
  while (trained.run.step()) EXPECT_EQ(trained.run.steps(), ++steps);
  EXPECT_EQ(steps, 2 * trained.loader.size());
  EXPECT_FALSE(trained.run.step());
  EXPECT_TRUE(reference.run.train());
  EXPECT_TRUE(trained.bits() == reference.bits());
}

TEST(TrainingRun, DoesTheStepsThatALoopWouldDo) {
  for (const auto& [accumulate, clip_norm, clip_from] :
       {std::tuple{1, 1.0, 0}, {1, 0.01, 2}, {3, 0.0, 0}}) {
    Trained trained, by_hand;
    const auto every = static_cast<std::size_t>(accumulate);
    const auto first = static_cast<std::size_t>(clip_from);
    TrainingRun run({.model = trained.model,
                     .optimizer = trained.optimizer,
                     .loader = trained.loader,
                     .random = trained.random,
                     .schedule = &trained.schedule,
                     .clip_norm = clip_norm,
                     .clip_from = first,
                     .accumulate = every});
    Losses losses;
    run.observe(losses);
    EXPECT_TRUE(run.run_epoch());
    const double most = clip_norm;
    const std::vector<double> expected = make_steps(by_hand, every, [&](std::size_t step) {
      if (step > 0) by_hand.schedule.step();
      if (most == 0 || step < first) return;
      EXPECT_GT(clip_grad_norm(by_hand.optimizer.parameters(), most), 0.01);
    });
    by_hand.schedule.step();
    // The last step of the epoch takes what is left.
    EXPECT_EQ(run.steps_per_epoch(), (trained.loader.size() + every - 1) / every);
    ASSERT_EQ(losses.all.size(), run.steps_per_epoch());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_DOUBLE_EQ(losses.all[i], expected[i]) << i;
    EXPECT_TRUE(bits_of(trained.model.state_dict()) == bits_of(by_hand.model.state_dict()));
    EXPECT_TRUE(bits_of(trained.optimizer.state_dict()) == bits_of(by_hand.optimizer.state_dict()));
  }
}

// With a weight that is no number from the second step on, too.
TEST(TrainingRun, IsResumable) {
  struct Poisoned : RunningTraining<Trained> {
    using RunningTraining::RunningTraining;
    std::string step() override {
      if (trained.run.steps() == 2) {
        Tensor table = trained.model.token.weight.copy();
        table(3, 1) = NAN;
        trained.model.token.weight.assign(table);
      }
      return RunningTraining::step();
    }
  };
  Resumable run{
      .name = "a run",
      .make = [](bool other) { return std::make_unique<RunningTraining<Trained>>(other); },
      .steps = 11,
      .taken = kTakenByRuns,
      .failing = {3}};
  expect_resumable(run);
  run.make = [](bool other) { return std::make_unique<Poisoned>(other); };
  expect_to_go_on(run);
}

// Stops a run where an epoch has no step left, which breaks its evaluation off.
struct StopsBeforeEvaluations : RunObserver {
  bool goes_on(const TrainingRun& run) override {
    const std::size_t epochs = run.history().size() + 1;
    return run.steps() < epochs * run.steps_per_epoch();
  }
};

TEST(TrainingRun, RepeatsAnEvaluationThatWasBrokenOff) {
  Trained trained, by_steps, resumed, reference;
  StopsBeforeEvaluations stops;
  const std::size_t epoch = trained.loader.size();
  trained.run.observe(stops);
  EXPECT_FALSE(trained.run.run_epoch());
  by_steps.run.observe(stops);
  for (std::size_t i = 0; i < epoch; ++i) EXPECT_TRUE(by_steps.run.step());
  EXPECT_FALSE(by_steps.run.step());
  EXPECT_TRUE(trained.run.history().empty());
  resumed.run.load_state_dict(trained.run.state_dict());
  reference.run.run_epoch();
  for (Trained* each : {&trained, &by_steps, &resumed}) {
    EXPECT_EQ(each->run.epochs(), 0U);
    EXPECT_EQ(each->run.steps(), epoch);
    each->run.forget(stops);
    EXPECT_TRUE(each == &by_steps ? each->run.step() : each->run.run_epoch());
    EXPECT_EQ(each->run.steps(), epoch);
    EXPECT_EQ(each->run.epochs(), 1U);
    EXPECT_TRUE(each->bits() == reference.bits());
    EXPECT_TRUE(each->run.step());
    EXPECT_EQ(each->run.steps(), epoch + 1);
  }
}

// The last evaluation is that of an epoch or, where the last step is in the middle of one, one in
// its course.
TEST(TrainingRun, HasNotEndedBeforeItsLastEvaluationIsMade) {
  struct StopsAtTheEnd : RunObserver {
    bool goes_on(const TrainingRun& run) override { return run.steps_left() > 0; }
  } stops;
  for (const std::size_t steps : {4, 7}) {
    for (const bool in_epochs : {false, true}) {
      if (in_epochs && steps != 4) continue;
      Plain plain;
      plain.parts.validation = &plain.sample;
      plain.parts.evaluation = {.every = 6, .training = &plain.sample};
      TrainingRun run(plain.parts);
      ASSERT_EQ(run.steps_per_epoch(), 4U);
      in_epochs ? run.set_length(1, 0) : run.set_length(kNoLimit, steps);
      run.observe(stops);
      EXPECT_FALSE(run.train());
      EXPECT_EQ(run.steps(), steps);
      EXPECT_EQ(run.epochs(), steps / 7);
      EXPECT_EQ(run.history().size() - run.epochs(), 1U);  // after the first step
      run.forget(stops);
      EXPECT_TRUE(run.train());
      EXPECT_EQ(run.steps(), steps);
      EXPECT_EQ(run.epochs(), 1U);
      EXPECT_EQ(run.history().size() - run.epochs(), 1 + steps / 7);
    }
  }
}

TEST(TrainingRun, NeedsNeitherScheduleNorValidation) {
  Plain plain;
  TrainingRun run(plain.parts);
  EXPECT_TRUE(run.run_epoch());
  EXPECT_FALSE(run.history().front().validation_loss.has_value());
  const Checkpoint state = run.state_dict();
  run.run_epoch();
  run.load_state_dict(state);
  EXPECT_TRUE(bits_of(run.state_dict()) == bits_of(state));
  EXPECT_INVALID("TrainingRun: the loader is at batch 0 of epoch 1, expected its beginning",
                 TrainingRun{plain.parts});
}

TEST(TrainingRun, IsOneFileWithWhatElseAProgramHas) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "run.safetensors";
  Trained trained;
  TrainingRun& run = trained.run;
  run.run_epoch();
  // [save]
  Checkpoint all;
  all.put("run", run.state_dict());
  all.put("text", "The Verdict");
  write_safetensors(path, all);
  // [save]
  Trained resumed;
  TrainingRun& other = resumed.run;
  // [resume]
  const Checkpoint file = read_safetensors(path);
  other.load_state_dict(file.part("run"));
  // [resume]
  EXPECT_TRUE(resumed.bits() == trained.bits());
  EXPECT_EQ(file.text("text"), "The Verdict");
}

TEST(TrainingRun, TakesForeignWeights) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "foreign.safetensors";
  Random random(1);
  Bigram model(random);
  Checkpoint theirs;
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

TEST(TrainingRun, NamesTheVersionOfAStateThatIsTooOld) {
  Trained trained;
  EXPECT_INVALID(
      "TrainingRun: the state is of version 0.2.0 or older, or of no run; its model and optimizer "
      "may be loaded alone",
      trained.run.load_state_dict(without(trained.run.state_dict(), "history.epoch")));
}

TEST(TrainingRun, RefusesTheStateOfARunOnOtherBatches) {
  Trained trained;
  trained.run.train(2);
  Ids text = windows(61).text().ids();
  text.data()[40] ^= 1;
  const std::string message = "DataLoader::load_state_dict: the state is of a loader with ";
  const DataLoaderOptions options{.batch = 3, .shuffle = true};
  const auto same = windows(61);
  const struct {
    TokenWindows windows;
    DataLoaderOptions options;
    std::string refusal;
  } cases[] = {
      {same, options, "no error"},
      {same, {.batch = 3}, message + "shuffle 1, this one has 0"},
      {same, {.batch = 4, .shuffle = true}, message + "batch 3, this one has 4"},
      {TokenWindows(text, {.context = 5, .stride = 5}), options, message + "ids_checksum "}};
  for (const auto& [other_windows, other_options, refusal] : cases) {
    Trained other;
    DataLoader loader(other_windows, other_options);
    TrainingRun run({.model = other.model,
                     .optimizer = other.optimizer,
                     .loader = loader,
                     .random = other.random,
                     .schedule = &other.schedule});
    const std::string before = bits_of(run.state_dict());
    EXPECT_HAS(
        error_of<std::invalid_argument>([&] { run.load_state_dict(trained.run.state_dict()); }),
        refusal);
    EXPECT_EQ(bits_of(run.state_dict()) == before, refusal != "no error");
  }
}

TEST(TrainingRun, GoesOnFromItsLastStateAfterAStepThatFailed) {
  Trained failing, reference;
  for (const std::size_t step : {0, 2, 4, 7}) {
    failing.run.train(step);
    const Checkpoint last = failing.run.state_dict();
    failing.model.fails = true;
    EXPECT_THROW(failing.run.step(), std::runtime_error);
    failing.model.fails = false;
    EXPECT_ERROR(std::logic_error,
                 "TrainingRun: a step has failed, so load the state that was saved last",
                 failing.run.step());
    failing.run.load_state_dict(last);
    EXPECT_EQ(failing.run.steps(), step);
  }
  for (Trained* each : {&failing, &reference}) each->run.train(9);
  EXPECT_TRUE(failing.bits() == reference.bits());
}

TEST(TrainingRun, LeavesALoaderThatAnotherRunCanHave) {
  Plain plain;
  plain.parts.shards = 2;
  struct : RunObserver {
    void after_step(const TrainingRun&, double) override { throw std::runtime_error("enough"); }
  } throws;
  for (const bool in_the_model : {true, false}) {
    plain.model.fails = in_the_model;
    {
      TrainingRun run(plain.parts);
      if (!in_the_model) run.observe(throws);
      EXPECT_THROW(run.run_epoch(), std::runtime_error);
    }
    plain.loader.rewind();
    EXPECT_NO_THROW(TrainingRun{plain.parts});
  }
}

// The optimizer's step is made only if the schedule has a next rate.
TEST(TrainingRun, MakesNoStepThatItsScheduleRefuses) {
  Plain plain;
  double factor = 1;
  LearningRateSchedule schedule(plain.optimizer, Schedule::lambda([&](auto) { return factor; }));
  plain.parts.schedule = &schedule;
  TrainingRun run(plain.parts);
  run.train(1);
  factor = NAN;
  const std::string before = bits_of(run.state_dict());
  EXPECT_THROW(run.train(2), std::invalid_argument);
  EXPECT_EQ(run.steps(), 1U);
  EXPECT_TRUE(bits_of(run.state_dict()) == before);
}

TEST(TrainingRun, NamesParametersThatTheLossDoesNotUse) {
  class Forgetful : public Bigram {
   public:
    explicit Forgetful(Random& random) : Bigram(random), norm(*this, "norm", 1, 4, random) {}
    Variable forward(Tape& tape, const Ids& ids) override {
      tape.parameter(norm.weight);  // on the tape, but the loss does not depend on it
      return Bigram::forward(tape, ids);
    }
    Part<Embedding> norm;
  };
  for (const std::size_t shards : {1, 2}) {
    Random random(1);
    Forgetful model(random);
    SGD optimizer(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(windows(61), {.batch = 3});
    TrainingParts parts{.model = model,
                        .optimizer = optimizer,
                        .loader = loader,
                        .random = random,
                        .shards = shards};
    const std::string before = bits_of(model.state_dict());
    EXPECT_ERROR(
        std::logic_error,
        "Optimizer: 'norm.weight' [1, 4] is a parameter of the optimizer, but the loss does "
        "not use it: does forward use its layer? If it is not meant to, freeze it.",
        TrainingRun(parts).run_epoch());
    EXPECT_TRUE(bits_of(model.state_dict()) == before);
    loader.rewind();
    parts.allow_unused = true;
    EXPECT_NO_THROW(TrainingRun(parts).run_epoch());
    loader.rewind();
    parts.allow_unused = false;
    model.norm.freeze();
    EXPECT_NO_THROW(TrainingRun(parts).run_epoch());
  }
}

TEST(TrainingRun, TrainsParametersThatTheOptimizerGetsBetweenEpochs) {
  for (const std::size_t shards : {1, 2}) {
    Plain plain;
    plain.model.token.freeze();
    SGD optimizer(plain.model.head.parameters(), {.learning_rate = 0.1});
    TrainingRun run({.model = plain.model,
                     .optimizer = optimizer,
                     .loader = plain.loader,
                     .random = plain.random,
                     .shards = shards});
    run.run_epoch();
    plain.model.token.unfreeze();
    const Tensor before = plain.model.token.weight.value();
    const Checkpoint last = run.state_dict();
    EXPECT_ERROR(std::logic_error,
                 "Optimizer: 'token.weight' [7, 4] takes part in the loss, but is none of the "
                 "optimizer's parameters: is its layer a Part of the model?",
                 run.run_epoch());
    run.load_state_dict(last);
    optimizer.add_group({.parameters = plain.model.token.parameters(), .options = {}});
    run.run_epoch();
    EXPECT_NE(plain.model.token.weight.value(), before);
  }
}

TEST(TrainingRun, EvaluatesTheSameWindowsEachTime) {
  const auto losses = [](std::size_t stop) {
    Plain plain;
    plain.model.token.freeze();
    plain.optimizer.set_learning_rate(0);
    DataLoader validation(windows(61), {.batch = 5, .shuffle = true, .drop_last = true});
    plain.parts.validation = &validation;
    TrainingRun run(plain.parts);
    StopsBeforeEvaluations stops;
    run.observe(stops);
    for (std::size_t i = 0; i < stop; ++i) run.run_epoch();
    run.forget(stops);
    run.run_epoch();
    run.run_epoch();
    return std::pair(*run.history()[0].validation_loss, *run.history()[1].validation_loss);
  };
  const auto [first, second] = losses(0);
  EXPECT_EQ(first, second);
  EXPECT_EQ(losses(1), std::pair(first, second));
}

TEST(TrainingRun, RefusesPartsThatDoNotFit) {
  Plain plain;
  LearningRateSchedule later(plain.optimizer, Schedule::cosine({.steps = 20}));
  later.step();
  SGD other(plain.model.parameters(), {.learning_rate = 0.1});
  LearningRateSchedule of_another(other, Schedule::constant());
  using Change = std::function<void(TrainingParts&)>;
  for (const auto& [message, change] : std::vector<std::pair<std::string, Change>>{
           {"clip_norm is -1, expected a finite number not below 0",
            [](auto& parts) { parts.clip_norm = -1; }},
           {"clip_norm is nan, expected a finite number not below 0",
            [](auto& parts) { parts.clip_norm = NAN; }},
           {"accumulate is 0, expected at least 1", [](auto& parts) { parts.accumulate = 0; }},
           {"compare_every is 0, expected at least 1",
            [](auto& parts) { parts.compare_every = 0; }},
           {"there is no loader for the evaluation every 5 steps",
            [](auto& parts) { parts.evaluation.every = 5; }},
           {"the schedule is not at step 0", [&](auto& parts) { parts.schedule = &later; }},
           {"the schedule is of another optimizer",
            [&](auto& parts) { parts.schedule = &of_another; }}}) {
    TrainingParts parts = plain.parts;
    change(parts);
    EXPECT_INVALID("TrainingRun: " + message, TrainingRun{parts});
  }
  EXPECT_INVALID("TrainingRun: the state has a schedule, the run has none",
                 TrainingRun(plain.parts).load_state_dict(Trained().run.state_dict()));
}

TEST(TrainingRun, KnowsItsEndInStepsOrEpochs) {
  Trained trained;
  TrainingRun& run = trained.run;
  EXPECT_FALSE(run.has_ended());
  const std::string endless =
      "TrainingRun: train() would never end, as neither epochs nor steps are given, nor a last "
      "step";
  EXPECT_INVALID(endless, run.train());
  EXPECT_FALSE(run.train(1));
  for (const std::size_t epochs : {kNoLimit / 8, kNoLimit}) {
    run.set_length(epochs, 0);
    EXPECT_EQ(run.units_left(), kNoLimit);
  }
  EXPECT_INVALID(endless, run.train());
  run.set_length(2, 0);
  EXPECT_EQ(run.steps_in_all(), 2 * run.steps_per_epoch());
  EXPECT_TRUE(run.train());
  EXPECT_EQ(run.history().size(), 2U);
  run.set_length(2, run.steps() + 3);
  EXPECT_EQ(run.steps_left(), 3U);
  EXPECT_FALSE(run.train(run.steps() + 2));
  EXPECT_TRUE(run.train());
  EXPECT_EQ(run.steps_left(), 0U);
  EXPECT_EQ(run.history().size(), 2U);
}

// Writes down what it is told, with the step.
struct Diary : RunObserver {
  void after_backward(const TrainingRun& run, const Tape&) override { note("backward", run); }
  void before_update(const TrainingRun& run) override { note("update", run); }
  void after_step(const TrainingRun& run, double) override { note("step", run); }
  void after_record(const TrainingRun& run, const TrainingRecord& record) override {
    note(record.ends_epoch() ? "epoch" : "losses", run);
  }
  void at_end(const TrainingRun& run) override { note("end", run); }

  void note(const char* what, const TrainingRun& run) {
    text += concat(what, ' ', run.steps(), run.makes_more_steps() ? ", " : "; ");
  }
  std::string text;
};

TEST(TrainingRun, TellsItsObserversWhatItDoes) {
  Plain plain;
  plain.parts.accumulate = 2;
  plain.parts.steps = 3;
  plain.parts.evaluation = {.every = 2, .batches = 1, .training = &plain.sample};
  TrainingRun run(plain.parts);
  ASSERT_EQ(run.steps_per_epoch(), 2U);
  Diary diary;
  run.observe(diary);
  run.train(1);
  EXPECT_EQ(diary.text, "backward 0, backward 0, update 0, losses 1; step 1; end 1; ");
  diary.text.clear();
  run.train();
  EXPECT_EQ(diary.text,
            "backward 1, backward 1, update 1, epoch 2, step 2, "
            "backward 2, backward 2, update 2, losses 3; step 3; end 3; ");
}

TEST(TrainingRun, KnowsItsSpeedAndShowsEachTapeOfAStepOnceItWentBackward) {
  struct : RunObserver {
    void after_backward(const TrainingRun&, const Tape& tape) override {
      tapes += tape.parameters().size() == 3;  // table, weight and bias
    }
    void before_update(const TrainingRun&) override { tapes_of_steps.push_back(tapes); }
    void after_step(const TrainingRun& run, double) override { EXPECT_GT(run.speed(), 0); }
    std::size_t tapes = 0;
    std::vector<std::size_t> tapes_of_steps;
  } watched;
  for (const std::size_t shards : {1, 2}) {
    watched.tapes = 0;
    watched.tapes_of_steps.clear();
    Plain plain;
    plain.parts.accumulate = 2;
    plain.parts.shards = shards;
    TrainingRun run(plain.parts);
    run.observe(watched);
    run.train(2);
    EXPECT_EQ(watched.tapes_of_steps, (std::vector<std::size_t>{2 * shards, 4 * shards}));
  }
}

TEST(TrainingRun, KeepsAccuraciesWithItsState) {
  Plain plain, again;
  const auto evaluate_in = [](Plain& each) {
    each.parts.validation = &each.sample;
    each.parts.epochs = 2;
    each.parts.evaluation = {.every = 2,
                             .batches = 1,
                             .accuracy = true,
                             .training = &each.sample,
                             .validation = &each.sample};
  };
  evaluate_in(plain);
  evaluate_in(again);
  TrainingRun run(plain.parts), resumed(again.parts);
  run.train();
  EXPECT_EQ(run.history().back().validation_accuracy,
            evaluate(plain.model, plain.sample, {.accuracy = true})->accuracy);
  EXPECT_TRUE(run.history().front().training_accuracy.has_value());
  EXPECT_EQ(run.history().size(), 6U);  // after steps 1, 3, 4, 5, 7 and 8
  resumed.load_state_dict(run.state_dict());
  EXPECT_TRUE(bits_of(resumed.state_dict()) == bits_of(run.state_dict()));
}

TEST(TrainingRun, RefusesLossesThatAreNoMean) {
  Trained trained;
  const std::string message =
      "TextModel: the loss is a mean, without weights of the targets of one batch";
  EXPECT_INVALID(message, trained.model.set_loss({.reduction = LossReduction::kSum}));
  EXPECT_INVALID(message, trained.model.set_loss({.target_weights = Tensor{1}}));
  EXPECT_NO_THROW(trained.run.train(1));  // with the loss as it was
  trained.model.set_loss({.class_weights = Tensor{1, 1}});
  EXPECT_INVALID("total_weight: class_weights has shape [2], expected [7]", trained.run.train(2));
}

TEST(TrainingRun, GoesOnOverBatchesWithoutTargetsThatCount) {
  Plain plain(30), nothing(61);  // none in the first two batches, none at all
  AdamW adamw(plain.model.parameters(), {.learning_rate = 0.1});
  TrainingRun run(
      {.model = plain.model, .optimizer = adamw, .loader = plain.loader, .random = plain.random});
  const std::string before = bits_of(plain.model.state_dict());
  run.train(2);
  EXPECT_EQ(bits_of(plain.model.state_dict()), before);
  run.load_state_dict(run.state_dict());
  EXPECT_TRUE(run.run_epoch());
  EXPECT_NE(bits_of(plain.model.state_dict()), before);
  EXPECT_GT(run.history().front().training_loss, 0);
  EXPECT_INVALID("TrainingRun: no target of epoch 1 counts, so it has no loss",
                 TrainingRun(nothing.parts).run_epoch());
}

TEST(TrainingRun, KnowsWhatItsStateWasComputedWith) {
  Trained trained, resumed;
  trained.run.train(2);
  EXPECT_EQ(trained.run.loaded_arithmetic(), "");
  EXPECT_HAS(TrainingRun::arithmetic(), blas::describe());
  Checkpoint elsewhere = with(trained.run.state_dict(), "arithmetic", "an abacus");
  resumed.run.load_state_dict(elsewhere);
  EXPECT_EQ(resumed.run.loaded_arithmetic(), "an abacus");
  elsewhere.erase("steps");
  elsewhere = with(elsewhere, "arithmetic", "fingers");
  EXPECT_THROW(resumed.run.load_state_dict(elsewhere), std::invalid_argument);
  EXPECT_EQ(resumed.run.loaded_arithmetic(), "an abacus");  // nothing has changed
  resumed.run.load_state_dict(trained.run.state_dict());
  EXPECT_EQ(resumed.run.loaded_arithmetic(), TrainingRun::arithmetic());
}

TEST(TrainingRun, TakesTheMeanOverTheBatchesOfAStepThatCount) {
  const auto losses_with = [](std::size_t accumulate) {
    Plain plain(15);  // none in the first batch
    plain.model.eval();
    plain.parts.accumulate = accumulate;
    TrainingRun run(plain.parts);
    Losses losses;
    run.observe(losses);
    run.train(accumulate == 1 ? 2 : 1);
    return std::pair(losses.all.back(), bits_of(plain.model.state_dict()));
  };
  EXPECT_EQ(losses_with(2), losses_with(1));
}

}  // namespace
