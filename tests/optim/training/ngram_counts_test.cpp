#include "tests/test.hpp"

namespace {

Ids two_texts() { return ids({2, 4}, {1, 2, 1, 2, 3, 2, 1, 2}); }

// The n-grams of each row, counted lookup by lookup.
std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::uint64_t>> counted(
    const NgramHash& hash, const Ids& batch) {
  std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::uint64_t>> all;
  const Ids rows = hash.rows(batch);
  const std::size_t length = batch.shape(1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token = i / hash.lookups();
    const std::size_t order = hash.orders()[i % hash.lookups() / hash.heads()];
    const std::size_t tokens = std::min(order, token % length + 1);
    ++all[rows.data()[i]][{batch.data() + token + 1 - tokens, batch.data() + token + 1}];
  }
  return all;
}

TEST(NgramCounts, TellsWhichNgramsFellIntoARow) {
  const NgramHash hash(5, {.orders = {2, 3}, .heads = 2, .rows = 3}, {0}, 0);
  NgramCounts counts(hash);
  const Ids batch = two_texts();
  counts.add(batch);
  std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::uint64_t>> found;
  for (const auto& [row, ngrams] : counts.by_row()) {
    for (const NgramCounts::Ngram& ngram : ngrams)
      found[row][{ngram.ids.begin(), ngram.ids.end()}] = ngram.count;
    EXPECT_TRUE(std::ranges::is_sorted(ngrams, std::greater<>(), &NgramCounts::Ngram::count));
  }
  EXPECT_EQ(found, counted(hash, batch));
  EXPECT_EQ(counts.not_told_apart(), 0U);
}

TEST(NgramCounts, RefusesIdsOutsideTheVocabulary) {
  for (const std::vector<std::int32_t>& canonical : {Ids32{}, Ids32{0, 0, 1}}) {
    const NgramHash hash(3, {.heads = 1, .rows = 11, .canonical = canonical}, {0}, 0);
    NgramCounts counts(hash);
    EXPECT_INVALID("NgramHash: id 3 at 1 is outside the vocabulary of 3", counts.add(Ids{{0, 3}}));
    EXPECT_INVALID("NgramHash: id -1 at 0 is outside the vocabulary of 3", counts.add(Ids{{-1}}));
    EXPECT_INVALID("NgramCounts: texts have no axes", counts.add(Ids::from_shape({})));
    EXPECT_TRUE(counts.by_row().empty());
  }
}

TEST(NgramCounts, SpellingsThatCountAsOneAreOne) {
  const NgramHash hash(6, {.orders = {2}, .heads = 1, .rows = 101, .canonical = {0, 0, 1, 1, 2, 2}},
                       {0}, 0);
  NgramCounts counts(hash);
  counts.add(ids({2, 2}, {2, 5, 3, 4}));
  const auto rows = counts.by_row();
  ASSERT_EQ(rows.size(), 2U);
  const std::int32_t row = hash.rows(ids({1, 2}, {3, 5})).data()[1];
  ASSERT_EQ(rows.at(row).size(), 1U);
  EXPECT_EQ(rows.at(row)[0].count, 2U);
  EXPECT_EQ(text_of(rows.at(row)[0], nullptr), "2 4");
  EXPECT_EQ(label_of(rows.at(hash.rows(ids({1, 1}, {2})).data()[0]), nullptr), "[start] 2");
}

TEST(NgramCounts, CountsTheRestWhereThereAreTooMany) {
  const NgramHash hash(5, {.orders = {1}, .heads = 1, .rows = 2}, {0}, 0);
  NgramCounts counts(hash, 2);
  counts.add(two_texts());
  std::uint64_t sum = 0;
  for (const auto& [row, ngrams] : counts.by_row())
    for (const NgramCounts::Ngram& ngram : ngrams) sum += ngram.count;
  EXPECT_EQ(sum, 7U);
  EXPECT_EQ(counts.not_told_apart(), 1U);  // the only 3
}

TEST(NgramCounts, LabelsNameAFewNgrams) {
  const NgramHash hash(100'000, {.orders = {1}, .heads = 1, .rows = 1}, {0}, 0);
  NgramCounts counts(hash);
  std::vector<std::int32_t> text(60);
  std::iota(text.begin(), text.end(), 50'000);
  text.insert(text.end(), 3, 77'777);
  counts.add(ids({1, 63}, text));
  const auto rows = counts.by_row();
  ASSERT_EQ(rows.size(), 2U);  // of the two rows of the first prime
  std::size_t frequent = 0;
  for (const auto& [row, ngrams] : rows) {
    const std::string label = label_of(ngrams, nullptr);
    EXPECT_LE(label.size(), 70U) << label;
    EXPECT_TRUE(label.ends_with(" more")) << label;
    frequent += label.starts_with("77777 | ") ? 1 : 0;
  }
  EXPECT_EQ(frequent, 1U);
}

// Also where the table of the tokens is frozen, whose lookups tell which these are.
TEST(RowHistory, FollowsTheTableOfAMemory) {
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
      const TableHistory::Step& step = table.steps(i).front();
      EXPECT_TRUE(looks_up(step.text, step.place, id));
    }
    ASSERT_EQ(all.steps.size(), 2U);
    EXPECT_FALSE(all.steps[0].windows.empty());
    for (const RowMovement::Window& window : all.steps[0].windows)
      for (const std::size_t place : window.positions)
        EXPECT_TRUE(looks_up(window.tokens, place, row));
    const std::string listed = rows_text(table, list_rows(table), nullptr, ',');
    EXPECT_HAS(listed, "\"[start] 1");
    EXPECT_HAS(listed, ",\"\",0,0,0,");  // no n-gram fell into this one
  }
}

// Ids of another meaning that have the shape of the tokens, and are looked up before them.
struct WithSegments : Layer {
  explicit WithSegments(Random& random)
      : segment(*this, "segment", 10, 4, random),
        memory(*this, "memory", NgramHash(10, {.orders = {2}, .heads = 1, .rows = 1009}, {0}, 0), 4,
               random, NgramMemoryOptions{.head_width = 2}) {}

  Variable loss(Tape& tape, const Ids& segments, const Ids& tokens) {
    return sum(memory.forward(segment.forward(tape, segments), {.ids = tokens, .kept = nullptr}));
  }

  Part<Embedding> segment;
  Part<NgramMemory> memory;
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
  const auto tokenizer = CharacterTokenizer::from_text("abcde");  // without the id 5
  EXPECT_HAS(rows_text(table, list_rows(table), &tokenizer, ','), "\"4 5\"");
}

}  // namespace
