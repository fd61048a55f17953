#include "tests/test.hpp"

namespace {

Ids texts(std::size_t count, const std::vector<std::int32_t>& values) {
  Ids ids = Ids::from_shape({count, values.size() / count});
  std::ranges::copy(values, ids.begin());
  return ids;
}

const std::vector<std::int32_t> kTwoTexts{1, 2, 1, 2, 3, 2, 1, 2};

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
  const Ids batch = texts(2, kTwoTexts);
  counts.add(batch);
  auto expected = counted(hash, batch);
  const auto rows = counts.by_row();
  EXPECT_EQ(rows.size(), expected.size());
  for (const auto& [row, ngrams] : rows) {
    EXPECT_EQ(ngrams.size(), expected[row].size());
    for (const NgramCounts::Ngram& ngram : ngrams) {
      const std::vector<std::int32_t> ids(ngram.ids.begin(), ngram.ids.end());
      EXPECT_EQ(ngram.count, expected[row][ids]) << row;
    }
    EXPECT_TRUE(std::ranges::is_sorted(ngrams, std::greater<>(), &NgramCounts::Ngram::count));
  }
  EXPECT_EQ(counts.not_told_apart(), 0U);
}

TEST(NgramCounts, SpellingsThatCountAsOneAreOne) {
  const NgramHash hash(6, {.orders = {2}, .heads = 1, .rows = 101, .canonical = {0, 0, 1, 1, 2, 2}},
                       {0}, 0);
  NgramCounts counts(hash);
  counts.add(texts(2, {2, 5, 3, 4}));
  const auto rows = counts.by_row();
  ASSERT_EQ(rows.size(), 2U);
  const std::int32_t row = hash.rows(texts(1, {3, 5})).data()[1];
  ASSERT_EQ(rows.at(row).size(), 1U);
  EXPECT_EQ(rows.at(row)[0].count, 2U);
  EXPECT_EQ(text_of(rows.at(row)[0], nullptr), "2 4");
  EXPECT_EQ(label_of(rows.at(hash.rows(texts(1, {2})).data()[0]), nullptr), "[start] 2");
}

TEST(NgramCounts, CountsTheRestWhereThereAreTooMany) {
  const NgramHash hash(5, {.orders = {1}, .heads = 1, .rows = 2}, {0}, 0);
  NgramCounts counts(hash, 2);
  counts.add(texts(2, kTwoTexts));
  std::uint64_t sum = 0;
  for (const auto& [row, ngrams] : counts.by_row())
    for (const NgramCounts::Ngram& ngram : ngrams) sum += ngram.count;
  EXPECT_EQ(sum, 7U);
  EXPECT_EQ(counts.not_told_apart(), 1U);  // the only 3
}

TEST(NgramCounts, LabelsNameAFewNgrams) {
  const NgramHash hash(100'000, {.orders = {1}, .heads = 1, .rows = 1}, {0}, 0);
  NgramCounts counts(hash);
  std::vector<std::int32_t> ids(60);
  std::iota(ids.begin(), ids.end(), 50'000);
  ids.insert(ids.end(), 3, 77'777);
  counts.add(texts(1, ids));
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

GptModel with_memory(Random& random) {
  return GptModel(
      {.vocabulary = 5,
       .context = 4,
       .width = 4,
       .heads = 1,
       .layers = 1,
       .memories = {.blocks = {0}, .ngrams = {.heads = 1, .rows = 7}, .memory = {.head_width = 2}}},
      random);
}

TEST(RowHistory, KnowsTheTokensOfAMemoryWhereTheirTableIsFrozen) {
  Random random(1);
  GptModel model = with_memory(random);
  model.named_layers<Embedding>().at(0).second->weight.set_trainable(false);
  RowHistory history(model);
  Tape tape(random);
  const Ids ids = texts(1, {1, 2, 1, 2});
  tape.backward(model.loss(tape, ids, ids));
  history.after_backward(tape);
  const auto memory = std::ranges::find(history.tables(), "n-gram", &TableHistory::kind);
  ASSERT_NE(memory, history.tables().end());
  EXPECT_EQ(memory->ngrams()->by_row().size(), counted(model.memories[0].hash(), ids).size());
  for (const TableHistory& table : history.tables()) EXPECT_TRUE(table.table().trainable());
}

TEST(RowHistory, FollowsTheTableOfAMemory) {
  Random random(1);
  GptModel model = with_memory(random);
  AdamW adamw(model.parameters(), {.learning_rate = 0.1});
  DataLoader loader(TokenWindows(to_ids(std::vector<std::int32_t>{1, 2, 1, 2, 3, 2, 1, 2, 4}),
                                 {.context = 4, .stride = 4}),
                    {.batch = 2});
  RowHistory history(model);
  TrainingRun run(
      {.model = model, .optimizer = adamw, .loader = loader, .random = random, .steps = 2});
  run.observe(history);
  const std::int32_t row = model.memories[0].hash().rows(texts(1, {1, 2})).data()[2];
  RowMovement reasons(model, model.memories[0].table.weight, row);
  run.observe(reasons);
  run.train();
  ASSERT_EQ(history.tables().size(), 3U);
  const TableHistory& table = history.tables().back();
  EXPECT_EQ(table.kind(), "n-gram");
  EXPECT_EQ(&table.table(), &model.memories[0].table.weight);
  const auto expected = counted(model.memories[0].hash(), texts(2, kTwoTexts));
  EXPECT_EQ(table.touched(), expected.size());
  for (std::size_t i = 0; i < table.ids().size(); ++i) {
    ASSERT_TRUE(expected.contains(table.ids()[i]));
    std::uint64_t lookups = 0;
    for (const auto& [ngram, count] : expected.at(table.ids()[i])) lookups += count;
    EXPECT_EQ(table.rows()[i].lookups, 2 * lookups);
    if (table.ids()[i] == row) {
      EXPECT_EQ(reasons.summary().lookups, 2 * lookups);
    }
    EXPECT_GT(table.moved()[i], 0);
    const TableHistory::Step& step = table.steps()[i].front();  // with a text that looks the row up
    const Ids rows = model.memories[0].hash().rows(texts(1, step.text));
    const std::int32_t* of_place = rows.data() + 2 * step.place;
    EXPECT_NE(std::find(of_place, of_place + 2, table.ids()[i]), of_place + 2);
  }
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(table.table().shape()[0]); ++id)
    EXPECT_EQ(table.was_touched(id), expected.contains(id));
  const RowMovement::Summary why = reasons.summary();
  ASSERT_EQ(why.steps.size(), 2U);
  EXPECT_FALSE(why.steps[0].windows.empty());
  for (const RowMovement::Window& window : why.steps[0].windows)
    for (const std::size_t place : window.positions) {
      const Ids rows = model.memories[0].hash().rows(texts(1, window.tokens));
      EXPECT_TRUE(std::ranges::count(std::span(rows.data() + 2 * place, 2), row));
    }
  EXPECT_EQ(table.ngrams()->by_row().size(), expected.size());
  EXPECT_EQ(history.tables().front().ngrams(), nullptr);
  const std::string listed = rows_text(table, list_rows(table), nullptr, ',');
  EXPECT_HAS(listed, "\"[start] 1");
  EXPECT_HAS(listed, ",\"\",0,0,0,");  // no n-gram fell into this one
}

}  // namespace
