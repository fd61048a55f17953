#include "tests/test.hpp"
#include <rowgrad/optim/slots/row_records.hpp>

namespace {

TEST(RowRecords, AreCreatedOnceInOrderOfFirstUse) {
  RowRecords records(10, 3);
  records.make(Ids32{7, 2});
  records.make(Ids32{2, 9, 7});
  for (const auto& [row, number] :
       std::vector<std::pair<std::size_t, std::uint32_t>>{{7, 1}, {2, 2}, {9, 3}, {0, 0}, {8, 0}})
    EXPECT_EQ(records.number_of(row), number) << row;
}

TEST(RowRecords, KeepSlotsAndStepsWhenASlotIsAdded) {
  for (const std::size_t width : {1, 3, 16, 100, 300'000}) {  // 300,000: a chunk for each record
    RowRecords records(20, width);
    records.add_slot();
    const Ids32 rows{19, 3, 5, 0};
    records.make(rows);
    const auto record = [&](std::int32_t row) {
      return records.at(records.number_of(static_cast<std::size_t>(row)));
    };
    for (const std::int32_t row : rows) {
      std::fill_n(record(row), width, static_cast<real>(row + 1));
      *records.step(record(row)) = static_cast<std::uint64_t>(row) << 33;
    }
    records.add_slot();
    for (const std::int32_t row : rows) {
      std::vector<real> expected(width, static_cast<real>(row + 1));
      expected.resize(2 * width);
      EXPECT_EQ(std::vector<real>(record(row), record(row) + 2 * width), expected) << width;
      EXPECT_EQ(*records.step(record(row)), static_cast<std::uint64_t>(row) << 33) << width;
    }
    records.reset_steps();
    for (const std::int32_t row : {19, 3, 5, 0, 1}) EXPECT_EQ(*records.step(record(row)), 0U);
    EXPECT_EQ(std::vector<real>(record(1), record(1) + 2 * width), std::vector<real>(2 * width));
  }
}

}  // namespace
