#pragma once

// Runs of small models for tests: resumed, on several ranks, with sharded tables.

#include "tests/optim/optimizers.hpp"
#include "tests/support/models.hpp"
#include "tests/support/thread_ranks.hpp"

namespace rowgrad::testing {

inline constexpr std::size_t kTokens = 61;
inline constexpr std::size_t kContext = 5;

/// A model with two tables: an Embedding and an EmbeddingBag.
class TwoTables : public Model {
 public:
  TwoTables(Random& random, TablePlacement* tables, double dropped, std::optional<double> max_norm)
      : words(*this, "words", kTokens, 6, random,
              EmbeddingOptions{.padding_idx = 60, .tables = tables, .max_norm = max_norm}),
        bags(*this, "bags", kTokens, 6, random,
             EmbeddingOptions{.mode = BagMode::kSum, .tables = tables}),
        dropout(*this, "dropout", dropped),
        head(*this, "head", 12, kTokens, random) {}

  Variable loss(Tape& tape, const Batch& batch) override {
    const std::size_t count = batch.inputs().size();
    const Variable x = reshape(words.forward(tape, batch.inputs()), {count, 6});
    Ids one_each = batch.inputs(), targets = batch.targets();
    one_each.reshape(Ids::shape_type{count, 1});
    targets.reshape(Ids::shape_type{count});
    const Variable y = concatenate({x, bags.forward(tape, {one_each})}, 1);
    return cross_entropy(head.forward(dropout.forward(y)), targets);
  }
  std::vector<TableLookup> lookups(const Batch& batch) const override {
    return {words.lookup_of(batch.inputs()), bags.lookup_of(batch.inputs())};
  }

  Submodule<Embedding> words;
  Submodule<EmbeddingBag> bags;
  Submodule<Dropout> dropout;
  Submodule<Linear> head;
};

// [recommender]
struct Ratings : Model {
  Ratings(std::size_t users, std::size_t films, Random& random)
      : user(*this, "user", users, 8, random),
        film(*this, "film", films, 8, random),
        user_bias(*this, "user_bias", users, 1, random, EmbeddingOptions{.init_std = 0}),
        film_bias(*this, "film_bias", films, 1, random, EmbeddingOptions{.init_std = 0}) {}

  Variable predicted(Tape& tape, const Batch& batch) {
    const Ids &users = batch.ids[0], &films = batch.ids[1];
    const Variable biases = user_bias.forward(tape, users) + film_bias.forward(tape, films);
    return sum(user.forward(tape, users) * film.forward(tape, films), {-1}) + sum(biases, {-1});
  }
  Variable loss(Tape& tape, const Batch& batch) override {
    return mse_loss(predicted(tape, batch), tape.constant(batch.tensors[0]));
  }
  BatchScore score(Tape& tape, const Batch& batch, bool accuracy) override {
    BatchScore score = Model::score(tape, batch, accuracy);
    if (!accuracy) return score;
    const Tensor error = predicted(tape, batch).value() - batch.tensors[0];
    for (const real stars : error.storage())
      if (std::abs(stars) <= 0.5) ++score.correct;
    score.predicted = error.size();
    return score;
  }

  Submodule<Embedding> user, film;
  Submodule<Embedding> user_bias, film_bias;
};
// [recommender]

inline constexpr std::size_t kUsers = 30, kFilms = 20;

/// Returns random tokens, a few frequent and many rare.
inline Ids text_of(std::size_t tokens, std::uint32_t seed) {
  Random random(seed);
  Ids ids = Ids::from_shape({tokens});
  for (std::int32_t& id : ids) {
    const std::uint32_t bits = random.bits();
    id = static_cast<std::int32_t>(bits % 8 == 0 ? bits / 8 % kTokens : bits / 8 % 12);
  }
  return ids;
}

using Data = std::shared_ptr<const Dataset>;

inline constexpr WindowOptions kWindows{.context = kContext, .stride = 4};

inline Data text_windows(std::size_t count, std::uint32_t seed) {
  return std::make_shared<TokenWindows>(text_of(4 * count + 2, seed), kWindows);
}

/// Returns windows with few unmasked targets; some batches have none.
inline Data chosen_targets(std::size_t count, std::uint32_t seed) {
  const Ids text = text_of(4 * count + 2, seed);
  Ids targets = text;
  for (std::size_t i = 0; i < targets.size(); ++i)
    if (i % 31 != 3) targets.data()[i] = kIgnoredTarget;
  return std::make_shared<TokenWindows>(text, targets, kWindows);
}

/// Returns random ratings: 1 if both ids are even or both odd, otherwise -1.
inline Batch ratings(std::size_t count, std::uint32_t seed) {
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

inline Data rated_films(std::size_t count, std::uint32_t seed) {
  return std::make_shared<TensorDataset>(ratings(count, seed));
}

using MakeModel = std::function<std::unique_ptr<Model>(Random&, TablePlacement* tables)>;

/// A model and how to train it.
struct RunCase {
  const char* name;
  MakeModel model;
  AnyOptions optimizer;
  double clip = 0;
  std::size_t accumulate = 1;
  Schedule schedule = Schedule::constant();
  std::function<Data(std::size_t count, std::uint32_t seed)> examples = text_windows;
};

inline MakeModel two_tables(double dropped = 0, std::optional<double> max_norm = {}) {
  return [=](Random& random, TablePlacement* tables) {
    return std::make_unique<TwoTables>(random, tables, dropped, max_norm);
  };
}

inline MakeModel next_token(bool tied, const CrossEntropyOptions& loss = {}) {
  return [=](Random& random, TablePlacement*) {
    auto model = std::make_unique<NextTokenModel>(
        NextTokenOptions{.vocabulary = kTokens,
                         .context = kContext,
                         .width = 8,
                         .positions = tied ? Positions::kSinusoidal : Positions::kLearned,
                         .window = tied ? 1U : 2U,
                         .hidden = {8},
                         .dropout = 0.2,
                         .tie_weights = tied},
        random);
    model->set_loss(loss);
    return model;
  };
}

inline std::unique_ptr<Model> gpt_with_memory(Random& random, TablePlacement* tables) {
  return std::make_unique<GptModel>(
      GptOptions{.vocabulary = kTokens,
                 .context = kContext,
                 .width = 8,
                 .heads = 2,
                 .layers = 1,
                 .positions = Positions::kT5,
                 .dropout = 0.2,
                 .t5_buckets = 4,
                 .memories = {.blocks = {0},
                              .ngrams = {.orders = {1, 2}, .heads = 1, .rows = 7},
                              .memory = {.head_width = 4, .tables = tables}}},
      random);
}

inline const AdamWOptions kAdamW{.learning_rate = 0.01, .weight_decay = 0.1};
inline const Schedule kCosine = Schedule::cosine({.steps = 100});

/// Cases whose tables can be sharded.
inline const std::vector<RunCase> kShardedCases{
    {"SGD", two_tables(), SgdOptions{.learning_rate = 0.5}},
    {"momentum and decay, accumulated", two_tables(0.2),
     SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01}, 0, 2},
    {"AdamW, clipped, with a schedule", two_tables(0.3), kAdamW, 0.1, 1, kCosine},
    {"Adam with decay in the gradient", two_tables(),
     AdamOptions{.learning_rate = 0.01, .weight_decay = 0.1}, 1},
    {"Adagrad, clipped", two_tables(), AdagradOptions{.learning_rate = 0.1}, 0.5},
    {"touched rows alone", two_tables(), AdamOptions{.rows = RowUpdates::kTouchedOnly}, 0.5},
    {"max_norm", two_tables(0, 2.0), SgdOptions{.learning_rate = 0.5, .momentum = 0.9}},
    {"a GPT with T5's positions and a memory", gpt_with_memory, kAdamW, 1}};

inline std::unique_ptr<Model> recommender(Random& random, TablePlacement*) {
  return std::make_unique<Ratings>(kUsers, kFilms, random);
}

inline const std::vector<RunCase> kWholeCases{
    {"a recommender", recommender, kAdamW, 0.5, 2, kCosine, rated_films},
    {"targets that are chosen",
     next_token(false, {.class_weights = irregular({kTokens}, 2, 0.5, 2)}), kAdamW, 1, 2, kCosine,
     chosen_targets},
    {"tied tables", next_token(true), kAdamW, 1}};

inline const RunCase& run_case(std::string_view name) {
  for (const auto* cases : {&kShardedCases, &kWholeCases})
    for (const RunCase& each : *cases)
      if (each.name == name) return each;
  throw std::invalid_argument(concat("there is no case ", name));
}

struct RunWay {
  std::size_t slices = 1;
  ProcessGroup* ranks = nullptr;
  bool sharded = false;  // true if tables are sharded
  bool other = false;    // true for different initial values
};

inline std::optional<ParallelTraining> parallel(ProcessGroup* ranks) {
  return ranks != nullptr ? std::optional<ParallelTraining>(std::in_place, *ranks) : std::nullopt;
}

/// A run with every component.
struct RunOf {
  explicit RunOf(const RunCase& of, const RunWay& way = {})
      : random(way.other ? 2 : 1),
        ranks(parallel(way.ranks)),
        model(of.model(random, way.sharded && ranks ? &*ranks : nullptr)),
        optimizer(make_optimizer(of.optimizer, model->parameters())),
        loader(of.examples(100, 1), {.batch = 9, .shuffle = true, .seed = 3}),
        sample(loader.dataset(), {.batch = 9}),
        validation(of.examples(40, 2), {.batch = 16}),
        schedule(*optimizer, of.schedule),
        run({.model = *model,
             .optimizer = *optimizer,
             .loader = loader,
             .random = random,
             .schedule = &schedule,
             .validation = &validation,
             .clip_norm = of.clip,
             .accumulate = of.accumulate,
             .slices = way.slices,
             .ranks = ranks ? &*ranks : nullptr,
             .bucket_bytes = way.slices == 4 ? GradientExchange::kBucketBytes : 0,
             .compare_every = 3,
             .evaluation = {.every = 4, .batches = 2, .accuracy = true, .training = &sample}}) {}

  Random random;
  std::optional<ParallelTraining> ranks;
  std::unique_ptr<Model> model;
  std::unique_ptr<Optimizer> optimizer;
  DataLoader loader, sample, validation;
  LearningRateSchedule schedule;
  TrainingRun run;
};

/// The bits of all parameters and records at the end of a run and, if `watched`, the rows with
/// gradients in each step. If tables are sharded, only the first rank has an outcome.
struct RunOutcome : TrainingCallback {
  explicit RunOutcome(bool watched = false) : watches(watched) {}

  CallbackNeeds needs() const override { return {.gradients = watches}; }
  void before_update(const TrainingRun& run) override {
    if (!watches || !sees(run)) return;
    for (const Parameter* parameter : run.options().model.parameters_on_tape())
      if (parameter->gradient().is_rows())
        for (const std::int32_t row : parameter->gradient().rows().indices())
          seen += concat(run.steps(), ' ', parameter->name(), ' ', row, '\n');
  }
  void at_end(const TrainingRun& run) override {
    if (!sees(run)) return;
    StateDict end;
    for (const Parameter* parameter : run.options().model.parameters_on_tape()) {
      if (parameter->shape().size() != 2) {
        end.put(parameter->name(), parameter->copy());
        continue;
      }
      const TableLookup all{parameter, all_rows(parameter->shape()[0])};
      if (run.tables() != nullptr) run.tables()->fetch({&all, 1});
      end.put(parameter->name(), parameter->rows(all.ids));
    }
    std::vector<double> history;
    for (const TrainingRecord& record : run.history())
      history.insert(history.end(), {record.training_loss, record.validation_loss.value_or(-1),
                                     record.training_accuracy.value_or(-1),
                                     record.validation_accuracy.value_or(-1)});
    end.put("history", std::move(history));
    bits = seen + bits_of(end);
  }

  static bool sees(const TrainingRun& run) {
    return run.is_first_rank() || run.tables() == nullptr;
  }

  bool watches;
  std::string seen, bits;
};

inline std::string outcome_of(const RunCase& of, const RunWay& way, bool watched) {
  RunOf made(of, way);
  RunOutcome outcome(watched);
  made.run.add(outcome);
  made.run.train(15);
  return outcome.bits;
}

}  // namespace rowgrad::testing
