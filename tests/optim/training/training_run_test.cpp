#include "tests/test.hpp"

namespace {

constexpr std::size_t kVocabulary = 7;

// Any language model will do: each token predicts the next.
class Bigram : public LanguageModel {
 public:
  explicit Bigram(Random& random)
      : token(*this, "token", kVocabulary, 4, random),
        dropout(*this, "dropout", 0.2),
        head(*this, "head", 4, kVocabulary, random) {}

  Variable forward(Tape& tape, const Ids& ids) override {
    if (fails) throw std::runtime_error("no memory, say");
    return head.forward(dropout.forward(token.forward(tape, ids)));
  }
  bool fails = false;
  std::size_t context() const override { return 5; }
  std::size_t vocabulary() const override { return kVocabulary; }

  Part<Embedding> token;
  Part<Dropout> dropout;
  Part<Linear> head;
};

TokenWindows windows(std::size_t tokens, std::size_t context = 5) {
  std::vector<std::int32_t> text(tokens);
  for (std::size_t i = 0; i < tokens; ++i) text[i] = static_cast<std::int32_t>(i * i % kVocabulary);
  return TokenWindows(to_ids(text), {.context = context, .stride = context});
}

// A run that owns all its parts.
struct Trained {
  Random random{1};
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

  void train_to(std::size_t steps) { run.train(steps); }
  std::string bits() const {
    return bits_of(without(run.state_dict(), "history.tokens_per_second"));
  }
};

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

TEST(TrainingRun, AccumulatesTheGradientsOfBatches) {
  Trained trained;
  Trained by_hand;
  TrainingRun run({.model = trained.model,
                   .optimizer = trained.optimizer,
                   .loader = trained.loader,
                   .random = trained.random,
                   .accumulate = 3});
  ASSERT_NE(trained.loader.size() % 3, 0U);  // the last step of the epoch takes what is left
  EXPECT_EQ(run.steps_per_epoch(), trained.loader.size() / 3 + 1);
  struct : RunObserver {
    void after_step(const TrainingRun&, double loss) override { losses.push_back(loss); }
    std::vector<double> losses;
  } watched;
  run.observe(watched);
  EXPECT_TRUE(run.run_epoch());
  const std::vector<double>& losses = watched.losses;
  EXPECT_EQ(losses.size(), run.steps_per_epoch());

  std::size_t batches = 0;
  double loss_sum = 0;
  for (const Batch& batch : by_hand.loader) {
    const std::size_t left = by_hand.loader.size() - batches / 3 * 3;
    const real share = real{1} / static_cast<real>(std::min<std::size_t>(3, left));
    if (batches % 3 == 0) by_hand.optimizer.zero_grad();
    Tape tape(by_hand.random);
    const Variable loss = by_hand.model.loss(tape, batch);
    tape.backward(loss, scalar(share));
    loss_sum += loss.item();
    if (++batches % 3 != 0 && batches != by_hand.loader.size()) continue;
    by_hand.optimizer.step();
    EXPECT_DOUBLE_EQ(losses[(batches - 1) / 3], loss_sum / std::min<double>(3, left));
    loss_sum = 0;
  }
  EXPECT_EQ(bits_of(trained.model.state_dict()), bits_of(by_hand.model.state_dict()));
}

TEST(TrainingRun, DoesTheStepsThatALoopWouldDo) {
  Trained trained;
  Trained by_hand;
  trained.run.run_epoch();
  for (const Batch& batch : by_hand.loader) {
    by_hand.optimizer.zero_grad();
    Tape tape(by_hand.random);
    tape.backward(by_hand.model.loss(tape, batch));
    clip_grad_norm(by_hand.optimizer.parameters(), 1);
    by_hand.optimizer.step();
    by_hand.schedule.step();
  }
  EXPECT_TRUE(bits_of(trained.model.state_dict()) == bits_of(by_hand.model.state_dict()));
  EXPECT_TRUE(bits_of(trained.optimizer.state_dict()) == bits_of(by_hand.optimizer.state_dict()));
}

TEST(TrainingRun, ClipsFromTheStepThatIsAskedFor) {
  Trained trained;
  Trained by_hand;
  TrainingRun run({.model = trained.model,
                   .optimizer = trained.optimizer,
                   .loader = trained.loader,
                   .random = trained.random,
                   .clip_norm = 0.01,
                   .clip_from = 2});
  run.run_epoch();
  std::size_t step = 0;
  for (const Batch& batch : by_hand.loader) {
    by_hand.optimizer.zero_grad();
    Tape tape(by_hand.random);
    tape.backward(by_hand.model.loss(tape, batch));
    if (step++ >= 2) {
      EXPECT_GT(clip_grad_norm(by_hand.optimizer.parameters(), 0.01), 0.01);
    }
    by_hand.optimizer.step();
  }
  EXPECT_GT(step, 3U);
  EXPECT_TRUE(bits_of(trained.optimizer.state_dict()) == bits_of(by_hand.optimizer.state_dict()));
}

TEST(TrainingRun, GoesOnFromItsStateAsIfItHadNotStopped) {
  for (const std::size_t stop : {1, 3, 4, 5, 8}) {
    Trained stopped;
    stopped.train_to(stop);
    Trained resumed;
    resumed.run.load_state_dict(stopped.run.state_dict());
    EXPECT_TRUE(resumed.bits() == stopped.bits());
    resumed.train_to(11);
    Trained reference;
    reference.train_to(11);
    EXPECT_TRUE(resumed.bits() == reference.bits()) << stop;
  }
}

TEST(TrainingRun, GoesOnFromAStateWithNaN) {
  const real nan = std::numeric_limits<real>::quiet_NaN();
  Trained stopped;
  stopped.train_to(2);
  Tensor table = stopped.model.token.weight.copy();
  table(3, 1) = nan;
  stopped.model.token.weight.assign(table);
  stopped.train_to(3);
  Trained resumed;
  resumed.run.load_state_dict(stopped.run.state_dict());
  resumed.train_to(9);
  stopped.train_to(9);
  EXPECT_TRUE(resumed.bits() == stopped.bits());
}

// Stops a run where an epoch has no step left, which breaks its evaluation off.
struct StopsBeforeEvaluations : RunObserver {
  bool goes_on(const TrainingRun& run) override {
    const std::size_t epochs = run.history().size() + 1;
    return run.steps() < epochs * run.steps_per_epoch();
  }
};

TEST(TrainingRun, RepeatsAnEvaluationThatWasBrokenOff) {
  Trained trained;
  StopsBeforeEvaluations stops;
  trained.run.observe(stops);
  EXPECT_FALSE(trained.run.run_epoch());
  trained.run.forget(stops);
  EXPECT_TRUE(trained.run.history().empty());
  EXPECT_EQ(trained.run.steps(), trained.loader.size());
  Trained resumed;
  resumed.run.load_state_dict(trained.run.state_dict());
  for (Trained* each : {&trained, &resumed}) {
    EXPECT_TRUE(each->run.run_epoch());
    EXPECT_EQ(each->run.steps(), each->loader.size());
    ASSERT_EQ(each->run.history().size(), 1U);
  }
  Trained reference;
  reference.run.run_epoch();
  EXPECT_TRUE(resumed.bits() == reference.bits());
}

TEST(TrainingRun, MakesABrokenOffEvaluationInsteadOfAStep) {
  Trained trained;
  StopsBeforeEvaluations stops;
  trained.run.observe(stops);
  const std::size_t epoch = trained.loader.size();
  for (std::size_t i = 0; i < epoch; ++i) EXPECT_TRUE(trained.run.step());
  EXPECT_FALSE(trained.run.step());
  EXPECT_EQ(trained.run.epochs(), 0U);
  trained.run.forget(stops);
  EXPECT_TRUE(trained.run.step());
  EXPECT_EQ(trained.run.steps(), epoch);
  EXPECT_EQ(trained.run.epochs(), 1U);
  EXPECT_TRUE(trained.run.step());
  EXPECT_EQ(trained.run.steps(), epoch + 1);
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
      Trained trained;
      DataLoader loader(windows(61), {.batch = 3});
      TrainingRun run({.model = trained.model,
                       .optimizer = trained.optimizer,
                       .loader = loader,
                       .random = trained.random,
                       .validation = &trained.validation,
                       .evaluation = {.every = 6, .training = &trained.validation}});
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
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.parameters(), {.learning_rate = 0.1});
  DataLoader loader(windows(61), {.batch = 3});
  const TrainingParts parts = {
      .model = model, .optimizer = optimizer, .loader = loader, .random = random};
  TrainingRun run(parts);
  EXPECT_TRUE(run.run_epoch());
  EXPECT_FALSE(run.history().front().validation_loss.has_value());
  const Checkpoint state = run.state_dict();
  run.run_epoch();
  run.load_state_dict(state);
  EXPECT_TRUE(bits_of(run.state_dict()) == bits_of(state));
  EXPECT_INVALID("TrainingRun: the loader is at batch 0 of epoch 1, expected its beginning",
                 TrainingRun{parts});
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
  theirs.put("wte.weight", full({kVocabulary, 4}, 2));
  theirs.put("h.0.proj.weight", full({4, kVocabulary}, 3));
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
  EXPECT_EQ(model.token.weight.value(), full({kVocabulary, 4}, 2));
  EXPECT_EQ(model.head.weight.value(), full({kVocabulary, 4}, 3));
}

TEST(TrainingRun, RefusesAStateWithoutAnyOfItsParts) {
  Trained trained;
  trained.train_to(6);
  const Checkpoint state = trained.run.state_dict();
  const std::string before = trained.bits();
  for (const std::string& name : state.names()) {
    if (name.ends_with(".lazy.checksum")) continue;  // optimizers' states of 0.2.0 have none
    EXPECT_THROW(trained.run.load_state_dict(without(state, name)), std::invalid_argument) << name;
    EXPECT_TRUE(trained.bits() == before) << name;
  }
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
  trained.train_to(2);
  const auto refusal = [&](TokenWindows text, const DataLoaderOptions& options) {
    Trained other;
    DataLoader loader(std::move(text), options);
    TrainingRun run({.model = other.model,
                     .optimizer = other.optimizer,
                     .loader = loader,
                     .random = other.random,
                     .schedule = &other.schedule});
    const std::string before = bits_of(run.state_dict());
    const std::string message =
        error_of<std::invalid_argument>([&] { run.load_state_dict(trained.run.state_dict()); });
    EXPECT_EQ(bits_of(run.state_dict()) == before, message != "no error");
    return message;
  };
  const std::string message = "DataLoader::load_state_dict: the state is of a loader with ";
  const DataLoaderOptions options{.batch = 3, .shuffle = true};
  EXPECT_EQ(refusal(windows(61), options), "no error");
  EXPECT_EQ(refusal(windows(61), {.batch = 3}), message + "shuffle 1, this one has 0");
  EXPECT_EQ(refusal(windows(61), {.batch = 4, .shuffle = true}),
            message + "batch 3, this one has 4");
  Ids text = windows(61).text().ids();
  text.data()[40] ^= 1;
  EXPECT_HAS(refusal(TokenWindows(text, {.context = 5, .stride = 5}), options),
             message + "ids_checksum ");
}

TEST(TrainingRun, GoesOnFromItsLastStateAfterAStepThatFailed) {
  Trained failing;
  Trained reference;
  reference.train_to(9);
  for (const int step : {0, 2, 4, 7}) {
    failing.train_to(static_cast<std::size_t>(step));
    const Checkpoint last = failing.run.state_dict();
    failing.model.fails = true;
    EXPECT_THROW(failing.run.step(), std::runtime_error);
    failing.model.fails = false;
    EXPECT_ERROR(std::logic_error,
                 "TrainingRun: a step has failed, so load the state that was saved last",
                 failing.run.step());
    failing.run.load_state_dict(last);
    EXPECT_EQ(failing.run.steps(), static_cast<std::size_t>(step));
  }
  failing.train_to(9);
  EXPECT_TRUE(failing.bits() == reference.bits());
}

TEST(TrainingRun, LeavesALoaderThatAnotherRunCanHave) {
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.parameters(), {.learning_rate = 0.1});
  DataLoader loader(windows(61), {.batch = 3});
  const TrainingParts parts{
      .model = model, .optimizer = optimizer, .loader = loader, .random = random, .shards = 2};
  struct Throws : RunObserver {
    void after_step(const TrainingRun&, double) override { throw std::runtime_error("enough"); }
  } throws;
  const auto expect_a_new_run = [&](bool observed) {
    {
      TrainingRun run(parts);
      if (observed) run.observe(throws);
      EXPECT_THROW(run.run_epoch(), std::runtime_error);
    }
    loader.rewind();
    EXPECT_NO_THROW(TrainingRun{parts});
  };
  model.fails = true;
  expect_a_new_run(false);
  model.fails = false;
  expect_a_new_run(true);
}

// The optimizer's step is made only if the schedule has a next rate.
TEST(TrainingRun, MakesNoStepThatItsScheduleRefuses) {
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.parameters(), {.learning_rate = 0.1});
  DataLoader loader(windows(61), {.batch = 3});
  double factor = 1;
  LearningRateSchedule schedule(optimizer, Schedule::lambda([&](auto) { return factor; }));
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .schedule = &schedule});
  const auto one = [&] { run.train(run.steps() + 1); };
  one();
  factor = NAN;
  const std::string before = bits_of(run.state_dict());
  EXPECT_THROW(one(), std::invalid_argument);
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
    Random random(1);
    Bigram model(random);
    model.token.freeze();
    SGD optimizer(model.head.parameters(), {.learning_rate = 0.1});
    DataLoader loader(windows(61), {.batch = 3});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .shards = shards});
    run.run_epoch();
    model.token.unfreeze();
    const Tensor before = model.token.weight.value();
    const Checkpoint last = run.state_dict();
    EXPECT_ERROR(std::logic_error,
                 "Optimizer: 'token.weight' [7, 4] takes part in the loss, but is none of the "
                 "optimizer's parameters: is its layer a Part of the model?",
                 run.run_epoch());
    run.load_state_dict(last);
    optimizer.add_group({.parameters = model.token.parameters(), .options = {}});
    run.run_epoch();
    EXPECT_NE(model.token.weight.value(), before);
  }
}

TEST(TrainingRun, EvaluatesTheSameWindowsEachTime) {
  const auto losses = [](std::size_t stop) {
    Random random(1);
    Bigram model(random);
    model.freeze();
    model.head.unfreeze();
    SGD optimizer(model.parameters(), {.learning_rate = 0});
    DataLoader loader(windows(61), {.batch = 3});
    DataLoader validation(windows(61), {.batch = 5, .shuffle = true, .drop_last = true});
    TrainingRun run({.model = model,
                     .optimizer = optimizer,
                     .loader = loader,
                     .random = random,
                     .validation = &validation});
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
  Trained trained;
  DataLoader loader(windows(61), {.batch = 3});
  LearningRateSchedule later(trained.optimizer, Schedule::cosine({.steps = 20}));
  later.step();
  const auto message = [&](const std::function<void(TrainingParts&)>& change) {
    TrainingParts parts{.model = trained.model,
                        .optimizer = trained.optimizer,
                        .loader = loader,
                        .random = trained.random};
    change(parts);
    return error_of<std::invalid_argument>([&] { TrainingRun run(parts); });
  };
  EXPECT_EQ(message([](auto& parts) { parts.clip_norm = -1; }),
            "TrainingRun: clip_norm is -1, expected a finite number not below 0");
  EXPECT_EQ(message([](auto& parts) { parts.clip_norm = NAN; }),
            "TrainingRun: clip_norm is nan, expected a finite number not below 0");
  EXPECT_EQ(message([](auto& parts) { parts.accumulate = 0; }),
            "TrainingRun: accumulate is 0, expected at least 1");
  EXPECT_EQ(message([](auto& parts) { parts.compare_every = 0; }),
            "TrainingRun: compare_every is 0, expected at least 1");
  EXPECT_EQ(message([](auto& parts) { parts.evaluation.every = 5; }),
            "TrainingRun: there is no loader for the evaluation every 5 steps");
  EXPECT_EQ(message([&](auto& parts) { parts.schedule = &later; }),
            "TrainingRun: the schedule is not at step 0");
  SGD other(trained.model.parameters(), {.learning_rate = 0.1});
  LearningRateSchedule of_another(other, Schedule::constant());
  EXPECT_EQ(message([&](auto& parts) { parts.schedule = &of_another; }),
            "TrainingRun: the schedule is of another optimizer");
  TrainingRun plain({.model = trained.model,
                     .optimizer = trained.optimizer,
                     .loader = loader,
                     .random = trained.random});
  EXPECT_INVALID("TrainingRun: the state has a schedule, the run has none",
                 plain.load_state_dict(trained.run.state_dict()));
}

TEST(TrainingRun, RefusesToTrainAModelWhosePartsTheOptimizerLacks) {
  Random random(1);
  Bigram model(random);
  SGD optimizer(model.head.parameters(), {.learning_rate = 0.1});
  DataLoader loader(windows(61), {.batch = 3});
  TrainingRun run({.model = model, .optimizer = optimizer, .loader = loader, .random = random});
  EXPECT_THROW(run.run_epoch(), std::logic_error);
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
  Trained parts;
  DataLoader sample(windows(31), {.batch = 2});
  TrainingRun run({.model = parts.model,
                   .optimizer = parts.optimizer,
                   .loader = parts.loader,
                   .random = parts.random,
                   .accumulate = 2,
                   .steps = 3,
                   .evaluation = {.every = 2, .batches = 1, .training = &sample}});
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

TEST(TrainingRun, KnowsItsSpeedAfterEachStep) {
  struct Speeds : RunObserver {
    void after_step(const TrainingRun& run, double) override { speeds.push_back(run.speed()); }
    void at_end(const TrainingRun&) override { ++ends; }
    std::vector<double> speeds;
    int ends = 0;
  } observer;
  Trained parts;
  TrainingRun run({.model = parts.model,
                   .optimizer = parts.optimizer,
                   .loader = parts.loader,
                   .random = parts.random,
                   .epochs = 2});
  run.observe(observer);
  EXPECT_TRUE(run.run_epoch());
  EXPECT_EQ(observer.ends, 1);
  EXPECT_TRUE(run.train());
  EXPECT_EQ(observer.speeds.size(), run.steps());
  for (const double speed : observer.speeds) EXPECT_GT(speed, 0);
}

TEST(TrainingRun, ShowsEachTapeOfAStepOnceItWentBackward) {
  for (const std::size_t shards : {1, 2}) {
    Trained parts;
    TrainingRun run({.model = parts.model,
                     .optimizer = parts.optimizer,
                     .loader = parts.loader,
                     .random = parts.random,
                     .accumulate = 2,
                     .shards = shards});
    struct : RunObserver {
      void after_backward(const TrainingRun&, const Tape& tape) override {
        tapes += tape.parameters().size() == 3;  // table, weight and bias
      }
      void before_update(const TrainingRun&) override { tapes_of_steps.push_back(tapes); }
      std::size_t tapes = 0;
      std::vector<std::size_t> tapes_of_steps;
    } watched;
    run.observe(watched);
    run.train(2);
    EXPECT_EQ(watched.tapes_of_steps, (std::vector<std::size_t>{2 * shards, 4 * shards}));
  }
}

TEST(TrainingRun, KeepsAccuraciesWithItsState) {
  Random random(1);
  Bigram model(random);
  SGD sgd(model.parameters(), {.learning_rate = 0.1});
  const auto run_of = [&](DataLoader& loader, DataLoader& validation) {
    return TrainingRun({.model = model,
                        .optimizer = sgd,
                        .loader = loader,
                        .random = random,
                        .validation = &validation,
                        .epochs = 2,
                        .evaluation = {.every = 2,
                                       .batches = 1,
                                       .accuracy = true,
                                       .training = &validation,
                                       .validation = &validation}});
  };
  DataLoader loader(windows(61), {.batch = 3});
  DataLoader validation(windows(31), {.batch = 2});
  TrainingRun run = run_of(loader, validation);
  run.train();
  EXPECT_EQ(run.history().back().validation_accuracy,
            evaluate(model, validation, {.accuracy = true})->accuracy);
  EXPECT_TRUE(run.history().front().training_accuracy.has_value());
  DataLoader again(windows(61), {.batch = 3});
  TrainingRun resumed = run_of(again, validation);
  resumed.load_state_dict(run.state_dict());
  ASSERT_EQ(resumed.history().size(), 6U);  // after steps 1, 3, 4, 5, 7 and 8
  for (std::size_t i = 0; i < run.history().size(); ++i) {
    EXPECT_EQ(resumed.history()[i].steps, run.history()[i].steps);
    EXPECT_EQ(resumed.history()[i].epoch, run.history()[i].epoch);
    EXPECT_EQ(resumed.history()[i].training_loss, run.history()[i].training_loss);
    EXPECT_EQ(resumed.history()[i].training_accuracy, run.history()[i].training_accuracy);
    EXPECT_EQ(resumed.history()[i].validation_accuracy, run.history()[i].validation_accuracy);
  }
}

TEST(TrainingRun, RefusesLossesThatAreNoMean) {
  Trained trained;
  const std::string message =
      "TextModel: the loss is a mean, without weights of the targets of one batch";
  EXPECT_INVALID(message, trained.model.set_loss({.reduction = LossReduction::kSum}));
  EXPECT_INVALID(message, trained.model.set_loss({.target_weights = Tensor{1}}));
  EXPECT_NO_THROW(trained.train_to(1));  // with the loss as it was
  trained.model.set_loss({.class_weights = Tensor{1, 1}});
  EXPECT_INVALID("total_weight: class_weights has shape [2], expected [7]", trained.train_to(2));
}

TEST(TrainingRun, GoesOnOverBatchesWithoutTargetsThatCount) {
  Random random(1);
  Bigram model(random);
  AdamW adamw(model.parameters(), {.learning_rate = 0.1});
  const Ids text = windows(61).text().ids();
  Ids targets = text;
  for (std::size_t i = 0; i < 30; ++i) targets.data()[i] = kIgnoredTarget;  // the first two batches
  DataLoader loader(TokenWindows(text, targets, {.context = 5, .stride = 5}), {.batch = 3});
  TrainingRun run({.model = model, .optimizer = adamw, .loader = loader, .random = random});
  const std::string before = bits_of(model.state_dict());
  run.train(2);
  EXPECT_EQ(bits_of(model.state_dict()), before);
  run.load_state_dict(run.state_dict());
  EXPECT_TRUE(run.run_epoch());
  EXPECT_NE(bits_of(model.state_dict()), before);
  EXPECT_GT(run.history().front().training_loss, 0);

  std::ranges::fill(targets, kIgnoredTarget);
  DataLoader nothing(TokenWindows(text, targets, {.context = 5, .stride = 5}), {.batch = 3});
  TrainingRun useless({.model = model, .optimizer = adamw, .loader = nothing, .random = random});
  EXPECT_INVALID("TrainingRun: no target of epoch 1 counts, so it has no loss",
                 useless.run_epoch());
}

TEST(TrainingRun, KnowsWhatItsStateWasComputedWith) {
  Trained trained, resumed;
  trained.train_to(2);
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
  const auto losses_with = [](std::size_t accumulate, std::size_t skipped) {
    Random random(1);
    Bigram model(random);
    model.eval();
    SGD sgd(model.parameters(), {.learning_rate = 0.1});
    const Ids text = windows(61).text().ids();
    Ids targets = text;
    for (std::size_t i = 0; i < skipped; ++i) targets.data()[i] = kIgnoredTarget;
    DataLoader loader(TokenWindows(text, targets, {.context = 5, .stride = 5}), {.batch = 3});
    TrainingRun run({.model = model,
                     .optimizer = sgd,
                     .loader = loader,
                     .random = random,
                     .accumulate = accumulate});
    struct : RunObserver {
      void after_step(const TrainingRun&, double loss) override { losses.push_back(loss); }
      std::vector<double> losses;
    } watched;
    run.observe(watched);
    run.train(accumulate == 1 ? 2 : 1);
    return std::pair(watched.losses.back(), bits_of(model.state_dict()));
  };
  // The first batch has no targets that count.
  EXPECT_EQ(losses_with(2, 15), losses_with(1, 15));
}

}  // namespace
