#include "tests/test.hpp"

namespace {

TEST(Parameter, StartsTrainableAndWithoutGradient) {
  Parameter weight("token.weight", tensor({2}, {3, 4}));
  EXPECT_EQ(weight.name(), "token.weight");
  EXPECT_EQ(weight.value(), tensor({2}, {3, 4}));
  EXPECT_TRUE(weight.trainable());
  EXPECT_TRUE(weight.gradient().is_none());
  weight.rename("head.weight");
  EXPECT_EQ(weight.name(), "head.weight");
}

TEST(Parameter, CountsChangesOfItsValueButNotReadingOrGradients) {
  Parameter weight("weight", zeros({2}));
  const std::uint64_t start = weight.version();
  weight.value();
  weight.add_gradient(full({2}, 1));
  weight.zero_gradient();
  EXPECT_EQ(weight.version(), start);
  weight.mutable_values()[1] = 5;
  EXPECT_EQ(weight.version(), start + 1);
  EXPECT_EQ(weight.value(), tensor({2}, {0, 5}));
  weight.assign(tensor({2}, {6, 7}));
  EXPECT_EQ(weight.version(), start + 2);
  EXPECT_EQ(weight.value(), tensor({2}, {6, 7}));
}

TEST(Parameter, AddsGradientsUpUntilTheyAreCleared) {
  Parameter weight("weight", zeros({3, 1}));
  weight.add_gradient(RowGradient({3, 1}, {2}, full({1, 1}, 4)));
  weight.add_gradient(Gradient());
  EXPECT_TRUE(weight.gradient().is_rows());
  weight.add_gradient(full({3, 1}, 1));
  EXPECT_EQ(weight.gradient().dense(), tensor({3, 1}, {1, 1, 5}));
  weight.zero_gradient();
  EXPECT_TRUE(weight.gradient().is_none());
}

TEST(Parameter, RefusesValuesAndGradientsOfAnotherShape) {
  Parameter weight("head.weight", tensor({2}, {3, 4}));
  const std::uint64_t version = weight.version();
  EXPECT_INVALID("head.weight: the new value has shape [2, 1], expected [2]",
                 weight.assign(zeros({2, 1})));
  EXPECT_INVALID("head.weight: a gradient of shape [3] was given, expected [2]",
                 weight.add_gradient(zeros({3})));
  EXPECT_EQ(weight.value(), tensor({2}, {3, 4}));
  EXPECT_EQ(weight.version(), version);
  EXPECT_TRUE(weight.gradient().is_none());
}

TEST(Parameter, RefusesRowsThatItCannotHave) {
  EXPECT_INVALID("x: its rows are null, expected some",
                 Parameter("x", std::unique_ptr<ParameterStorage>()));
  Parameter table("x", zeros({4, 2}));
  const auto assign = [&](const std::vector<std::int32_t>& ids, const Tensor& values) {
    table.assign_rows(ids, values);
  };
  EXPECT_INVALID("x: id 1 at [2] follows 1, expected strictly increasing ids",
                 assign({0, 1, 1}, full({3, 2}, 1)));
  EXPECT_INVALID("x: the values have shape [2, 3], expected [2, 2]",
                 assign({0, 1}, full({2, 3}, 1)));
  EXPECT_EQ(table.value(), zeros({4, 2}));
}

TEST(Parameter, GivesUpToDateValuesAgainAfterEachChange) {
  const Tensor start = irregular({4, 2});
  for (const bool read_before_first_step : {true, false}) {
    Parameter table("table", start);
    Parameter dense("dense", start);
    SGD sgd({&table, &dense}, {.learning_rate = 0.1, .momentum = 0.9});
    const auto step = [&](std::int32_t row) {
      const RowGradient gradient({4, 2}, {row}, full({1, 2}, 1));
      sgd.zero_grad();
      table.add_gradient(gradient);
      dense.add_gradient(gradient.to_dense());
      sgd.step();
    };
    if (read_before_first_step) {
      EXPECT_EQ(table.value(), start);
    }
    for (std::int32_t row = 0; row < 4; ++row) {
      const Tensor before = table.copy();
      step(row);
      EXPECT_EQ(table.copy(), table.value());
      EXPECT_NE(table.value(), before);
      expect_near(table.value(), dense.value(), 1e-5);
      EXPECT_EQ(&table.value(), &table.value());
      EXPECT_EQ(table.value().shape(), start.shape());
      EXPECT_EQ(table.value(), table.rows(std::vector<std::int32_t>{0, 1, 2, 3}));
    }
    table.mutable_values()[0] = 7;
    EXPECT_EQ(table.value()(0, 0), 7);
    const Tensor changed = table.value();
    step(1);
    EXPECT_NE(table.value(), changed);
    EXPECT_EQ(table.copy(), table.value());
  }
}

#if !defined(NDEBUG) || defined(ROWGRAD_ADDRESS_SANITIZER)
TEST(Parameter, LeavesNothingToReadInAStaleCopyOfItsValues) {
  Parameter table("table", zeros({4, 2}));
  SGD sgd({&table}, {.learning_rate = 0.1, .momentum = 0.9});
  const Tensor* values = nullptr;
  for (std::int32_t row = 0; row < 2; ++row) {
    table.zero_gradient();
    table.add_gradient(RowGradient({4, 2}, {row}, full({1, 2}, 1)));
    sgd.step();
    if (values != nullptr) {
      EXPECT_EQ(values->size(), 0U);
    }
    values = &table.value();
    EXPECT_EQ(values->size(), 8U);
  }
}
#endif

// The most memory that training may use, in tables: the table, its momentum, and little else.
constexpr double kTables = 2.5;
constexpr Shape::value_type kRows = 100'000;

void train(SGD& sgd, Parameter& table) {
  for (std::int32_t row = 0; row < 3; ++row) {
    table.zero_gradient();
    table.add_gradient(RowGradient({kRows, 8}, {row}, full({1, 8}, 1)));
    table.rows(std::vector<std::int32_t>{1, 2});
    sgd.step();
  }
}

TEST(Parameter, IsNotHeldTwiceIfNobodyReadsItAsAWhole) {
  const auto in_use = [] { return static_cast<double>(BufferPool::statistics().bytes_in_use); };
  const SgdOptions options{.learning_rate = 0.1, .momentum = 0.9};
  const double before = in_use();
  Parameter table("table", zeros({kRows, 8}));
  const double one = in_use() - before;
  SGD sgd({&table}, options);
  train(sgd, table);
  EXPECT_LT(in_use() - before, kTables * one);

  const Tensor numbers = table.value();
  const Checkpoint state = sgd.state_dict();
  const double before_resuming = in_use();
  Parameter resumed("table", numbers);
  SGD resumed_sgd({&resumed}, options);
  resumed_sgd.load_state_dict(state);
  train(resumed_sgd, resumed);
  EXPECT_LT(in_use() - before_resuming, kTables * one);
}

}  // namespace
