#include "tests/test.hpp"

namespace {

TEST(Parameter, IsUnchangedByRejectedArguments) {
  EXPECT_INVALID("x: the row source is null", Parameter("x", std::unique_ptr<RowSource>()));
  Parameter table("x", zeros({4, 2}));
  const std::uint64_t version = table.version();
  EXPECT_INVALID("x: the new value has shape [2, 4], expected [4, 2]", table.assign(zeros({2, 4})));
  EXPECT_INVALID("x: the gradient has shape [3], expected [4, 2]", table.add_gradient(zeros({3})));
  EXPECT_INVALID("x: id 1 at [2] follows 1, expected strictly increasing ids",
                 table.assign_rows(Ids32{0, 1, 1}, full({3, 2}, 1)));
  EXPECT_INVALID("x: the values have shape [2, 3], expected [2, 2]",
                 table.assign_rows(Ids32{0, 1}, full({2, 3}, 1)));
  EXPECT_EQ(table.value(), zeros({4, 2}));
  EXPECT_EQ(table.version(), version);
  EXPECT_TRUE(table.gradient().is_none());
}

// Training should hold little more than the table and its momentum in memory.
TEST(Parameter, IsNotCopiedUnlessReadAsAWhole) {
  constexpr std::size_t kRows = 100'000;
  const auto in_use = [] { return static_cast<double>(BufferPool::statistics().bytes_in_use); };
  Tensor values = zeros({kRows, 8});
  StateDict state;
  for (const bool resumed : {false, true}) {
    const double before = in_use();
    Parameter table("table", values);
    const double one = in_use() - before;
    SGD sgd({&table}, {.learning_rate = 0.1, .momentum = 0.9});
    if (resumed) sgd.load_state_dict(state);
    for (std::int32_t row = 0; row < 3; ++row) {
      table.zero_gradient();
      table.add_gradient(RowGradient({kRows, 8}, {row}, full({1, 8}, 1)));
      table.rows(Ids32{1, 2});
      sgd.step();
    }
    EXPECT_LT(in_use() - before, 2.5 * one);
    values = table.value();
    state = sgd.state_dict();
  }
}

}  // namespace
