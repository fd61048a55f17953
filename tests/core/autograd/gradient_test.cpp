#include "tests/test.hpp"

namespace {

RowGradient rows_of(Ids32 indices, const std::vector<real>& values) {
  const std::size_t count = indices.size();
  return {{5, 2}, std::move(indices), tensor({count, 2}, values)};
}

TEST(RowGradient, RejectsMismatchedParts) {
  struct Case {
    Shape table;
    Ids32 indices;
    Shape values;
    std::string message;
  };
  for (const Case& item : std::vector<Case>{
           {{5}, {1}, {1, 2}, "the table has shape [5], expected [rows, width]"},
           {{5, 2, 1}, {1}, {1, 2}, "the table has shape [5, 2, 1], expected [rows, width]"},
           {{5, 2}, {1}, {2}, "values have shape [2], expected [1, 2]"},
           {{5, 2}, {1}, {1, 3}, "values have shape [1, 3], expected [1, 2]"},
           {{5, 2}, {1}, {2, 2}, "values have shape [2, 2], expected [1, 2]"},
           {{5, 2}, {}, {0, 3}, "values have shape [0, 3], expected [0, 2]"},
           {{5, 2}, {3, 1}, {2, 2}, "the row indices are not strictly increasing"},
           {{5, 2}, {3, 3}, {2, 2}, "the row indices are not strictly increasing"},
           {{5, 2}, {-1, 3}, {2, 2}, "row indices -1 to 3 are out of range: the table has 5 rows"},
           {{5, 2}, {3, 5}, {2, 2}, "row indices 3 to 5 are out of range: the table has 5 rows"}})
    EXPECT_INVALID("RowGradient: " + item.message,
                   RowGradient(item.table, item.indices, zeros(item.values)));
}

TEST(Gradient, IsNoneDenseOrRows) {
  const Gradient none;
  EXPECT_TRUE(none.is_none() && !none.is_dense() && !none.is_rows());
  EXPECT_ERROR(std::logic_error, "Gradient::dense: the gradient is of kind none, expected dense",
               none.dense());
  EXPECT_ERROR(std::logic_error, "Gradient::rows: the gradient is of kind none, expected rows",
               none.rows());
  EXPECT_ERROR(std::logic_error, "Gradient::shape: the gradient is none, expected dense or rows",
               none.shape());
  EXPECT_ERROR(std::logic_error,
               "Gradient::take_dense: the gradient is none, expected dense or rows",
               Gradient().take_dense());

  const Gradient dense = zeros({2, 3});
  EXPECT_TRUE(dense.is_dense() && !dense.is_none() && !dense.is_rows());
  EXPECT_EQ(dense.shape(), Shape({2, 3}));
  EXPECT_ERROR(std::logic_error, "Gradient::rows: the gradient is of kind dense, expected rows",
               dense.rows());

  const Gradient rows = rows_of({1}, {7, 8});
  EXPECT_TRUE(rows.is_rows() && !rows.is_none() && !rows.is_dense());
  EXPECT_EQ(rows.shape(), Shape({5, 2}));
  EXPECT_FALSE(rows.rows().empty());
  EXPECT_ERROR(std::logic_error, "Gradient::dense: the gradient is of kind rows, expected dense",
               rows.dense());
}

TEST(Gradient, AddsEveryKindToEveryKind) {
  const Gradient none;
  const Gradient dense = tensor({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  const Gradient few = rows_of({1, 3}, {10, 20, 30, 40});
  const Gradient others = rows_of({0, 3, 4}, {100, 200, 300, 400, 500, 600});
  const Gradient no_rows = rows_of({}, {});

  struct Case {
    Gradient left, right;
    std::optional<Ids32> rows;  // row indices of the sum, unless the sum is dense
    std::vector<real> sum;
  };
  const std::vector<real> few_dense{0, 0, 10, 20, 0, 0, 30, 40, 0, 0};
  const std::vector<real> both{1, 2, 13, 24, 5, 6, 37, 48, 9, 10};
  const std::vector<real> merged{100, 200, 10, 20, 0, 0, 330, 440, 500, 600};
  for (const Case& item :
       std::vector<Case>{{none, dense, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                         {dense, none, {}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
                         {none, few, Ids32{1, 3}, few_dense},
                         {few, none, Ids32{1, 3}, few_dense},
                         {dense, dense, {}, {2, 4, 6, 8, 10, 12, 14, 16, 18, 20}},
                         {dense, few, {}, both},
                         {few, dense, {}, both},
                         {few, others, Ids32{0, 1, 3, 4}, merged},
                         {others, few, Ids32{0, 1, 3, 4}, merged},
                         {few, few, Ids32{1, 3}, {0, 0, 20, 40, 0, 0, 60, 80, 0, 0}},
                         {few, no_rows, Ids32{1, 3}, few_dense},
                         {no_rows, few, Ids32{1, 3}, few_dense}}) {
    Gradient sum = item.left;
    sum.add(item.right);
    EXPECT_EQ(sum.is_rows(), item.rows.has_value());
    if (sum.is_rows()) {
      EXPECT_EQ(sum.rows().indices(), item.rows);
    }
    EXPECT_EQ(std::move(sum).take_dense(), tensor({5, 2}, item.sum));
  }
  Gradient nothing;
  nothing.add(none);
  EXPECT_TRUE(nothing.is_none());
  Gradient of_no_width = RowGradient({5, 0}, {1, 3}, zeros({2, 0}));
  of_no_width.add(RowGradient({5, 0}, {0, 3}, zeros({2, 0})));
  EXPECT_EQ(of_no_width.rows().indices(), (Ids32{0, 1, 3}));
}

TEST(Gradient, IsUnchangedByARejectedSum) {
  const Tensor kept = tensor({2, 1}, {1, 2});
  Gradient dense = kept;
  EXPECT_INVALID("Gradient::add: the added gradient has shape [1, 2], expected [2, 1]",
                 dense.add(zeros({1, 2})));
  EXPECT_INVALID("Gradient::add: the added gradient has shape [5, 2], expected [2, 1]",
                 dense.add(rows_of({1}, {1, 2})));
  EXPECT_EQ(dense.dense(), kept);

  Gradient rows = rows_of({1}, {7, 8});
  EXPECT_THROW(rows.add(kept), std::invalid_argument);
  EXPECT_THROW(rows.add(RowGradient({6, 2}, {}, zeros({0, 2}))), std::invalid_argument);
  EXPECT_EQ(rows.rows().values(), tensor({1, 2}, {7, 8}));
}

}  // namespace
