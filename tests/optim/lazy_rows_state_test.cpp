// Rows that are owed updates, saved and loaded: what resumable_test.cpp does not know of them.

#include "tests/optim/optimizers.hpp"

namespace {

class LazyRowsState : public ::testing::TestWithParam<OptimizerCase> {
 protected:
  static std::unique_ptr<Optimizer> make(Parameter& table) {
    return make_optimizer(GetParam().options, table);
  }
};

INSTANTIATE_TEST_SUITE_P(EachRule, LazyRowsState, ::testing::ValuesIn(kEachRule),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(LazyRowsState, ComesBackOnlyIfTheNumbersAreTheirs) {
  Parameter table("table", irregular({13, 9}));
  const auto first = make(table);
  train(*first, table, 0, 30);
  const Checkpoint state = first->state_dict();
  Parameter other("table", irregular({13, 9}, 5));
  const Tensor before = other.value();
  const auto optimizer = make(other);
  const Checkpoint own = optimizer->state_dict();
  const auto error = [&](const Checkpoint& loaded) {
    return error_of<std::invalid_argument>([&] { optimizer->load_state_dict(loaded); });
  };
  EXPECT_HAS(error(state),
             "::load_state_dict: 'table' has other values than when the state was "
             "saved: load those of the model first");
  const std::string name = "table.lazy.checksum";
  EXPECT_HAS(error(with(state, name, std::vector<std::int64_t>{1, 2, 3})),
             "::load_state_dict: 'table.lazy.checksum' has 3 numbers, expected 2");
  EXPECT_TRUE(bits_of(optimizer->state_dict()) == bits_of(own));
  EXPECT_EQ(other.value(), before);

  // Version 0.2.0 had no checksum, and in the other library there are other numbers: the states are
  // used, the values are not.
  auto checksum = state.integers(name);
  checksum[0] = 16;
  for (const Checkpoint& loaded : {without(state, name), with(state, name, checksum)}) {
    optimizer->load_state_dict(loaded);
    EXPECT_EQ(other.value(), before);
  }
}

TEST_P(LazyRowsState, ComesBackRowByRow) {
  // One row is NaN, another was changed since: neither affects the other rows.
  Parameter whole("table", irregular({13, 9}));
  const auto whole_optimizer = make(whole);
  Tensor not_numbers = full({1, 9}, NAN);
  const std::vector<std::int32_t> fourth{4}, seventh{7};
  train(*whole_optimizer, whole, 0, 30);
  whole.assign_rows(fourth, not_numbers);
  train(*whole_optimizer, whole, 30, 35);

  const Tensor value = whole.value();
  Parameter resumed("table", value);
  const auto optimizer = make(resumed);
  resumed.assign_rows(seventh, irregular({1, 9}, 3));
  // As version 0.2.0 saved it.
  optimizer->load_state_dict(without(whole_optimizer->state_dict(), "table.lazy.checksum"));
  EXPECT_EQ(resumed.rows(seventh), irregular({1, 9}, 3));
  whole.assign_rows(seventh, irregular({1, 9}, 3));

  train(*whole_optimizer, whole, 35, 50);
  train(*optimizer, resumed, 35, 50);
  EXPECT_TRUE(bits_of(resumed, *optimizer) == bits_of(whole, *whole_optimizer));
}

// Of a large table whose optimizer has touched few rows, only those are saved.
TEST_P(LazyRowsState, LeavesOutRowsThatWereNeverTouched) {
  constexpr std::size_t kRows = 40'000, kWidth = 8;
  const Shape shape{kRows, kWidth};
  const auto steps = [&](Optimizer& optimizer, Parameter& table, int from, int to) {
    for (int i = from; i < to; ++i) step(optimizer, table, {i % 7 * 1000, i % 7 * 1000 + 31}, i);
  };
  for (const bool zero : {true, false}) {
    const Tensor start = zero ? sparse_zeros(shape) : irregular(shape);
    Parameter table("table", start);
    const auto optimizer = make(table);
    steps(*optimizer, table, 0, 20);
    const Tensor value = table.copy();
    const Checkpoint state = optimizer->state_dict();
    Checkpoint whole = state;  // as if it had been saved with all rows
    std::size_t in_rows = 0;
    for (const std::string& name : state.names()) {
      if (!name.ends_with(".rows")) continue;
      const std::string tensor = name.substr(0, name.size() - 5);
      EXPECT_EQ(state.shape(tensor + ".values"), Shape({14, kWidth})) << name;
      whole.erase(name);
      whole.erase(tensor + ".values");
      whole.put(tensor, rows_in(state, tensor, shape));
      ++in_rows;
    }
    EXPECT_EQ(state.contains("table.lazy.values.rows"), zero);
    // With decay, Adagrad and RMSprop replay steps, so rows of numbers do not stay without states.
    const std::string name = GetParam().name;
    const bool replays = name == "rmsprop" || name == "adagrad";
    const std::size_t states = name == "sgd" ? 0 : replays ? zero : 2;
    EXPECT_EQ(in_rows, states + (zero ? 1 : 0));

    steps(*optimizer, table, 20, 30);
    for (const Checkpoint& saved : {state, whole}) {
      Parameter other("table", value);
      const auto resumed = make(other);
      resumed->load_state_dict(saved);
      EXPECT_TRUE(bits_of(resumed->state_dict()) == bits_of(state));
      steps(*resumed, other, 20, 30);
      EXPECT_TRUE(bits_of(other, *resumed) == bits_of(table, *optimizer)) << zero;
    }
  }
}

TEST(LazyRowsStateOf, RowsThatDoNotFitAreRefused) {
  const Shape shape{40'000, 8};
  Checkpoint state;
  Tensor table = sparse_zeros(shape);
  table(3, 1) = 2;
  table(7, 0) = -0.0F;  // not all bits are zeros
  put_rows(state, "x", table);
  EXPECT_EQ(state.integers("x.rows"), std::vector<std::int64_t>({3, 7}));
  EXPECT_EQ(rows_in(state, "x", shape), table);
  EXPECT_TRUE(std::signbit(rows_in(state, "x", shape)(7, 0)));
  for (const std::vector<std::int64_t>& rows :
       {std::vector<std::int64_t>{7, 3}, {3, 3}, {-1, 3}, {3, 40'000}})
    EXPECT_INVALID("load_state_dict: the row numbers of 'x' do not rise from 0 to 39999 at most",
                   rows_in(with(state, "x.rows", rows), "x", shape));
  EXPECT_INVALID("load_state_dict: 'x' is there in rows, expected [40000]",
                 rows_in(state, "x", {40'000}));
  EXPECT_THROW(rows_in(with(state, "x.rows", std::vector<std::int64_t>{3}), "x", shape),
               std::invalid_argument);
  EXPECT_THROW(rows_in(without(state, "x.values"), "x", shape), std::invalid_argument);
  EXPECT_THROW(rows_in(state, "x", {40'000, 9}), std::invalid_argument);
  state.put("x", table);
  EXPECT_INVALID("load_state_dict: 'x' is there as a whole and in rows",
                 rows_in(state, "x", shape));
  Checkpoint small;
  put_rows(small, "x", zeros({3, 2}));
  EXPECT_EQ(small.names(), std::vector<std::string>{"x"});
}

TEST(LazyRowsStateOf, AStateThatDoesNotFitAreRefusedBeforeAnythingChanges) {
  Parameter table("table", irregular({4, 2}));
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 3; ++i) step(optimizer, table, {i}, i);
  const Checkpoint good = optimizer.state_dict();
  using Integers = std::vector<std::int64_t>;
  using Array = Checkpoint::Integers;
  ASSERT_EQ(good.integers("table.lazy.steps"), Integers{3});

  const std::string checkpoint = "Checkpoint: \"table.",
                    at = "SGD::load_state_dict: 'table.lazy.at'";
  const std::string steps = "SGD::load_state_dict: 'table.lazy.steps' has ";
  const std::vector<std::tuple<std::string, Checkpoint::Value, std::string>> refusals{
      {"lazy.at", Array{{4}, {4, 4, 4, 4}}, at + " has 4, expected a number from 0 to 3"},
      {"lazy.at", Array{{4}, {0, 1, 2, -1}}, at + " has -1, expected a number from 0 to 3"},
      {"lazy.at", Array{{3}, {0, 0, 0}}, at + " has 3 numbers, expected 4"},
      {"lazy.at", Array{{5}, {0, 0, 0, 0, 0}}, at + " has 5 numbers, expected 4"},
      {"lazy.at", full({4}, 0.5), checkpoint + "lazy.at\" is not an array of whole numbers"},
      {"lazy.values", zeros({4, 3}),
       checkpoint + "lazy.values\" has shape [4, 3], expected [4, 2]"},
      {"lazy.rules", full({1, 3}, 1),
       checkpoint + "lazy.rules\" has shape [1, 3], expected [1, 6]"},
      {"lazy.rules", full({1, 6}, NAN), "SGD::load_state_dict: 'table.lazy.rules' has nan"},
      // Otherwise, rows would be replayed that often.
      {"lazy.steps", Array{{1}, {16777215}}, steps + "16777215, expected a number from 1 to 3"},
      {"lazy.steps", Array{{1}, {0}}, steps + "0, expected a number from 1 to 3"},
      {"lazy.steps", Array{{2}, {2, 1}},
       checkpoint + "lazy.rules\" has shape [1, 6], expected [2, 6]"},
      {"step", Array{{}, {-1}}, checkpoint + "step\" is -1, expected a number not below 0"},
      {"step", Array{{}, {2}}, steps + "3, expected a number from 1 to 2"}};
  for (const auto& [name, value, message] : refusals) {
    const Checkpoint wrong = with(good, "table." + name, value);
    EXPECT_INVALID(message, optimizer.load_state_dict(wrong));
  }
  EXPECT_INVALID(steps + "2, expected a number from 1 to 1",
                 optimizer.load_state_dict(with(with(good, "table.lazy.steps", Integers{2, 2}),
                                                "table.lazy.rules", full({2, 6}, 0.5))));
  EXPECT_INVALID("SGD::load_state_dict: there is no parameter for \"other.lazy.at\"",
                 optimizer.load_state_dict(with(good, "other.lazy.at", Integers(4, 0))));
  EXPECT_INVALID("Checkpoint: \"table.lazy.at\" is missing",
                 optimizer.load_state_dict(without(good, "table.lazy.at")));
  EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(good));

  Parameter bias("table", zeros({4}));
  SGD other({&bias}, kMomentum);
  EXPECT_INVALID("SGD::load_state_dict: 'table' is no table, but its state has lazy rows",
                 other.load_state_dict(without(good, "table.momentum")));
  EXPECT_EQ(other.state_dict().names(), std::vector<std::string>{"table.step"});
}

}  // namespace
