// Rows that are owed updates, saved and loaded.

#include "tests/optim/lazy_rows.hpp"

namespace {

template <class Made>
class LazyRowsStateTest : public OfEachOptimizer<Made> {};
TYPED_TEST_SUITE(LazyRowsStateTest, Optimizers);

TYPED_TEST(LazyRowsStateTest, ARunGoesOnFromACheckpointWithTheSameBits) {
  Parameter whole("table", irregular({13, 9}));
  const auto options = TestFixture::options();
  TypeParam whole_optimizer({&whole}, options);
  Parameter stopped("table", irregular({13, 9}));
  auto optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
  const auto nothing = [](int) {};
  train(whole_optimizer, whole, 0, 390, nothing);
  int from = 0;
  for (const int to : {1, 3, 150, 387}) {
    train(*optimizer, stopped, from, to, nothing);
    const Tensor value = stopped.value();
    const Checkpoint state = optimizer->state_dict();
    optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
    stopped.assign(value);
    optimizer->load_state_dict(state);
    from = to;
  }
  train(*optimizer, stopped, from, 390, nothing);
  EXPECT_EQ(whole.value(), stopped.value());
  EXPECT_TRUE(bits_of(whole_optimizer.state_dict()) == bits_of(optimizer->state_dict()));
}

TYPED_TEST(LazyRowsStateTest, ADenseParameterGoesOnFromACheckpointWithTheSameBits) {
  auto options = TestFixture::options();
  if constexpr (requires { options.momentum; }) options.momentum = 0.9;
  Parameter whole("w", irregular({33})), stopped("w", irregular({33}));
  TypeParam whole_optimizer({&whole}, options);
  auto optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
  for (int i = 0; i < 6; ++i) {
    if (i == 3) {
      const Checkpoint state = optimizer->state_dict();
      EXPECT_EQ(state.integer("w.step"), 3);
      optimizer = std::make_unique<TypeParam>(std::vector<Parameter*>{&stopped}, options);
      optimizer->load_state_dict(state);
    }
    for (Parameter* parameter : {&whole, &stopped}) {
      parameter->zero_gradient();
      parameter->add_gradient(irregular({33}, i));
    }
    whole_optimizer.step();
    optimizer->step();
  }
  EXPECT_TRUE(bits_of(whole, whole_optimizer) == bits_of(stopped, *optimizer));
}

TYPED_TEST(LazyRowsStateTest, GoBackToAnEarlierStateWhileTheTableIsLent) {
  Parameter table("table", irregular({13, 9}));
  TypeParam optimizer({&table}, TestFixture::options());
  const auto nothing = [](int) {};
  train(optimizer, table, 0, 30, nothing);
  const Tensor value = table.value();
  const Checkpoint state = optimizer.state_dict();
  train(optimizer, table, 30, 60, nothing);
  const Tensor expected = table.value();
  train(optimizer, table, 60, 70, nothing);
  table.assign(value);
  train(optimizer, table, 60, 65, nothing);  // lent again
  EXPECT_THROW(optimizer.load_state_dict(state), std::invalid_argument);
  table.assign(value);
  optimizer.load_state_dict(state);
  train(optimizer, table, 30, 60, nothing);
  EXPECT_EQ(table.value(), expected);
}

TYPED_TEST(LazyRowsStateTest, ComeBackOnlyIfTheNumbersAreTheirs) {
  Parameter table("table", irregular({13, 9}));
  TypeParam first({&table}, TestFixture::options());
  train(first, table, 0, 30, [](int) {});
  const Checkpoint state = first.state_dict();
  Parameter other("table", irregular({13, 9}, 5));
  const Tensor before = other.value();
  TypeParam optimizer({&other}, TestFixture::options());
  const Checkpoint own = optimizer.state_dict();
  const auto error = [&](const Checkpoint& loaded) {
    return error_of<std::invalid_argument>([&] { optimizer.load_state_dict(loaded); });
  };
  EXPECT_HAS(error(state),
             "::load_state_dict: 'table' has other values than when the state was "
             "saved: load those of the model first");
  const std::string name = "table.lazy.checksum";
  EXPECT_HAS(error(with(state, name, std::vector<std::int64_t>{1, 2, 3})),
             "::load_state_dict: 'table.lazy.checksum' has 3 numbers, expected 2");
  EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(own));
  EXPECT_EQ(other.value(), before);

  // Version 0.2.0 had no checksum, and in the other library there are other numbers: the states are
  // used, the values are not.
  auto checksum = state.integers(name);
  checksum[0] = 16;
  for (const Checkpoint& loaded : {without(state, name), with(state, name, checksum)}) {
    optimizer.load_state_dict(loaded);
    EXPECT_EQ(other.value(), before);
  }
}

TYPED_TEST(LazyRowsStateTest, ComeBackRowByRow) {
  // One row is NaN, another was changed since: neither affects the other rows.
  Parameter whole("table", irregular({13, 9}));
  TypeParam whole_optimizer({&whole}, TestFixture::options());
  Tensor not_numbers = full({1, 9}, NAN);
  const std::vector<std::int32_t> fourth{4}, seventh{7};
  train(whole_optimizer, whole, 0, 30, [](int) {});
  whole.assign_rows(fourth, not_numbers);
  train(whole_optimizer, whole, 30, 35, [](int) {});

  const Tensor value = whole.value();
  Parameter resumed("table", value);
  TypeParam optimizer({&resumed}, TestFixture::options());
  resumed.assign_rows(seventh, irregular({1, 9}, 3));
  // As version 0.2.0 saved it.
  optimizer.load_state_dict(without(whole_optimizer.state_dict(), "table.lazy.checksum"));
  EXPECT_EQ(resumed.rows(seventh), irregular({1, 9}, 3));
  whole.assign_rows(seventh, irregular({1, 9}, 3));

  train(whole_optimizer, whole, 35, 50, [](int) {});
  train(optimizer, resumed, 35, 50, [](int) {});
  EXPECT_TRUE(bits_of(resumed, optimizer) == bits_of(whole, whole_optimizer));
}

// A gradient that is NaN poisons entry 3 of two rows and of their states: from then on, row 0 is
// only owed steps, and row 4 is looked up again and again.
template <class Made>
void expect_to_resume_with_a_row_that_is_no_number(const typename Made::Options& options) {
  Tensor poison = irregular({2, 9});
  poison(0, 3) = poison(1, 3) = NAN;
  const auto is_poisoned = [](std::size_t row, std::size_t i) {
    return (row == 0 || row == 4) && i == 3;
  };
  for (const int until : {30, 31, 33, 150}) {
    SCOPED_TRACE(until);
    Parameter whole("table", irregular({13, 9}));
    Made whole_optimizer({&whole}, options);
    train(whole_optimizer, whole, 0, 30, [](int) {});
    whole_optimizer.zero_grad();
    whole.add_gradient(RowGradient({13, 9}, {0, 4}, poison));
    whole_optimizer.step();
    train(whole_optimizer, whole, 30, until, [](int) {});

    const Tensor value = whole.copy();
    const Checkpoint state = whole_optimizer.state_dict();
    ASSERT_TRUE(state.contains("table.lazy.values"));
    std::size_t tables = 0;
    for (const std::string& name : state.names()) {
      const auto* tensor = std::get_if<Tensor>(&state.at(name));
      if (tensor == nullptr || tensor->shape() != value.shape()) continue;
      ++tables;
      for (std::size_t row = 0; row < 13; ++row)
        for (std::size_t i = 0; i < 9; ++i)
          ASSERT_EQ(std::isnan((*tensor)(row, i)), is_poisoned(row, i)) << name << " at " << row;
    }
    ASSERT_GE(tables, 2U);  // the table and a state of it

    Parameter resumed("table", value);
    Made optimizer({&resumed}, options);
    optimizer.load_state_dict(state);
    EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(state));
    train(whole_optimizer, whole, until, until + 40, [](int) {});
    train(optimizer, resumed, until, until + 40, [](int) {});
    EXPECT_TRUE(bits_of(resumed, optimizer) == bits_of(whole, whole_optimizer));
  }
}

// Of a large table whose optimizer has touched few rows, only those are saved.
TYPED_TEST(LazyRowsStateTest, LeavesOutRowsThatWereNeverTouched) {
  constexpr std::size_t kRows = 40'000, kWidth = 8;
  const Shape shape{kRows, kWidth};
  const auto step = [&](Optimizer& optimizer, Parameter& table, int number) {
    optimizer.zero_grad();
    const std::int32_t first = number % 7 * 1000;
    table.add_gradient(RowGradient(shape, {first, first + 31}, irregular({2, kWidth}, number)));
    optimizer.step();
  };
  for (const bool zero : {true, false}) {
    const Tensor start = zero ? sparse_zeros(shape) : irregular(shape);
    Parameter table("table", start);
    TypeParam optimizer({&table}, TestFixture::options());
    for (int i = 0; i < 20; ++i) step(optimizer, table, i);
    Checkpoint model;
    model.put("table", table.copy());
    const Checkpoint state = optimizer.state_dict();
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
    const bool replays = std::is_same_v<TypeParam, RMSprop> || std::is_same_v<TypeParam, Adagrad>;
    const std::size_t states = std::is_same_v<TypeParam, SGD> ? 0 : replays ? zero : 2;
    EXPECT_EQ(in_rows, states + (zero ? 1 : 0));

    for (int i = 20; i < 30; ++i) step(optimizer, table, i);
    for (const Checkpoint& saved : {state, whole}) {
      Parameter other("table", model.tensor("table", shape));
      TypeParam resumed({&other}, TestFixture::options());
      resumed.load_state_dict(saved);
      EXPECT_TRUE(bits_of(resumed.state_dict()) == bits_of(state));
      for (int i = 20; i < 30; ++i) step(resumed, other, i);
      EXPECT_TRUE(bits_of(other, resumed) == bits_of(table, optimizer)) << zero;
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

TEST(LazyRowsStateOf, ATableWithNaNComeBackBitForBit) {
  expect_to_resume_with_a_row_that_is_no_number<SGD>(kMomentum);
  expect_to_resume_with_a_row_that_is_no_number<Adam>(kAdam);
  expect_to_resume_with_a_row_that_is_no_number<AdamW>({});
  expect_to_resume_with_a_row_that_is_no_number<RMSprop>({.momentum = 0.9});
}

TEST(LazyRowsStateOf, AStateThatDoesNotFitAreRefusedBeforeAnythingChanges) {
  Parameter table("table", irregular({4, 2}));
  SGD optimizer({&table}, kMomentum);
  for (int i = 0; i < 3; ++i) step(optimizer, table, {i}, i);
  const Checkpoint good = optimizer.state_dict();
  const auto error = [](Optimizer& loading, const Checkpoint& state) {
    return error_of<std::invalid_argument>([&] { loading.load_state_dict(state); });
  };
  const auto message = [&](const std::string& name, auto value) {
    return error(optimizer, with(good, name, std::move(value)));
  };
  using Integers = std::vector<std::int64_t>;
  ASSERT_EQ(good.integers("table.lazy.steps"), Integers{3});

  const std::string wrong_at = "SGD::load_state_dict: 'table.lazy.at' has ";
  EXPECT_EQ(message("table.lazy.at", Integers(4, 4)),
            wrong_at + "4, expected a number from 0 to 3");
  EXPECT_EQ(message("table.lazy.at", Integers{0, 1, 2, -1}),
            wrong_at + "-1, expected a number from 0 to 3");
  EXPECT_EQ(message("table.lazy.at", Integers(3, 0)), wrong_at + "3 numbers, expected 4");
  EXPECT_EQ(message("table.lazy.at", Integers(5, 0)), wrong_at + "5 numbers, expected 4");
  EXPECT_EQ(message("table.lazy.at", full({4}, 0.5)),
            "Checkpoint: \"table.lazy.at\" is not an array of whole numbers");
  EXPECT_EQ(message("table.lazy.values", zeros({4, 3})),
            "Checkpoint: \"table.lazy.values\" has shape [4, 3], expected [4, 2]");
  EXPECT_EQ(message("table.lazy.rules", full({1, 3}, 1)),
            "Checkpoint: \"table.lazy.rules\" has shape [1, 3], expected [1, 6]");
  EXPECT_EQ(message("table.lazy.rules", full({1, 6}, NAN)),
            "SGD::load_state_dict: 'table.lazy.rules' has nan");
  // Otherwise, rows would be replayed that often.
  const std::string wrong_steps = "SGD::load_state_dict: 'table.lazy.steps' has ";
  EXPECT_EQ(message("table.lazy.steps", Integers{16777215}),
            wrong_steps + "16777215, expected a number from 1 to 3");
  EXPECT_EQ(message("table.lazy.steps", Integers{0}),
            wrong_steps + "0, expected a number from 1 to 3");
  EXPECT_EQ(error(optimizer, with(with(good, "table.lazy.steps", Integers{2, 2}),
                                  "table.lazy.rules", full({2, 6}, 0.5))),
            wrong_steps + "2, expected a number from 1 to 1");
  EXPECT_EQ(message("table.lazy.steps", Integers{2, 1}),
            "Checkpoint: \"table.lazy.rules\" has shape [1, 6], expected [2, 6]");
  EXPECT_EQ(message("table.step", -1),
            "Checkpoint: \"table.step\" is -1, expected a number not below 0");
  EXPECT_EQ(message("table.step", 2), wrong_steps + "3, expected a number from 1 to 2");
  EXPECT_EQ(message("other.lazy.at", Integers(4, 0)),
            "SGD::load_state_dict: there is no parameter for \"other.lazy.at\"");
  for (const std::string name :
       {"table.lazy.values", "table.lazy.at", "table.lazy.steps", "table.lazy.rules", "table.step"})
    EXPECT_EQ(error(optimizer, without(good, name)),
              concat("Checkpoint: \"", name, "\" is missing"));
  EXPECT_TRUE(bits_of(optimizer.state_dict()) == bits_of(good));

  Parameter bias("table", zeros({4}));
  SGD other({&bias}, kMomentum);
  EXPECT_EQ(error(other, without(good, "table.momentum")),
            "SGD::load_state_dict: 'table' is no table, but its state has lazy rows");
  EXPECT_EQ(other.state_dict().names(), std::vector<std::string>{"table.step"});
}

}  // namespace
