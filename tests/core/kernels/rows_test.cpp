#include "tests/test.hpp"
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

// Returns ids with frequencies as in text: a few ids occur often, and most occur rarely.
Ids32 text_like_ids(std::size_t count, std::int32_t rows) {
  Ids32 ids;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;  // Knuth's linear congruential generator
    const auto range = static_cast<std::uint32_t>(i % 3 == 0 ? 17 : rows);
    ids.push_back(static_cast<std::int32_t>((state >> 8) % range));
  }
  return ids;
}

// The rows of each id, in a sorted map.
struct Reference {
  std::map<std::int32_t, std::vector<const real*>> rows;

  Reference(const Ids32& ids, const Tensor& given, std::size_t width,
            std::optional<std::int32_t> left_out) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] != left_out) rows[ids[i]].push_back(given.data() + i * width);
  }

  Ids32 indices() const {
    Ids32 all;
    for (const auto& [id, list] : rows) all.push_back(id);
    return all;
  }
};

// Expects the bits of a running sum for up to kRunningSum rows. For more rows, expects the sum
// within its error bound.
void expect_sum_of(const std::vector<const real*>& rows, std::size_t column, bool mean, real got,
                   const std::string& what) {
  real running = rows[0][column];
  long double exact = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) running += rows[i][column];
  for (const real* row : rows) exact += row[column];
  if (rows.size() <= kRunningSum) {
    ASSERT_EQ(got, mean ? running / static_cast<real>(rows.size()) : running) << what;
    return;
  }
  const auto count = static_cast<double>(rows.size());
  const double divisor = mean ? count : 1;
  // Values are at most 1, and each takes part in at most this many additions.
  const double additions = kRunningSum + std::log2(count) + 1;
  ASSERT_NEAR(got, static_cast<double>(exact) / divisor, additions * kEpsilon / 2 * count / divisor)
      << what;
}

TEST(MergeRows, SumsTheRowsOfEachIdForAnySizeAndWidth) {
  // Few ids are sorted by comparison, and many by digits. Ids below 50,257 need two digits, and ids
  // below 5,000,000 need three.
  for (const std::size_t count : {0, 1, 2, 10, 511, 512, 2000})
    for (const std::int32_t rows : {1, 40, 2049, 50257, 5'000'000})
      for (const std::size_t width : {0UL, 1UL, 5UL, 37UL}) {
        const Ids32 ids = text_like_ids(count, rows);
        const Tensor given = irregular({count, width});
        for (const std::optional<std::int32_t> left_out :
             {std::optional<std::int32_t>(), std::optional<std::int32_t>(3)})
          for (const bool mean : {false, true}) {
            const std::string what = concat(count, " ids of ", rows, ", width ", width);
            const MergedRows merged = merge_rows(ids, given, left_out, mean);
            const Reference expected(ids, given, width, left_out);
            ASSERT_EQ(merged.indices, expected.indices()) << what;
            const real* got = merged.values.data();
            for (const auto& [id, list] : expected.rows)
              for (std::size_t column = 0; column < width; ++column)
                expect_sum_of(list, column, mean, *got++, what);
          }
      }
}

// Returns a column of values. Half of the values are equal, so many rounding errors have the same
// sign.
Tensor many_values(std::size_t count) {
  const Tensor values = irregular({count, 1}, 1, 0, 1);
  Tensor all = full({count, 1}, 0.1);
  std::copy_n(values.data(), count / 2, all.data());
  return all;
}

// Returns the sum, computed pairwise in long double.
long double exact_sum(std::span<const real> values) {
  if (values.size() <= 32) return std::accumulate(values.begin(), values.end(), 0.0L);
  const std::size_t half = values.size() / 2;
  return exact_sum(values.first(half)) + exact_sum(values.subspan(half));
}

// Expects the sum of nonnegative values, within the error of pairwise summation and of a running
// sum in a wider type.
void expect_sum(double got, const Tensor& values, double divisor, const std::string& what) {
  using Wide = std::conditional_t<sizeof(real) == 4, double, long double>;
  const auto expected = static_cast<double>(exact_sum({values.data(), values.size()}) / divisor);
  const auto count = static_cast<double>(values.size());
  const double pairwise = (kRunningSum + std::log2(count) + 1) * kEpsilon / 2;
  const auto wide = static_cast<double>(std::numeric_limits<Wide>::epsilon() / 2) * count;
  EXPECT_NEAR(got, expected, (pairwise + wide) * expected) << what;
}

TEST(SumsOfManyRows, AreAsAccurateAsPairwiseSums) {
  for (const std::size_t count : {40UL, 16384UL, 1'000'000UL}) {
    const Tensor values = many_values(count);
    const auto size = static_cast<double>(count);
    const auto row = [&](std::vector<std::size_t> shape) { return ids(shape, Ids32(count, 2)); };
    struct Case {
      std::string name;
      Function op;         // reads row 2 of a table [4, 1] `count` times
      double divisor = 1;  // divisor of the sum
    };
    std::vector<Case> cases{
        {"embedding", [&](Inputs x) { return embedding(x[0], row({count})); }},
        {"embedding, scaled by frequency",
         [&](Inputs x) { return embedding(x[0], row({count}), {.scale_grad_by_freq = true}); },
         size},
        {"embedding with padding",
         [&](Inputs x) { return embedding(x[0], row({count}), {.padding_idx = 0}); }},
        {"embedding_add",
         [&](Inputs x) {
           return embedding_add(x[0], row({count}), x[0].tape().constant(zeros({count, 1})));
         }},
        {"gather",
         [&](Inputs x) {
           return gather(x[0], 0, row({count, 1}));
         }},
        {"broadcast", [&](Inputs x) {
           return slice(x[0], 0, 2, 3) + x[0].tape().constant(zeros({count, 1}));
         }}};
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax})
      cases.push_back({concat("bags of one, mode ", static_cast<int>(mode)), [&, mode](Inputs x) {
                         return embedding_bag(x[0], {row({count, 1})}, {.mode = mode});
                       }});
    for (const Case& item : cases) {
      Tape tape;
      const std::vector<Variable> in = inputs_on(tape, {zeros({4, 1})});
      const Variable y = item.op(in);
      tape.backward(y, reshaped(values, y.shape()));
      const Tensor gradient = Gradient(tape.gradient(in[0])).take_dense();
      expect_sum(gradient.data()[2], values, item.divisor, concat(item.name, " of ", count));
    }
    // A bag of many different rows.
    Ids32 all(count);
    std::iota(all.begin(), all.end(), 0);
    for (const BagMode mode : {BagMode::kSum, BagMode::kMean}) {
      Tape tape(Tape::kInference);
      const Variable bag =
          embedding_bag(tape.constant(values), {ids({1, count}, all)}, {.mode = mode});
      expect_sum(bag.item(), values, mode == BagMode::kMean ? size : 1,
                 concat("bag of ", count, " rows"));
    }
  }
}

TEST(SumsOfManyRows, HaveTheSameBitsForAnyNumberOfThreads) {
  const Tensor values = irregular({40000, 3});
  Ids32 rows(40000);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int32_t>(i % 7 * 5);
  std::vector<Tensor> results;
  for (const int threads : {1, 2, 5}) {
    const Threads count(threads);
    results.push_back(merge_rows(rows, values).values);
    Tape tape(Tape::kInference);
    results.push_back(embedding_bag(tape.constant(values), {ids({2, 20000}, rows)}).value());
  }
  for (std::size_t i = 2; i < results.size(); ++i) EXPECT_EQ(results[i], results[i - 2]);
}

// Each use of the parameter is a separate lookup, as in a recurrent network.
TEST(SumsOfManyRows, AreAccurateForManyUsesOfAParameter) {
  constexpr std::size_t kUses = 5000;
  const Tensor values = many_values(kUses);
  Parameter table("table", zeros({3, 1}));
  Tape tape;
  std::vector<Variable> rows;
  for (std::size_t i = 0; i < kUses; ++i) rows.push_back(embedding(tape.parameter(table), Ids{2}));
  tape.backward(concatenate(rows, 0), values);
  expect_sum(table.gradient().rows().row(0)[0], values, 1, "uses");
}

}  // namespace
}  // namespace rowgrad::kernels
