#include "tests/test.hpp"
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::kernels {
namespace {

// Ids of a text: a few occur often, most seldom.
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

// Sums in a sorted map, in the order of the rows.
struct Reference {
  Ids32 numbers;
  std::vector<real> values;

  Reference(const Ids32& ids, const Tensor& given, std::size_t width,
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

TEST(MergeRows, GivesTheReferencesBitsForEverySizeAndWidth) {
  // From few ids, which are sorted by comparison, to many, sorted by digits; the last ones need a
  // second and a third digit.
  for (const std::size_t count : {0, 1, 2, 10, 511, 512, 2000})
    for (const std::int32_t rows : {1, 40, 2049, 50257, 5'000'000})
      for (const std::size_t width : {0UL, 1UL, 5UL, 37UL}) {
        const Ids32 ids = text_like_ids(count, rows);
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
