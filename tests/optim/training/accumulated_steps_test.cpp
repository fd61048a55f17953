// A step on several batches, in slices or not, equals a step on one batch of all their examples.

#include "tests/optim/training/runs.hpp"

namespace {

/// A model trained by SGD, with its losses.
struct Trained {
  Trained(const MakeModel& make, const Data& data, std::size_t batch, std::size_t accumulate,
          std::size_t slices, ProcessGroup* ranks = nullptr)
      : ranks_of_run(parallel(ranks)),
        model(make(random, nullptr)),
        sgd(model->parameters(), {.learning_rate = 0.5}),
        loader(data, {.batch = batch}),
        run({.model = *model,
             .optimizer = sgd,
             .loader = loader,
             .random = random,
             .accumulate = accumulate,
             .slices = slices,
             .ranks = ranks_of_run ? &*ranks_of_run : nullptr,
             .epochs = 1}) {
    model->eval();  // each slice would draw its own dropout masks
    run.add(losses);
    run.train();
  }
  Random random{1};
  std::optional<ParallelTraining> ranks_of_run;
  std::unique_ptr<Model> model;
  SGD sgd;
  DataLoader loader;
  TrainingRun run;
  Losses losses;
};

Data padded_texts() {
  std::vector<TrainingExample> examples;
  for (std::size_t i = 0; i < 22; ++i) {
    const Ids text = text_of(kContext + 1, static_cast<std::uint32_t>(i));
    const auto length = static_cast<std::ptrdiff_t>(1 + i * i % kContext);
    examples.push_back(
        {{text.begin(), text.begin() + length}, {text.begin() + 1, text.begin() + 1 + length}});
  }
  return std::make_shared<TokenWindows>(padded_windows(examples));
}

TEST(AccumulatedSteps, EqualOneLargeBatch) {
  struct Case {
    const char* name;
    MakeModel model;
    Data data;
  };
  const CrossEntropyOptions weighted{.class_weights = irregular({kTokens}, 2, 0.1, 9)};
  for (const auto& [name, model, data] : std::vector<Case>{
           {"row gradients", two_tables(), text_windows(22, 1)},
           {"padded texts of different lengths", next_token(false), padded_texts()},
           {"class weights", next_token(false, weighted), text_windows(22, 1)},
           {"few targets, and weights", next_token(true, weighted), chosen_targets(22, 1)},
           {"a recommender", recommender, rated_films(22, 1)}}) {
    SCOPED_TRACE(name);
    const Trained large(model, data, 6, 1, 1);  // the last batch has 4 examples
    struct Way {
      std::size_t batch, accumulate, slices, ranks;
    };
    for (const Way& way : {Way{3, 2, 1, 0}, Way{2, 3, 1, 0}, Way{1, 6, 1, 0}, Way{6, 1, 2, 0},
                           Way{2, 3, 3, 0}, Way{3, 2, 2, 2}, Way{2, 3, 3, 2}}) {
      SCOPED_TRACE(concat("batch ", way.batch, ", accumulate ", way.accumulate, ", slices ",
                          way.slices, ", ranks ", way.ranks));
      const auto expect_equal = [&](const Trained& small) {
        ASSERT_EQ(small.losses.all.size(), large.losses.all.size());
        // The tolerance covers sums of up to 30 values below 10 in each of four steps.
        for (std::size_t i = 0; i < small.losses.all.size(); ++i)
          EXPECT_NEAR(small.losses.all[i], large.losses.all[i], 4 * 30 * 10 * kEpsilon);
        for (std::size_t p = 0; p < large.model->parameters().size(); ++p)
          expect_near(small.model->parameters()[p]->value(), large.model->parameters()[p]->value(),
                      4 * 30 * 10 * kEpsilon);
        EXPECT_NEAR(small.run.history().back().training_loss,
                    large.run.history().back().training_loss, 4 * 30 * 10 * kEpsilon);
      };
      if (way.ranks == 0)
        expect_equal(Trained(model, data, way.batch, way.accumulate, way.slices));
      else
        run_ranks(way.ranks, [&, model = model, data = data](ProcessGroup& ranks) {
          expect_equal(Trained(model, data, way.batch, way.accumulate, way.slices, &ranks));
        });
    }
  }
}

}  // namespace
