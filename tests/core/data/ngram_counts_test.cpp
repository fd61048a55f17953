#include "tests/core/data/counted_ngrams.hpp"

namespace {

TEST(NgramCounts, ReturnsTheNgramsOfEachRow) {
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
  EXPECT_EQ(counts.uncounted(), 0U);
}

TEST(NgramCounts, RejectsIdsOutsideTheVocabulary) {
  for (const std::vector<std::int32_t>& canonical : {Ids32{}, Ids32{0, 0, 1}}) {
    const NgramHash hash(3, {.heads = 1, .rows = 11, .canonical = canonical}, {0}, 0);
    NgramCounts counts(hash);
    EXPECT_INVALID("NgramHash: id 3 at index 1 is out of range: the vocabulary has 3 ids",
                   counts.add(Ids{{0, 3}}));
    EXPECT_INVALID("NgramHash: id -1 at index 0 is out of range: the vocabulary has 3 ids",
                   counts.add(Ids{{-1}}));
    EXPECT_INVALID("NgramCounts::add: tokens has shape [], expected at least one axis",
                   counts.add(Ids::from_shape({})));
    EXPECT_TRUE(counts.by_row().empty());
  }
}

TEST(NgramCounts, CountsAllSpellingsTogether) {
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

TEST(NgramCounts, CountsNgramsBeyondTheLimitTogether) {
  const NgramHash hash(5, {.orders = {1}, .heads = 1, .rows = 2}, {0}, 0);
  NgramCounts counts(hash, 2);
  counts.add(two_texts());
  std::uint64_t sum = 0;
  for (const auto& [row, ngrams] : counts.by_row())
    for (const NgramCounts::Ngram& ngram : ngrams) sum += ngram.count;
  EXPECT_EQ(sum, 7U);
  EXPECT_EQ(counts.uncounted(), 1U);  // the only n-gram with id 3
}

TEST(NgramCounts, LabelsNameAFewNgrams) {
  const NgramHash hash(100'000, {.orders = {1}, .heads = 1, .rows = 1}, {0}, 0);
  NgramCounts counts(hash);
  std::vector<std::int32_t> text(60);
  std::iota(text.begin(), text.end(), 50'000);
  text.insert(text.end(), 3, 77'777);
  counts.add(ids({1, 63}, text));
  const auto rows = counts.by_row();
  ASSERT_EQ(rows.size(), 2U);  // the part has 2 rows, the first prime
  std::size_t frequent = 0;
  for (const auto& [row, ngrams] : rows) {
    const std::string label = label_of(ngrams, nullptr);
    EXPECT_LE(label.size(), 70U) << label;
    EXPECT_TRUE(label.ends_with(" more")) << label;
    frequent += label.starts_with("77777 | ") ? 1 : 0;
  }
  EXPECT_EQ(frequent, 1U);
}

}  // namespace
