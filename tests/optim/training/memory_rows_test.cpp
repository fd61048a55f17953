#include "tests/core/data/counted_ngrams.hpp"
#include "tests/optim/optimizers.hpp"
#include "tests/support/checkpoints.hpp"

namespace {

// N-grams of a memory are counted even if the token table is frozen.
TEST(RowHistory, TracksTheTableOfAMemory) {
  for (const bool frozen : {false, true}) {
    Random random(1);
    GptModel model({.vocabulary = 5,
                    .context = 4,
                    .width = 4,
                    .heads = 1,
                    .layers = 1,
                    .memories = {.blocks = {0},
                                 .ngrams = {.heads = 1, .rows = 7},
                                 .memory = {.head_width = 2}}},
                   random);
    model.named_layers<Embedding>().at(0).second->weight.set_trainable(!frozen);
    const NgramHash& hash = model.memories[0].hash();
    Parameter& weight = model.memories[0].table.weight;
    const auto looks_up = [&](std::span<const std::int32_t> text, std::size_t place,
                              std::int32_t row) {
      const Ids rows = hash.rows(ids({1, text.size()}, {text.begin(), text.end()}));
      return std::ranges::count(std::span(rows.data() + 2 * place, 2), row) > 0;
    };
    AdamW adamw(model.parameters(), {.learning_rate = 0.1});
    DataLoader loader(TokenWindows(to_ids(std::vector<std::int32_t>{1, 2, 1, 2, 3, 2, 1, 2, 4}),
                                   {.context = 4, .stride = 4}),
                      {.batch = 2});
    RowHistory history(model);
    const std::int32_t row = hash.rows(ids({1, 2}, {1, 2})).data()[2];
    RowMovement movement(model, weight, row);
    TrainingRun run(
        {.model = model, .optimizer = adamw, .loader = loader, .random = random, .steps = 2});
    run.add(history);
    run.add(movement);
    run.train();
    const RowMovement::Summary all = movement.summary();
    ASSERT_EQ(history.tables().size(), frozen ? 2U : 3U);
    EXPECT_EQ(history.tables().front().ngrams(), nullptr);
    const TableHistory& table = history.tables().back();
    EXPECT_EQ(table.kind(), RowKind::kNgram);
    EXPECT_EQ(&table.table(), &weight);
    const auto expected = counted(hash, two_texts());
    EXPECT_EQ(table.ngrams()->by_row().size(), expected.size());
    EXPECT_EQ(table.touched(), expected.size());
    for (std::size_t i = 0; i < table.ids().size(); ++i) {
      const std::int32_t id = table.ids()[i];
      ASSERT_TRUE(expected.contains(id));
      std::uint64_t lookups = 0;
      for (const auto& [ngram, count] : expected.at(id)) lookups += count;
      EXPECT_EQ(table.row(i).lookups, 2 * lookups);
      if (id == row) {
        EXPECT_EQ(all.lookups, 2 * lookups);
      }
      EXPECT_GT(table.moved()[i], 0);
      const TableHistory::Step step = table.steps(i).front();
      EXPECT_TRUE(looks_up(step.text, step.place, id));
    }
    ASSERT_EQ(all.steps.size(), 2U);
    EXPECT_FALSE(all.steps[0].windows.empty());
    for (const RowMovement::Window& window : all.steps[0].windows)
      for (const std::size_t place : window.positions)
        EXPECT_TRUE(looks_up(window.tokens, place, row));
    const RowLabels labels(table, nullptr);
    std::set<std::string> names;
    for (const ListedRow& listed : list_rows(table)) {
      const std::string label = labels.of(listed.id);
      EXPECT_EQ(label.empty(), listed.lookups == 0);
      names.insert(label.substr(0, 9));
    }
    EXPECT_TRUE(names.contains("[start] 1"));
  }
}

// A model that looks up segment ids before the tokens. The segment ids have the shape of the
// tokens.
struct WithSegments : Layer {
  explicit WithSegments(Random& random)
      : segment(*this, "segment", 10, 4, random),
        memory(*this, "memory", NgramHash(10, {.orders = {2}, .heads = 1, .rows = 1009}, {0}, 0), 4,
               random, NgramMemoryOptions{.head_width = 2}) {}

  Variable loss(Tape& tape, const Ids& segments, const Ids& tokens) {
    return sum(memory.forward(segment.forward(tape, segments), {.ids = tokens, .kept = nullptr}));
  }

  Submodule<Embedding> segment;
  Submodule<NgramMemory> memory;
};

TEST(RowHistory, NamesNgramsByTheTokensOfTheirLookup) {
  Random random(1);
  WithSegments model(random);
  SGD sgd(model.parameters(), {.learning_rate = 0.1});
  RowHistory history(model);
  Tape tape;
  tape.backward(model.loss(tape, ids({1, 3}, {8, 8, 9}), ids({1, 3}, {3, 4, 5})));
  history.after_backward(tape);
  history.before_update(1, sgd);
  sgd.step();
  history.after_update(1);
  const TableHistory& table = history.of(model.memory.table.weight);
  const RowLabels labels(table, nullptr);
  std::set<std::string> found;
  for (const std::int32_t row : table.ids()) found.insert(labels.of(row));
  EXPECT_EQ(found, (std::set<std::string>{"[start] 3", "3 4", "4 5"}));
  const TableHistory::Text text(std::vector<std::int32_t>{3, 4, 5});
  for (std::size_t i = 0; i < table.ids().size(); ++i) EXPECT_EQ(table.steps(i)[0].text, text);
  const auto tokenizer = CharacterTokenizer::from_text("abcde");  // has no id 5
  const RowLabels texts(table, &tokenizer);
  for (const std::int32_t row : table.ids())
    EXPECT_EQ(texts.of(row) == labels.of(row), labels.of(row) == "4 5");
}

// Compares a history of all steps with a history saved after half the steps and loaded with a new
// model and optimizer. The model has tables of tokens, positions and n-grams.
TEST(RowHistory, ContinuesFromASavedState) {
  for (const AnyOptions& options : std::vector<AnyOptions>{
           SgdOptions{.learning_rate = 0.5},
           SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1},
           AdamWOptions{.learning_rate = 0.1}}) {
    const auto new_model = [](std::uint64_t seed) {
      Random random(seed);
      return std::make_unique<GptModel>(
          GptOptions{.vocabulary = 5,
                     .context = 4,
                     .width = 4,
                     .heads = 1,
                     .layers = 1,
                     .tie_weights = true,
                     .memories = {.blocks = {0}, .ngrams = {.orders = {2}, .heads = 1, .rows = 7}}},
          random);
    };
    const auto model = new_model(1), resumed = new_model(2);
    const auto optimizer = make_optimizer(options, model->parameters());
    const auto resumed_optimizer = make_optimizer(options, resumed->parameters());
    RowHistory whole(*model), first(*model), second(*resumed);
    const auto step = [](std::uint64_t number, GptModel& trained, Optimizer& by,
                         const std::vector<RowHistory*>& histories) {
      Random random(number);
      by.zero_grad();
      Tape tape(random);
      Ids text = Ids::from_shape({2, 4});
      for (std::int32_t& id : text) id = static_cast<std::int32_t>(random.bits() % 5);
      tape.backward(trained.loss(tape, text, text));
      for (RowHistory* each : histories) each->after_backward(tape);
      for (RowHistory* each : histories) each->before_update(number, by);
      by.step();
      for (RowHistory* each : histories) each->after_update(number);
    };
    for (std::uint64_t number = 1; number <= 5; ++number)
      step(number, *model, *optimizer, {&whole, &first});
    const StateDict state = first.state_dict();
    EXPECT_EQ(bits_of(state), bits_of(whole.state_dict()));
    resumed->load_state_dict(model->state_dict());
    resumed_optimizer->load_state_dict(optimizer->state_dict());
    second.load_state_dict(state);
    for (std::uint64_t number = 6; number <= 10; ++number) {
      step(number, *model, *optimizer, {&whole});
      step(number, *resumed, *resumed_optimizer, {&second});
    }
    EXPECT_EQ(bits_of(second.state_dict()), bits_of(whole.state_dict()));
    ASSERT_EQ(second.tables().size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const TableHistory &a = second.tables()[i], &b = whole.tables()[i];
      EXPECT_EQ(a.table().name(), b.table().name());
      EXPECT_EQ(a.moved(), b.moved());
      EXPECT_EQ(RowLabels(a, nullptr).of(a.ids()[0]), RowLabels(b, nullptr).of(a.ids()[0]));
      EXPECT_EQ(a.steps(0)[0].text, b.steps(0)[0].text);
    }
    const std::string before = bits_of(second.state_dict());
    for (const StateDict& wrong :
         {with(state, "token.weight.shape", std::vector<std::int64_t>{4, 4}),
          with(state, "token.weight.ids", std::vector<std::int64_t>{1, 1, 2, 3, 4}),
          with(state, "token.weight.texts.size", std::vector<std::int64_t>(15, 13)),
          with(state, "other.shape", std::vector<std::int64_t>{4, 4})})
      EXPECT_THROW(second.load_state_dict(wrong), std::invalid_argument);
    EXPECT_EQ(bits_of(second.state_dict()), before);
  }
}

}  // namespace
