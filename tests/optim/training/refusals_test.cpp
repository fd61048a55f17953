// Custom models, datasets and optimizers that a run rejects.

#include "tests/optim/training/runs.hpp"

namespace {

TEST(OwnParts, WithoutPositionsOrUnitsAreRejected) {
  struct NoContext : Bigram {
    using Bigram::Bigram;
    std::size_t context() const override { return 0; }
  };
  Random random(1);
  NoContext model(random);
  EXPECT_INVALID("generate: the model's context is 0, expected at least 1",
                 generate(model, Ids{1}, {.max_new_tokens = 1}, random));
  BatchScore score;
  EXPECT_INVALID(
      "count_correct: logits have shape [2, 3], targets [3], expected one row of logits for each "
      "target",
      count_correct(score, zeros({2, 3}), Ids{0, 1, 2}));

  struct Empty : TensorDataset {
    using TensorDataset::TensorDataset;
    DataUnit unit() const override { return {"words", 0}; }
  };
  const Empty data(Batch{.ids = {Ids{{0, 1}, {1, 2}}}});
  DataLoader loader(data, {.batch = 1});
  SGD sgd(model.parameters());
  EXPECT_INVALID(
      "TrainingRun: an example of the data has 0 words, expected at least 1",
      TrainingRun(
          {.model = model, .optimizer = sgd, .loader = loader, .random = random, .steps = 1}));
}

TEST(OwnParts, WithNegativeOrNonFiniteWeightsAreRejected) {
  struct Weighted : Ratings {
    using Ratings::Ratings;
    double loss_weight(const Batch&) const override { return of_a_batch; }
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
    EXPECT_INVALID(
        concat("TrainingRun: the weight of a batch is ", weight, ", expected a finite value >= 0"),
        run.step());
    EXPECT_EQ(model.user.weight.value(), before);
  }
  DataLoader loader(TensorDataset(ratings(12, 1)), {.batch = 4});
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .accumulate = 3});
  model.of_a_batch = 1e308;
  EXPECT_INVALID("TrainingRun: the weights of a step add up to inf, expected a finite sum",
                 run.step());
}

TEST(OwnParts, CannotBeAddedToTheOptimizerDuringAStep) {
  struct Growing : Ratings {
    using Ratings::Ratings;
    Variable loss(Tape& tape, const Batch& batch) override {
      if (sgd->group_count() == 1) sgd->add_group({.parameters = film.parameters()});
      return Ratings::loss(tape, batch);
    }
    SGD* sgd = nullptr;
  };
  Random random(1);
  Growing model(kUsers, kFilms, random);
  SGD sgd({&model.user.weight, &model.user_bias.weight, &model.film_bias.weight});
  model.sgd = &sgd;
  DataLoader loader(rated_films(4, 1));
  TrainingRun run({.model = model, .optimizer = sgd, .loader = loader, .random = random});
  EXPECT_ERROR(std::logic_error,
               "TrainingRun: film.weight was added to the optimizer during a step, expected a call "
               "between steps",
               run.step());
}

}  // namespace
