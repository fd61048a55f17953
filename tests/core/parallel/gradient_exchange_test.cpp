// Compares sums of gradients over ranks with sums in one process, for all kinds of gradients.

#include "tests/support/thread_ranks.hpp"
#include "tests/test.hpp"

namespace {

constexpr std::size_t kRows = 3000;
constexpr std::size_t kWidth = 7;
const std::vector<Shape> kShapes{{kRows, kWidth}, {5, 3}, {kRows, kWidth}, {1}, {0, 4}, {kRows, 2}};

// Returns the gradients of a slice; some slices have no gradient of a parameter. Each slice touches
// `rows` rows of the first table. If `crowded`, all slices touch the same rows.
Gradients gradients_of(std::size_t slice, std::size_t rows, bool crowded) {
  Gradients all(kShapes.size());
  Ids32 ids;
  for (std::size_t i = 0; i < rows; ++i)
    ids.push_back(static_cast<std::int32_t>(crowded ? i : (i * 2 + slice * 13) % kRows));
  std::ranges::sort(ids);
  if (slice != 1) all[0] = RowGradient(kShapes[0], ids, irregular({ids.size(), kWidth}, slice + 1));
  if (slice != 2) all[1] = irregular(kShapes[1], slice + 10);
  // One slice has a row gradient and the others have dense gradients, as for a tied table.
  all[2] = slice == 3 ? Gradient(RowGradient(kShapes[2], ids, irregular({ids.size(), kWidth}, 3)))
                      : Gradient(irregular(kShapes[2], slice + 20));
  if (slice == 0) all[3] = irregular(kShapes[3], 5);
  all[4] = Tensor(zeros(kShapes[4]));
  if (slice % 2 == 0) all[5] = RowGradient(kShapes[5], {}, zeros({0, 2}));
  return all;
}

Gradients of_node(IndexRange node, const std::vector<Gradients>& slices) {
  return tree_sum<Gradients>(
      node,
      [&](IndexRange range, Gradients& gradients) {
        if (range.size() == 1) gradients = slices[range.begin];
        return range.size() == 1;
      },
      [](Gradients& a, Gradients&& b) { add(a, std::move(b)); });
}

void expect_same(const Gradient& a, const Gradient& b) {
  EXPECT_EQ(a.kind(), b.kind());
  EXPECT_TRUE(std::ranges::equal(a.values(), b.values()));
  if (a.is_rows() && b.is_rows()) {
    EXPECT_EQ(a.rows().indices(), b.rows().indices());
  }
}

// Submits the gradients of the last subtree in an order that depends on the rank. Skips missing
// gradients.
Gradients sum_one_by_one(GradientExchange& exchange, std::vector<Gradients> partial,
                         std::size_t rank) {
  Gradients last = std::move(partial.back());
  partial.pop_back();
  exchange.start(std::move(partial));
  for (std::size_t i = 0; i < kShapes.size(); ++i) {
    const std::size_t p = (i * 5 + rank) % kShapes.size();
    if (!last[p].is_none()) exchange.submit(p, std::move(last[p]));
  }
  return exchange.finish();
}

TEST(GradientExchange, GivesTheSameBitsOnAnyNumberOfRanks) {
  for (const std::size_t rows : {0, 3, 1400})
    for (const bool crowded : {false, true}) {
      std::vector<Gradients> all;
      while (all.size() < 13) all.push_back(gradients_of(all.size(), rows, crowded));
      for (const std::size_t slices : {4, 5, 6, 13}) {
        const Gradients expected = of_node({0, slices}, all);
        for (std::size_t count = 1; count <= 4; ++count)
          run_ranks(count, [&](ProcessGroup& ranks) {
            // With few rows, no two parameters with elements share a bucket.
            GradientExchange exchange(ranks, slices, kShapes,
                                      rows < 1000 ? 0 : GradientExchange::kBucketBytes);
            for (int again = 0; again < 3; ++again) {  // each sum chooses the ways of the next
              std::vector<Gradients> partial;
              for (const IndexRange node : exchange.subtrees())
                partial.push_back(of_node(node, all));
              const Gradients sums =
                  again < 2 ? exchange.sum(std::move(partial))
                            : sum_one_by_one(exchange, std::move(partial), ranks.rank());
              for (std::size_t p = 0; p < kShapes.size(); ++p) expect_same(sums[p], expected[p]);
            }
          });
      }
    }
}

TEST(GradientExchange, SumsRowsByOwnersIfRanksShareRows) {
  for (const bool crowded : {false, true})
    run_ranks(4, [&](ProcessGroup& ranks) {
      GradientExchange exchange(ranks, 4, kShapes);
      for (const char* way : {"gathered", crowded ? "owners" : "gathered"}) {
        exchange.sum({gradients_of(ranks.rank(), crowded ? 1400 : 300, crowded)});
        EXPECT_EQ(exchange.ways()[0], way);
        EXPECT_EQ(exchange.ways()[1], "dense");
        EXPECT_EQ(exchange.ways()[5], "gathered");
      }
    });
}

TEST(GradientExchange, SendsOnlyTouchedRowsAndDenseElementsTwice) {
  for (const std::size_t table : {1000, 100000})
    run_ranks(2, [&](ProcessGroup& ranks) {
      GradientExchange exchange(ranks, 2, {{table, kWidth}});
      const std::int32_t first = ranks.rank() == 0 ? 3 : 500;
      exchange.sum({{Gradient(
          RowGradient({table, kWidth}, {first, first + 1}, irregular({2, kWidth}, 1)))}});
      const std::uint64_t gathered = 8 + 2 * (4 + kWidth * sizeof(real));
      EXPECT_EQ(ranks.bytes_sent(), gathered);
      // Owners of a sharded table receive the number of rows, here 0, as one integer per slice.
      exchange.start({}, {true});
      const auto row = static_cast<std::int32_t>(ranks.rank() == 0 ? 3 : table - 1);
      exchange.submit(0, RowGradient({table, kWidth}, {row}, irregular({1, kWidth}, 1)));
      exchange.finish();
      EXPECT_EQ(ranks.bytes_sent(), gathered + 8 + 8);
    });
  run_ranks(4, [&](ProcessGroup& ranks) {
    GradientExchange exchange(ranks, 4, {{4000}});
    exchange.sum({{Gradient(irregular({4000}, 1))}});
    EXPECT_EQ(ranks.bytes_sent(), 3 * 8 + 2 * 3 * 1000 * sizeof(real));
  });
}

TEST(GradientExchange, SendsABucketWhileOthersAreComputed) {
  run_ranks(2, [](ProcessGroup& ranks) {
    GradientExchange exchange(ranks, 2, {{1000}, {1000}, {1000}}, 500 * sizeof(real));
    for (int again = 0; again < 2; ++again) {
      const std::uint64_t before = ranks.bytes_sent();
      exchange.start({});
      exchange.submit(2, irregular({1000}, 1));
      EXPECT_EQ(ranks.bytes_sent() - before, 8);  // the kind of the gradient
      ranks.any(false);                           // now both ranks know the kind
      exchange.submit(0, {});
      EXPECT_EQ(ranks.bytes_sent() - before, 8 + 1 + 8 + 500 * sizeof(real));
      ranks.any(false);
      exchange.submit(1, irregular({1000}, 2));
      EXPECT_EQ(ranks.bytes_sent() - before, 8 + 1 + 8 + 1 + 8 + 1000 * sizeof(real));
      const Gradients sums = exchange.finish();
      EXPECT_EQ(sums[2].dense(), Tensor(irregular({1000}, 1) * real{2}));
      EXPECT_TRUE(sums[0].is_none());
    }
  });
}

TEST(GradientExchange, RejectsCallsInTheWrongOrder) {
  run_ranks(2, [](ProcessGroup& ranks) {
    GradientExchange exchange(ranks, 4, {{2}, {3}});
    EXPECT_ERROR(std::logic_error,
                 "GradientExchange::submit: no sum was started; call start() first",
                 exchange.submit(0, {}));
    EXPECT_THROW(exchange.finish(), std::logic_error);
    EXPECT_INVALID(
        "GradientExchange::sum: partial is empty, expected the gradients of each subtree",
        exchange.sum({}));
    EXPECT_THROW(exchange.start({}), std::invalid_argument);
    EXPECT_THROW(exchange.start({Gradients(1)}), std::invalid_argument);
    exchange.start({Gradients(2)});
    EXPECT_INVALID(
        "GradientExchange::submit: parameter 1 has a gradient of shape [2], expected [3]",
        exchange.submit(1, Gradient(zeros({2}))));
    exchange.submit(1, {});
    EXPECT_THROW(exchange.submit(1, {}), std::logic_error);
    EXPECT_THROW(exchange.start({Gradients(2)}), std::logic_error);
    EXPECT_EQ(exchange.finish().size(), 2);
    EXPECT_EQ(exchange.sum({Gradients(2), Gradients(2)}).size(), 2);
    EXPECT_THROW(GradientExchange(ranks, 1, kShapes), std::invalid_argument);  // one slice
  });
}

TEST(ProcessGroup, GathersStringsAndAnswers) {
  run_ranks(3, [](ProcessGroup& ranks) {
    const auto texts = ranks.all_gather_lists(std::string(ranks.rank(), 'x'));
    EXPECT_EQ(texts, (std::vector<std::string>{"", "x", "xx"}));
    EXPECT_TRUE(ranks.any(ranks.rank() == 2));
    EXPECT_FALSE(ranks.any(false));
  });
}

TEST(Shards, FormAsFewSubtreesAsPossible) {
  EXPECT_EQ(subtrees_in({4, 8}, 8), (std::vector<IndexRange>{{4, 8}}));
}

}  // namespace
