#include "tests/test.hpp"

namespace {

RowGradient rows_of(std::vector<std::int32_t> numbers, const std::vector<real>& values) {
  const std::size_t count = numbers.size();
  return {{5, 2}, std::move(numbers), tensor({count, 2}, values)};
}

TEST(RowGradient, KeepsItsRowsInRisingOrderAndShowsThemOneByOne) {
  const RowGradient rows = rows_of({0, 3, 4}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(rows.table_shape(), Shape({5, 2}));
  EXPECT_EQ(rows.width(), 2U);
  EXPECT_EQ(rows.size(), 3U);
  EXPECT_FALSE(rows.empty());
  EXPECT_EQ(rows.indices(), (std::vector<std::int32_t>{0, 3, 4}));
  EXPECT_EQ(rows.row(1)[0], 3);
  EXPECT_EQ(rows.row(1)[1], 4);

  std::vector<std::int32_t> numbers;
  std::vector<real> values;
  for (const auto [number, row] : rows) {
    numbers.push_back(number);
    values.insert(values.end(), row.begin(), row.end());
  }
  EXPECT_EQ(numbers, rows.indices());
  EXPECT_EQ(values, (std::vector<real>{1, 2, 3, 4, 5, 6}));
}

TEST(RowGradient, FillsTheOtherRowsOfATableWithZeros) {
  EXPECT_EQ(rows_of({0, 3, 4}, {1, 2, 3, 4, 5, 6}).to_dense(),
            tensor({5, 2}, {1, 2, 0, 0, 0, 0, 3, 4, 5, 6}));
}

TEST(RowGradient, MayHaveNoRowsAtAll) {
  const RowGradient rows = rows_of({}, {});
  EXPECT_TRUE(rows.empty());
  EXPECT_TRUE(rows.begin() == rows.end());
  EXPECT_EQ(rows.to_dense(), zeros({5, 2}));
}

TEST(RowGradient, RefusesPartsThatDoNotFitTogether) {
  struct Case {
    Shape table;
    std::vector<std::int32_t> numbers;
    Shape values;
    std::string message;
  };
  for (const Case& item : std::vector<Case>{
           {{5}, {1}, {1, 2}, "RowGradient: the table has shape [5], expected [rows, width]"},
           {{5, 2, 1},
            {1},
            {1, 2},
            "RowGradient: the table has shape [5, 2, 1], expected [rows, width]"},
           {{5, 2}, {1}, {2}, "RowGradient: values have shape [2], expected [1, 2]"},
           {{5, 2}, {1}, {1, 3}, "RowGradient: values have shape [1, 3], expected [1, 2]"},
           {{5, 2}, {1}, {2, 2}, "RowGradient: values have shape [2, 2], expected [1, 2]"},
           {{5, 2}, {}, {0, 3}, "RowGradient: values have shape [0, 3], expected [0, 2]"},
           {{5, 2}, {3, 1}, {2, 2}, "RowGradient: the row indices are not strictly rising"},
           {{5, 2}, {3, 3}, {2, 2}, "RowGradient: the row indices are not strictly rising"},
           {{5, 2},
            {-1, 3},
            {2, 2},
            "RowGradient: row indices -1 to 3 are outside the table's 5 rows"},
           {{5, 2},
            {3, 5},
            {2, 2},
            "RowGradient: row indices 3 to 5 are outside the table's 5 rows"},
       })
    EXPECT_INVALID(item.message, RowGradient(item.table, item.numbers, zeros(item.values)));
}

TEST(Gradient, IsNoneDenseOrRowsAndSaysWhich) {
  const Gradient none;
  EXPECT_TRUE(none.is_none() && !none.is_dense() && !none.is_rows());
  EXPECT_ERROR(std::logic_error, "Gradient::dense: the gradient is none", none.dense());
  EXPECT_ERROR(std::logic_error, "Gradient::rows: the gradient is none", none.rows());
  EXPECT_ERROR(std::logic_error, "Gradient::shape: there is no gradient", none.shape());
  EXPECT_ERROR(std::logic_error, "Gradient::take_dense: there is no gradient",
               Gradient().take_dense());

  const Gradient dense = zeros({2, 3});
  EXPECT_TRUE(dense.is_dense() && !dense.is_none() && !dense.is_rows());
  EXPECT_EQ(dense.shape(), Shape({2, 3}));
  EXPECT_ERROR(std::logic_error, "Gradient::rows: the gradient is dense", dense.rows());

  const Gradient rows = rows_of({1}, {7, 8});
  EXPECT_TRUE(rows.is_rows() && !rows.is_none() && !rows.is_dense());
  EXPECT_EQ(rows.shape(), Shape({5, 2}));
  EXPECT_ERROR(std::logic_error, "Gradient::dense: the gradient is rows", rows.dense());
}

TEST(Gradient, IsScaledWhateverItsKind) {
  Gradient none;
  none.scale(3);
  EXPECT_TRUE(none.is_none());
  Gradient dense = tensor({3}, {1, -2, 3});
  dense.scale(-2);
  EXPECT_EQ(dense.dense(), tensor({3}, {-2, 4, -6}));
  Gradient rows = rows_of({1}, {7, 8});
  rows.scale(2);
  EXPECT_EQ(rows.rows().values(), tensor({1, 2}, {14, 16}));
}

TEST(Gradient, AddsEveryKindToEveryKind) {
  const Gradient none;
  const Gradient two = full({5, 2}, 2);
  const Gradient dense = tensor({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const Gradient few = rows_of({1, 3}, {10, 20, 30, 40});
  const Gradient others = rows_of({0, 3, 4}, {100, 200, 300, 400, 500, 600});

  struct Case {
    Gradient left;
    Gradient right;
    bool stays_rows;
    std::vector<real> sum;
  };
  const std::vector<real> few_dense{0, 0, 10, 20, 0, 0, 30, 40, 0, 0};
  const std::vector<real> both{1, 2, 13, 24, 5, 6, 37, 48, 9, 10};
  for (const Case& item : std::vector<Case>{
           {none, dense, false, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
           {dense, none, false, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
           {none, few, true, few_dense},
           {few, none, true, few_dense},
           {dense, dense, false, {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}},
           {dense, few, false, both},
           {few, dense, false, both},
           {few, others, true, {100, 200, 10, 20, 0, 0, 330, 440, 500, 600}},
           {others, few, true, {100, 200, 10, 20, 0, 0, 330, 440, 500, 600}},
           {few, few, true, {0, 0, 20, 40, 0, 0, 60, 80, 0, 0}},
           {few, rows_of({}, {}), true, few_dense},
           {two, two, false, {4, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
           {dense, two, false, {3, 4, 5, 6, 7, 8, 9, 10, 11, 12}},
           {two, few, false, {2, 2, 12, 22, 2, 2, 32, 42, 2, 2}},
           {few, two, false, {2, 2, 12, 22, 2, 2, 32, 42, 2, 2}},
           {none, two, false, {2, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
           {rows_of({}, {}), few, true, few_dense},
       }) {
    Gradient sum = item.left;
    sum.add(item.right);
    EXPECT_EQ(sum.is_rows(), item.stays_rows);
    EXPECT_EQ(std::move(sum).take_dense(), tensor({5, 2}, item.sum));
  }

  Gradient nothing;
  nothing.add(none);
  EXPECT_TRUE(nothing.is_none());
}

TEST(Gradient, MergesTheRowsOfASum) {
  Gradient sum = rows_of({1, 3}, {10, 20, 30, 40});
  sum.add(rows_of({0, 3, 4}, {100, 200, 300, 400, 500, 600}));
  EXPECT_EQ(sum.rows().indices(), (std::vector<std::int32_t>{0, 1, 3, 4}));
  EXPECT_EQ(sum.rows().values(), tensor({4, 2}, {100, 200, 10, 20, 330, 440, 500, 600}));
}

TEST(Gradient, AddsRowsOfNoWidth) {
  Gradient sum = RowGradient({5, 0}, {1, 3}, zeros({2, 0}));
  sum.add(RowGradient({5, 0}, {0, 3}, zeros({2, 0})));
  EXPECT_EQ(sum.rows().indices(), (std::vector<std::int32_t>{0, 1, 3}));
}

TEST(Gradient, IsUnchangedByASumThatIsRefused) {
  const Tensor kept = tensor({2, 1}, {1, 2});
  Gradient dense = kept;
  EXPECT_INVALID("Gradient::add: shapes [2, 1] and [1, 2] differ", dense.add(zeros({1, 2})));
  EXPECT_INVALID("Gradient::add: shapes [2, 1] and [5, 2] differ", dense.add(rows_of({1}, {1, 2})));
  EXPECT_EQ(dense.dense(), kept);

  Gradient rows = rows_of({1}, {7, 8});
  EXPECT_THROW(rows.add(kept), std::invalid_argument);
  EXPECT_THROW(rows.add(RowGradient({6, 2}, {}, zeros({0, 2}))), std::invalid_argument);
  EXPECT_EQ(rows.rows().values(), tensor({1, 2}, {7, 8}));
}

TEST(Gradient, CopiesAreIndependent) {
  const Gradient original = tensor({2}, {1, 2});
  Gradient copy = original;
  copy.add(tensor({2}, {10, 10}));
  EXPECT_EQ(original.dense(), tensor({2}, {1, 2}));
  EXPECT_EQ(copy.dense(), tensor({2}, {11, 12}));
}

}  // namespace
