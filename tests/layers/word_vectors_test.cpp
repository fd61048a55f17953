#include "tests/test.hpp"

namespace {

constexpr std::size_t kWords = 7, kWidth = 6;
constexpr double kTolerance = sizeof(real) == 8 ? 1e-13 : 1e-6;

WordPairOptions pair_options(bool cbow, std::size_t shared) {
  return {.vocabulary = kWords,
          .block = 9,
          .window = 2,
          .subsample = 0.5,
          .negatives = 3,
          .shared_negatives = shared,
          .cbow = cbow};
}

TokenSequence text() {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(i * i % 11 % static_cast<int>(kWords));
  return ids;
}

Tensor dense(const Gradient& gradient) {
  return gradient.is_rows() ? gradient.rows().to_dense() : gradient.dense();
}

// Returns the loss of one target, from ops for whole tensors.
Variable loss_of_target(const Variable& input, const Variable& output,
                        const std::vector<std::int32_t>& inputs, std::int32_t target,
                        const std::vector<std::int32_t>& negatives, double weight) {
  const Variable x = mean(embedding(input, to_ids(inputs)), {0});
  const auto score = [&](std::int32_t id) { return sum(x * embedding(output, Ids{id}), {0, 1}); };
  Variable loss = -log_sigmoid(score(target));
  for (const std::int32_t id : negatives)
    if (id != target) loss = loss - log_sigmoid(-score(id)) * static_cast<real>(weight);
  return loss;
}

TEST(WordVectors, HaveTheLossAndGradientsOfASumOverPairs) {
  for (const bool cbow : {false, true})
    for (const std::size_t shared : {0, 5}) {
      SCOPED_TRACE(concat(cbow, ' ', shared));
      const WordPairs pairs(text(), pair_options(cbow, shared));
      Random random(3);
      const Batch batch = pairs.draw(std::vector<std::int64_t>{0, 4, 7}, random);
      const Ids &inputs = batch.bags[0].ids, &targets = batch.bags[1].ids;
      WordVectors model({.vocabulary = kWords, .width = kWidth, .cbow = cbow, .negatives = 3},
                        random);
      model.output.weight.assign(irregular({kWords, kWidth}, 4));
      EXPECT_EQ(model.loss_weight(batch), static_cast<double>(targets.size()));
      Tape tape;
      const Variable loss = model.loss(tape, batch);
      tape.backward(loss);
      Tape composed;
      const Variable input = composed.input(model.input.weight.value()),
                     output = composed.input(model.output.weight.value());
      Variable expected = composed.constant(scalar(0));
      std::vector<std::vector<std::int32_t>> from(targets.size());  // the inputs of each target
      std::size_t word = 0, context = 0;
      for (const std::int32_t count : batch.bags.back().ids) {
        for (std::int32_t i = 0; i < count; ++i, ++context)
          from[cbow ? word : context].push_back(inputs.data()[cbow ? context : word]);
        ++word;
      }
      EXPECT_EQ(cbow ? context : word, inputs.size());
      EXPECT_EQ(cbow ? word : context, targets.size());
      for (std::size_t i = 0; i < targets.size(); ++i) {
        const Ids& negatives = shared > 0 ? batch.shared[0] : batch.bags[2].ids;
        const std::int32_t* first = negatives.begin() + (shared > 0 ? 0 : 3 * i);
        expected =
            expected + loss_of_target(input, output, from[i], targets.data()[i],
                                      {first, first + (shared > 0 ? 5 : 3)}, shared > 0 ? 0.6 : 1);
      }
      expected = expected * (real{1} / static_cast<real>(targets.size()));
      composed.backward(expected);
      EXPECT_NEAR(loss.item(), expected.item(), 10 * kTolerance);
      expect_near(model.input.weight.gradient().rows().to_dense(), dense(composed.gradient(input)),
                  kTolerance);
      expect_near(model.output.weight.gradient().rows().to_dense(),
                  dense(composed.gradient(output)), kTolerance);
    }
}

TEST(WordVectors, StartLikeWord2vec) {
  Random random(1);
  const WordVectors model({.vocabulary = 1000, .width = 10}, random);
  const Tensor& input = model.input.weight.value();
  const auto [low, high] = std::ranges::minmax_element(input);
  EXPECT_NEAR(*low, -0.05, 1e-4);
  EXPECT_NEAR(*high, 0.05, 1e-4);
  EXPECT_EQ(model.output.weight.value(), zeros({1000, 10}));
}

TEST(WordVectors, RejectOtherBatches) {
  Random random(1);
  for (const WordVectorOptions& options : {WordVectorOptions{.vocabulary = 0},
                                           {.vocabulary = 2, .width = 0},
                                           {.vocabulary = 2, .negatives = 0}})
    EXPECT_INVALID(
        concat("WordVectors: vocabulary is ", options.vocabulary, ", width is ", options.width,
               " and negatives is ", options.negatives, ", expected all above 0"),
        WordVectors(options, random));
  WordVectors model({.vocabulary = kWords, .width = kWidth}, random);
  const WordPairs cbow(text(), pair_options(true, 0));
  EXPECT_INVALID(
      "WordVectors: the batch has 9 numbers of context words for 30 words, expected a batch for "
      "skip-gram",
      model.loss_weight(cbow.batch(std::vector<std::int64_t>{0})));
  EXPECT_INVALID("WordVectors: the batch has 0 arrays of bags, expected the 4 of WordPairs",
                 model.loss_weight({}));
  Tape tape;
  const WordPairs pairs(text(), pair_options(false, 0));
  EXPECT_INVALID("WordVectors: the batch has no targets, expected at least one",
                 model.loss(tape, pairs.batch({})));
}

// A run makes the same steps on any number of threads, and after it was saved and resumed.
TEST(WordVectors, TrainAndResumeToTheSameBits) {
  for (const bool cbow : {false, true}) {
    const auto train = [&](std::vector<std::size_t> stops, int threads) {
      const Threads use(threads);
      StateDict saved;
      for (const std::size_t stop : stops) {
        Random random(1);
        WordVectors model({.vocabulary = kWords, .width = kWidth, .cbow = cbow}, random);
        SGD sgd(model.parameters(), {.learning_rate = 1, .momentum = 0.5});
        const DataLoader loader(WordPairs(text(), pair_options(cbow, 0)),
                                {.batch = 5, .shuffle = true});
        TrainingRun run(
            {.model = model, .optimizer = sgd, .loader = loader, .random = random, .epochs = 3});
        if (!saved.empty()) run.load_state_dict(saved);
        run.train(stop);
        saved = run.state_dict();
      }
      return bits_of(saved.part("model"));
    };
    const std::string whole = train({kNoLimit}, 1);
    EXPECT_EQ(train({kNoLimit}, 2), whole);
    EXPECT_EQ(train({3, 7, kNoLimit}, 1), whole);
  }
}

}  // namespace
