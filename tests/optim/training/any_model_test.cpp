// A run trains any model on any data: here a recommender of two tables, and a classifier of
// tensors.

#include "tests/support/models.hpp"
#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"

namespace {

// [recommender]
struct Ratings : Model {
  Ratings(std::size_t users, std::size_t films, Random& random)
      : user(*this, "user", users, 8, random), film(*this, "film", films, 8, random) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const Variable product = user.forward(tape, batch.ids[0]) * film.forward(tape, batch.ids[1]);
    return mse_loss(sum(product, {-1}), tape.constant(batch.tensors[0]));
  }

  Part<Embedding> user;
  Part<Embedding> film;
};
// [recommender]

// Whether the sum of a point's coordinates is above 0.
struct Halves : Model {
  explicit Halves(Random& random)
      : hidden(*this, "hidden", 3, 8, random),
        dropout(*this, "dropout", 0.1),
        head(*this, "head", 8, 2, random) {}

  Variable logits(Tape& tape, const Batch& batch) {
    return head.forward(dropout.forward(tanh(hidden.forward(tape.constant(batch.tensors[0])))));
  }
  Variable loss(Tape& tape, const Batch& batch) override {
    return cross_entropy(logits(tape, batch), batch.ids[0]);
  }
  BatchScore score(Tape& tape, const Batch& batch, bool accuracy) override {
    BatchScore score = Model::score(tape, batch, accuracy);
    if (accuracy) count_correct(score, logits(tape, batch).value(), batch.ids[0]);
    return score;
  }

  Part<Linear> hidden;
  Part<Dropout> dropout;
  Part<Linear> head;
};

constexpr std::size_t kUsers = 30, kFilms = 20;

// Users like films with numbers like their own.
Batch ratings(std::size_t count, std::uint32_t seed) {
  Random random(seed);
  Batch all{.ids = {Ids::from_shape({count}), Ids::from_shape({count})},
            .tensors = {empty({count})}};
  for (std::size_t i = 0; i < count; ++i) {
    all.ids[0][i] = static_cast<std::int32_t>(random.bits() % kUsers);
    all.ids[1][i] = static_cast<std::int32_t>(random.bits() % kFilms);
    all.tensors[0].data()[i] = (all.ids[0][i] - all.ids[1][i]) % 2 == 0 ? real{1} : real{-1};
  }
  return all;
}

Batch points(std::size_t count, std::uint32_t seed) {
  Random random(seed);
  Batch all{.ids = {Ids::from_shape({count})}, .tensors = {random.normal({count, 3})}};
  for (std::size_t i = 0; i < count; ++i) {
    const real* const point = all.tensors[0].data() + 3 * i;
    all.ids[0][i] = point[0] + point[1] + point[2] > 0 ? 1 : 0;
  }
  return all;
}

struct Subject {
  const char* name;
  std::function<std::unique_ptr<Model>(Random&)> model;
  std::function<Batch(std::size_t, std::uint32_t)> examples;
};

const std::vector<Subject>& subjects() {
  static const std::vector<Subject> all{
      {"a recommender",
       [](Random& random) { return std::make_unique<Ratings>(kUsers, kFilms, random); }, ratings},
      {"a classifier", [](Random& random) { return std::make_unique<Halves>(random); }, points}};
  return all;
}

// A run with all that it may have.
struct TrainedSubject {
  explicit TrainedSubject(const Subject& subject, std::size_t shards = 1,
                          ProcessGroup* ranks = nullptr, bool other = false)
      : random(other ? 2 : 1),
        model(subject.model(random)),
        optimizer(model->parameters(), {.learning_rate = 0.05, .weight_decay = 0.01}),
        loader(TensorDataset(subject.examples(100, 1)), {.batch = 9, .shuffle = true}),
        sample(loader.dataset(), {.batch = 9}),
        validation(TensorDataset(subject.examples(40, 2)), {.batch = 16}),
        schedule(optimizer, Schedule::cosine({.steps = 100})),
        run({.model = *model,
             .optimizer = optimizer,
             .loader = loader,
             .random = random,
             .schedule = &schedule,
             .validation = &validation,
             .clip_norm = 0.5,
             .accumulate = 2,
             .shards = shards,
             .ranks = ranks,
             .evaluation = {.every = 4, .batches = 2, .accuracy = true, .training = &sample}}) {}

  std::string bits() const {
    return bits_of(without(run.state_dict(), "history.examples_per_second"));
  }

  Random random;
  std::unique_ptr<Model> model;
  AdamW optimizer;
  DataLoader loader, sample, validation;
  LearningRateSchedule schedule;
  TrainingRun run;
};

TEST(AnyModel, LearnsAndIsEvaluated) {
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    TrainedSubject trained(subject);
    for (int epoch = 0; epoch < 15; ++epoch) EXPECT_TRUE(trained.run.run_epoch());
    const TrainingRecord& last = trained.run.history().back();
    EXPECT_LT(last.training_loss, 0.7 * trained.run.history().front().training_loss);
    EXPECT_EQ(last.steps, 15 * 6U);  // of 12 batches, 2 a step
    EXPECT_GT(last.speed, 0);
    EXPECT_EQ(trained.run.unit().name, "examples");
    trained.run.set_length(16, 0);
    EXPECT_EQ(trained.run.units_left(), 100U);

    const Batch examples = subject.examples(40, 2);
    const EvaluationMode mode(*trained.model);
    Tape tape(Tape::inference);
    EXPECT_NEAR(*last.validation_loss, trained.model->loss(tape, examples).item(), 100 * kEpsilon);
    const bool classifies = subject.name == std::string("a classifier");
    EXPECT_EQ(last.validation_accuracy.has_value(), classifies);
    if (!classifies) continue;
    BatchScore score;
    count_correct(score, static_cast<Halves&>(*trained.model).logits(tape, examples).value(),
                  examples.ids[0]);
    EXPECT_EQ(score.predicted, 40U);
    EXPECT_EQ(*last.validation_accuracy, static_cast<double>(score.correct) / 40);
    EXPECT_GT(*last.validation_accuracy, 0.8);
  }
}

TEST(AnyModel, IsResumable) {
  for (const Subject& subject : subjects())
    for (const std::size_t shards : {1, 3})
      expect_resumable({.name = concat(subject.name, " in ", shards),
                        .make =
                            [&](bool other) {
                              return std::make_unique<RunningTraining<TrainedSubject>>(
                                  subject, shards, nullptr, other);
                            },
                        .steps = 15,
                        .taken = kTakenByRuns});
}

TEST(AnyModel, HasTheSameBitsOnAnyNumberOfRanks) {
  for (const Subject& subject : subjects()) {
    SCOPED_TRACE(subject.name);
    TrainedSubject expected(subject, 4);
    expected.run.train(13);
    for (std::size_t count = 2; count <= 4; ++count) {
      std::vector<std::string> bits(count);
      run_ranks(count, [&](ProcessGroup& ranks) {
        TrainedSubject trained(subject, 4, &ranks);
        trained.run.train(13);
        bits[ranks.rank()] = trained.bits();
      });
      for (const std::string& of_rank : bits) EXPECT_TRUE(of_rank == expected.bits()) << count;
    }
  }
}

TEST(AnyModel, IsRefusedTheStateOfARunOnOtherData) {
  TrainedSubject trained(subjects().front());
  trained.run.train(2);
  const std::string message =
      "DataLoader::load_state_dict: the state is of a loader with checksum ";
  using Change = void (*)(Batch&);
  for (const auto& [change, refusal] : std::vector<std::pair<Change, std::string>>{
           {[](Batch&) {}, "no error"},
           {[](Batch& batch) { batch.ids[1][30] ^= 1; }, message},
           {[](Batch& batch) { batch.tensors[0].data()[30] = 2; }, message},
           {[](Batch& batch) { std::swap(batch.ids[0], batch.ids[1]); }, message}}) {
    Subject others = subjects().front();
    const Change changes = change;
    others.examples = [changes](std::size_t count, std::uint32_t seed) {
      Batch examples = ratings(count, seed);
      changes(examples);
      return examples;
    };
    TrainedSubject other(others);
    const std::string before = other.bits();
    EXPECT_HAS(error_of<std::invalid_argument>(
                   [&] { other.run.load_state_dict(trained.run.state_dict()); }),
               refusal);
    EXPECT_EQ(other.bits() == before, refusal != "no error");
  }
}

TEST(AnyModel, HasWeightsThatCanBeDividedBy) {
  struct Weighted : Ratings {
    using Ratings::Ratings;
    double weight(const Batch&) const override { return of_a_batch; }
    double of_a_batch = 0;
  };
  Random random(1);
  Weighted model(kUsers, kFilms, random);
  const Tensor before = model.user.weight.value();
  SGD optimizer(model.parameters(), {.learning_rate = 0.1});
  for (const double weight : {-1.0, double{NAN}, double{INFINITY}}) {
    DataLoader loader(TensorDataset(ratings(12, 1)), {.batch = 4});
    TrainingRun run({.model = model, .optimizer = optimizer, .loader = loader, .random = random});
    model.of_a_batch = weight;
    EXPECT_INVALID(concat("TrainingRun: the weight of a batch is ", weight,
                          ", expected a finite number, not negative"),
                   run.step());
    EXPECT_EQ(model.user.weight.value(), before);
  }
}

TEST(AnyModel, HasAHistoryOfItsRows) {
  TrainedSubject trained(subjects().front());
  RowHistory rows(*trained.model);
  trained.run.observe(rows);
  trained.run.run_epoch();
  ASSERT_EQ(rows.tables().size(), 2U);
  for (const TableHistory& table : rows.tables()) {
    std::uint64_t lookups = 0;
    for (const TableHistory::Row& row : table.rows()) lookups += row.lookups;
    EXPECT_EQ(lookups, 100U);
  }
}

TEST(AnyModel, ReadsExamplesThatAClassOfItsOwnMakes) {
  struct Squares : Dataset {  // x and 2x
    std::size_t size() const override { return 10; }
    Batch batch(std::span<const std::int64_t> examples) const override {
      Tensor x = empty({examples.size(), 1});
      for (std::size_t row = 0; row < examples.size(); ++row)
        x.data()[row] = static_cast<real>(examples[row]) / 10;
      return {.tensors = {x, Tensor(x + x)}};
    }
  };
  struct Line : Model {
    explicit Line(Random& random) : line(*this, "line", 1, 1, random) {}
    Variable loss(Tape& tape, const Batch& batch) override {
      return mse_loss(line.forward(tape.constant(batch.tensors[0])),
                      tape.constant(batch.tensors[1]));
    }
    Part<Linear> line;
  };
  Random random(1);
  Line model(random);
  SGD sgd(model.parameters(), {.learning_rate = 0.3});
  DataLoader loader(Squares(), {.batch = 4, .shuffle = true});
  TrainingRun run(
      {.model = model, .optimizer = sgd, .loader = loader, .random = random, .epochs = 100});
  EXPECT_TRUE(run.train());
  EXPECT_NEAR(model.line.weight.value()(0, 0), 2, 0.01);
  EXPECT_EQ(loader.state_dict().part("data").integer("examples"), 10);
}

TEST(AnyModel, IsTrainedInAFewLines) {
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
                   .epochs = 10});
  run.train();
  // [ratings]
  EXPECT_LT(*run.history().back().validation_loss, 0.8 * *run.history().front().validation_loss);
}

}  // namespace
