#include "tests/test.hpp"
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

using Numbers = std::vector<std::int32_t>;

// Ids of a text: a few occur often, most seldom.
Numbers text_like_ids(std::size_t count, std::int32_t rows) {
  Numbers ids;
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;  // Knuth's linear congruential generator
    const auto range = static_cast<std::uint32_t>(i % 3 == 0 ? 17 : rows);
    ids.push_back(static_cast<std::int32_t>((state >> 8) % range));
  }
  return ids;
}

// Sums in a sorted map, in the order of the rows.
struct Reference {
  Numbers numbers;
  std::vector<real> values;

  Reference(const Numbers& ids, const Tensor& given, std::size_t width,
            std::optional<std::int32_t> left_out = std::nullopt, bool mean = false) {
    std::map<std::int32_t, std::vector<real>> sums;
    std::map<std::int32_t, int> counts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == left_out) continue;
      const real* row = given.data() + i * width;
      if (counts[ids[i]]++ == 0) {
        sums[ids[i]].assign(row, row + width);
      } else {
        for (std::size_t k = 0; k < width; ++k) sums[ids[i]][k] += row[k];
      }
    }
    for (auto& [id, row] : sums) {
      numbers.push_back(id);
      if (mean)
        for (real& number : row) number /= static_cast<real>(counts[id]);
      values.insert(values.end(), row.begin(), row.end());
    }
  }
};

TEST(GatherRows, AddsOtherRowsInTurn) {
  const Tensor table = counting({5, 3});
  const Tensor added = tensor({2, 3}, {100, 200, 300, 1000, 2000, 3000});
  const Numbers ids{4, 0, 0, 2};
  const Tensor expected =
      tensor({4, 3}, {113, 214, 315, 1001, 2002, 3003, 101, 202, 303, 1007, 2008, 3009});
  Tensor rows = empty({4, 3});
  gather_rows(table.data(), 3, ids, rows.data(), &added);
  EXPECT_EQ(rows, expected);
  gather_rows(table.data(), 3, ids, rows.data());
  add_rows(rows.data(), 3, 4, added);
  EXPECT_EQ(rows, expected);
}

TEST(RowGroups, ListThePositionsOfEachIdInOrder) {
  const Numbers ids{7, 1, -1, 7, 0, 7};
  const RowGroups groups(ids, -1);  // what is left out need not be a row
  EXPECT_EQ(groups.indices, (Numbers{0, 1, 7}));
  EXPECT_EQ(groups.starts, (std::vector<std::size_t>{0, 1, 2, 5}));
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < groups.starts.back(); ++i) positions.push_back(groups.position(i));
  EXPECT_EQ(positions, (std::vector<std::size_t>{4, 1, 0, 3, 5}));
}

TEST(MergeRows, TakesTheShapeThatALookupHas) {
  const MergedRows merged = merge_rows(Numbers{1, 0, 1, 2}, counting({2, 2, 2}));
  EXPECT_EQ(merged.indices, (Numbers{0, 1, 2}));
  EXPECT_EQ(merged.values, tensor({3, 2}, {3, 4, 6, 8, 7, 8}));
}

TEST(MergeRows, KeepsTheWidthWhereThereAreNoRows) {
  for (const Shape& shape : {Shape{0, 3}, Shape{2, 0, 3}}) {
    const MergedRows merged = merge_rows({}, zeros(shape));
    EXPECT_TRUE(merged.indices.empty());
    EXPECT_EQ(merged.values.shape(), Shape({0, 3}));
  }
  const MergedRows all_left_out = merge_rows(Numbers{4, 4}, counting({2, 3}), 4);
  EXPECT_TRUE(all_left_out.indices.empty());
  EXPECT_EQ(all_left_out.values.shape(), Shape({0, 3}));
}

TEST(MergeRows, GivesTheReferencesBitsForEverySizeAndWidth) {
  // From few ids, which are sorted by comparison, to many, sorted by digits; the last ones need a
  // second and a third digit.
  for (const std::size_t count : {0, 1, 2, 10, 511, 512, 2000})
    for (const std::int32_t rows : {1, 40, 2049, 50257, 5'000'000})
      for (const std::size_t width : {0UL, 1UL, 5UL, 16UL, 100UL}) {
        const Numbers ids = text_like_ids(count, rows);
        const Tensor given = irregular({count, width});
        for (const std::optional<std::int32_t> left_out :
             {std::optional<std::int32_t>(), std::optional<std::int32_t>(3)})
          for (const bool mean : {false, true}) {
            const MergedRows merged = merge_rows(ids, given, left_out, mean);
            const Reference expected(ids, given, width, left_out, mean);
            ASSERT_EQ(merged.indices, expected.numbers) << count << " ids of " << rows;
            ASSERT_EQ(merged.values, tensor({expected.numbers.size(), width}, expected.values))
                << count << " ids of " << rows << ", width " << width;
          }
      }
}

}  // namespace
}  // namespace rowgrad::kernels
