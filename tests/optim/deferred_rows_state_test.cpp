// Saving and loading of optimizers with deferred steps: cases that resumable_test.cpp does not
// cover.

#include "tests/optim/optimizers.hpp"

namespace {

using Integers = std::vector<std::int64_t>;

// Makes steps in which two of the rows 1 … 12 have gradients, and row 1 only in early steps.
void train(Optimizer& optimizer, Parameter& table, int from, int to) {
  for (int i = from; i < to; ++i) {
    const std::int32_t row = 2 + i % 10;
    step(optimizer, table, i < 5 ? Ids32{1, row} : Ids32{row, 12}, i);
  }
}

TEST(DeferredRowsState, LoadsOnlyWithMatchingValues) {
  Parameter table("table", irregular({13, 9})), other("table", irregular({13, 9}, 5));
  SGD first({&table}, kMomentum), second({&other}, kMomentum);
  train(first, table, 0, 30);
  const StateDict state = first.state_dict(), own = second.state_dict();
  const Tensor before = other.value();
  EXPECT_INVALID(
      "SGD::load_state_dict: 'table' does not have the values that it had when the state was "
      "saved; load the model's state first",
      second.load_state_dict(state));
  const std::string name = "table.lazy.checksum";
  EXPECT_INVALID("SGD::load_state_dict: 'table.lazy.checksum' has 3 values, expected 2",
                 second.load_state_dict(with(state, name, std::vector<std::int64_t>{1, 2, 3})));
  EXPECT_TRUE(bits_of(second.state_dict()) == bits_of(own));

  // States of version 0.2.0 have no checksum, and with another precision the values differ. In both
  // cases, the slots are loaded and the parameter's values are kept.
  auto checksum = state.integers(name);
  checksum[0] = 16;
  for (const StateDict& loaded : {without(state, name), with(state, name, checksum)}) {
    second.load_state_dict(loaded);
    EXPECT_EQ(other.value(), before);
  }
}

TEST(DeferredRowsState, HasOnlyTouchedRowsOfALargeTable) {
  const Shape shape{40'000, 8};
  for (const bool zero : {true, false}) {
    Parameter table("table", zero ? sparse_zeros(shape) : irregular(shape));
    SGD optimizer({&table}, kMomentum);
    for (int i = 0; i < 20; ++i) step(optimizer, table, {i % 7 * 1000, i % 7 * 1000 + 31}, i);
    const StateDict state = optimizer.state_dict();
    EXPECT_EQ(state.shape("table.momentum.values"), Shape({14, 8}));
    EXPECT_EQ(state.contains("table.lazy.values.rows"), zero);
    Parameter other("table", table.copy());
    SGD resumed({&other}, kMomentum);
    resumed.load_state_dict(state);
    step(optimizer, table, {5, 31});
    step(resumed, other, {5, 31});
    EXPECT_TRUE(bits_of(other, resumed) == bits_of(table, optimizer)) << zero;
  }
}

TEST(DeferredRowsState, InvalidSparseRowsAreRejected) {
  const Shape shape{40'000, 8};
  StateDict state;
  Tensor table = sparse_zeros(shape);
  table(3, 1) = 2;
  table(7, 0) = -0.0F;  // has a nonzero bit
  put_table(state, "x", table);
  EXPECT_EQ(state.integers("x.rows"), Integers({3, 7}));
  EXPECT_EQ(get_table(state, "x", shape), table);
  EXPECT_TRUE(std::signbit(get_table(state, "x", shape)(7, 0)));
  for (const Integers& rows : {Integers{7, 3}, {3, 3}, {-1, 3}, {3, 40'000}})
    EXPECT_INVALID(
        "load_state_dict: invalid row indices of 'x', expected increasing indices from 0 to 39999",
        get_table(with(state, "x.rows", rows), "x", shape));
  EXPECT_INVALID("load_state_dict: 'x' is in sparse form, expected a tensor of shape [40000]",
                 get_table(state, "x", {40'000}));
  EXPECT_INVALID("StateDict: \"x.values\" has shape [2, 8], expected [1, 8]",
                 get_table(with(state, "x.rows", Integers{3}), "x", shape));
  EXPECT_INVALID("StateDict: \"x.values\" is missing",
                 get_table(without(state, "x.values"), "x", shape));
  EXPECT_INVALID("StateDict: \"x.values\" has shape [2, 8], expected [2, 9]",
                 get_table(state, "x", {40'000, 9}));
  EXPECT_INVALID("load_state_dict: 'x' is present in both dense and sparse form",
                 get_table(with(state, "x", table), "x", shape));
  StateDict small;
  put_table(small, "x", zeros({3, 2}));
  EXPECT_EQ(small.names(), std::vector<std::string>{"x"});
}

TEST(DeferredRowsState, InvalidRowStepsAreRejected) {
  Parameter table("table", irregular({200'000, 2}));
  SGD first({&table}, kMomentum);
  train(first, table, 0, 9);
  Parameter other("table", table.copy());
  SGD second({&other}, kMomentum);
  const StateDict state = first.state_dict();
  const std::string at = "table.lazy.at", rows = at + ".rows", values = at + ".values";
  ASSERT_EQ(state.integers(rows), Integers({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12}));
  const std::string rise =
      "load_state_dict: invalid row indices of 'at', expected increasing indices from 0 to 199999";
  const auto few = [&](std::int64_t last) { return Integers{last, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9}; };
  const std::vector<std::tuple<std::string, Integers, std::string>> refusals{
      {rows, few(0), rise},
      {rows, few(-1), rise},
      {rows, Integers{1}, "load_state_dict: 'at.values' has 11 elements, expected 1"},
      {values, few(10),
       "SGD::load_state_dict: 'table.lazy.at' has 10, expected a number from 0 to 9"},
      {values, few(-1),
       "SGD::load_state_dict: 'table.lazy.at' has -1, expected a number from 0 to 9"},
      {at, Integers(200'000), "load_state_dict: 'at' is present in both dense and sparse form"}};
  for (const auto& [name, integers, message] : refusals) {
    const StateDict wrong = with(state, name, integers);
    EXPECT_INVALID(message, second.load_state_dict(wrong));
  }
  second.load_state_dict(state);
  EXPECT_TRUE(bits_of(second.state_dict()) == bits_of(state));
  step(first, table, {5, 31});
  step(second, other, {5, 31});
  EXPECT_TRUE(bits_of(other, second) == bits_of(table, first));
}

TEST(DeferredRowsState, InvalidStateIsRejected) {
  Parameter table("table", irregular({4, 2})), bias("table", zeros({4}));
  SGD optimizer({&table}, kMomentum), of_bias({&bias}, kMomentum);
  for (int i = 0; i < 3; ++i) step(optimizer, table, {i}, i);
  const StateDict good = optimizer.state_dict();
  ASSERT_EQ(good.integers("table.lazy.steps"), Integers{3});

  const std::string dict = "StateDict: \"table.",
                    sgd = "SGD::load_state_dict: ", at = sgd + "'table.lazy.at'",
                    steps = sgd + "'table.lazy.steps' has ";
  const std::vector<std::tuple<std::string, StateDict::Value, std::string>> refusals{
      {"lazy.at", StateDict::Integers{{4}, {4, 4, 4, 4}},
       at + " has 4, expected a number from 0 to 3"},
      {"lazy.at", StateDict::Integers{{3}, {0, 0, 0}}, at + " has 3 values, expected 4"},
      {"lazy.rules", full({1, 6}, NAN), sgd + "'table.lazy.rules' has nan, expected finite values"},
      // More steps than the optimizer has made.
      {"lazy.steps", StateDict::Integers{{1}, {16777215}},
       steps + "16777215, expected a number from 1 to 3"},
      {"lazy.steps", StateDict::Integers{{1}, {0}}, steps + "0, expected a number from 1 to 3"},
      {"step", StateDict::Integers{{}, {2}}, steps + "3, expected a number from 1 to 2"},
      {"momentum", zeros({3}), dict + "momentum\" has shape [3], expected [4, 2]"},
      {"unknown", "zeros", sgd + "unexpected name \"table.unknown\""}};
  for (const auto& [name, value, message] : refusals) {
    const StateDict wrong = with(good, "table." + name, value);
    EXPECT_INVALID(message, optimizer.load_state_dict(wrong));
  }
  EXPECT_INVALID(steps + "2, expected a number from 1 to 1",
                 optimizer.load_state_dict(with(with(good, "table.lazy.steps", Integers{2, 2}),
                                                "table.lazy.rules", full({2, 6}, 0.5))));
  EXPECT_INVALID(sgd + "'table' is not a table, but its state has deferred steps",
                 of_bias.load_state_dict(with(good, "table.momentum", zeros({4}))));
  SGD ambiguous({&table, &bias});
  EXPECT_INVALID(sgd + "two parameters are named table, expected unique names",
                 ambiguous.load_state_dict({}));
  EXPECT_INVALID("SGD::state_dict: two parameters are named table, expected unique names",
                 ambiguous.state_dict());
}

}  // namespace
