#include "tests/test.hpp"

namespace {

// For values printed with all digits: one rounding by sine and cosine, and one to float.
constexpr double kRounding = sizeof(real) == 8 ? 1e-15 : 6e-8;

TEST(Sinusoidal, IsTheTableOfTheTransformerPaper) {
  const Sinusoidal positions(6, 4);
  const double expected[6][4] = {{0, 1, 0, 1},
                                 {.8415, .5403, .0100, .99995},
                                 {.9093, -.4161, .0200, .9998},
                                 {.1411, -.9900, .0300, .99955},
                                 {-.7568, -.6536, .0400, .9992},
                                 {-.9589, .2837, .0500, .9988}};
  ASSERT_EQ(positions.table.value().shape(), (Shape{6, 4}));
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(positions.table.value()(t, i), expected[t][i], 5.1e-5) << t << " " << i;
}

// The table as printed, except for t = 4, column 8, where sin(4 / 5^0.8) = 0.8929172613168825 and
// some copies have ...8166825.
TEST(Sinusoidal, HasThePerColumnTableAsPrinted) {
  const Sinusoidal positions(5, 10, {.base = 5, .scheme = FrequencyScheme::kPerColumn});
  const double expected[5][10] = {
      {0, 1, 0, 1, 0, 1, 0, 1, 0, 1},
      {0.8414709848078965, 0.6589758961876737, 0.66297050495782, 0.8155983039494298,
       0.5014773904169323, 0.9016555951500453, 0.3715990270406081, 0.9479277461957519,
       0.2724572044052023, 0.9725320837941663},
      {0.9092974268256817, -0.13150153648730423, 0.9926597923765998, 0.3304011868103727,
       0.8677271400921646, 0.6259656245307648, 0.6899801114404277, 0.7971340240155157,
       0.5242991535310988, 0.8916373080180467},
      {0.1411200080598672, -0.8322885819012287, 0.8233301012265333, -0.27664900877859255,
       0.9999868910066393, 0.22715522030946758, 0.9095468305649883, 0.5633231714062046,
       0.736470428811671, 0.7617596945166576},
      {-0.7568024953079283, -0.9654146918029564, 0.24010498558729074, -0.7816701115085943,
       0.8625916771558482, -0.21633407381161932, 0.998854298357255, 0.27084530448633765,
       0.8929172613168825, 0.5900341780993384}};
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t i = 0; i < 10; ++i)
      EXPECT_NEAR(positions.table.value()(t, i), expected[t][i], kRounding) << t << " " << i;
}

TEST(Sinusoidal, HasTheFormulaOfFormalAlgorithms) {
  const double base = 7;
  const Sinusoidal positions(
      7, 6, {.base = base, .scheme = FrequencyScheme::kFormalAlgorithms, .first_position = 1});
  for (int t = 1; t <= 7; ++t)
    for (int i = 1; i <= 3; ++i) {
      const double angle = t / std::pow(base, 2.0 * i / 6);
      const auto row = static_cast<std::size_t>(t - 1);
      const auto column = static_cast<std::size_t>(2 * i - 2);
      EXPECT_NEAR(positions.table.value()(row, column), std::sin(angle), kRounding);
      EXPECT_NEAR(positions.table.value()(row, column + 1), std::cos(angle), kRounding);
    }
}

TEST(Sinusoidal, PutsSinesBeforeCosinesInHalves) {
  const Sinusoidal mixed(5, 6);
  const Sinusoidal halves(5, 6, {.layout = SinusoidLayout::kHalves});
  for (std::size_t t = 0; t < 5; ++t)
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(halves.table.value()(t, i), mixed.table.value()(t, 2 * i));
      EXPECT_EQ(halves.table.value()(t, 3 + i), mixed.table.value()(t, 2 * i + 1));
    }
}

TEST(Sinusoidal, EndsWithASineWhereTheWidthIsOdd) {
  for (const auto layout : {SinusoidLayout::kInterleaved, SinusoidLayout::kHalves}) {
    const Sinusoidal positions(4, 5, {.layout = layout});
    for (std::size_t t = 0; t < 4; ++t)
      EXPECT_NEAR(positions.table.value()(t, 4),
                  std::sin(static_cast<double>(t) / std::pow(10000, 4.0 / 5)), kRounding);
  }
  EXPECT_EQ(Sinusoidal(2, 1).table.value().shape(), (Shape{2, 1}));
}

TEST(Sinusoidal, AddsTheFirstRowsToEveryWindow) {
  Tensor x = empty({1, 5, 4});
  for (std::size_t i = 0; i < 20; ++i)
    x.data()[i] = static_cast<real>(0.1 * static_cast<double>(i + 1));
  Sinusoidal positions(6, 4);
  Tape tape;
  const Tensor& y = positions.forward(tape.constant(x)).value();
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(y.data()[i], x.data()[i] + positions.table.value().data()[i]);
}

TEST(Sinusoidal, IsSavedButNeverTrained) {
  Sinusoidal positions(6, 4);
  EXPECT_TRUE(positions.parameters().empty());
  EXPECT_EQ(positions.state_dict().names(), std::vector<std::string>{"table"});
  Tape tape;
  EXPECT_FALSE(positions.forward(tape.constant(zeros({2, 4}))).needs_gradient());
}

TEST(Sinusoidal, RefusesWhatIsLongerThanItsTable) {
  Sinusoidal positions(4, 3);
  Tape tape;
  EXPECT_INVALID("Sinusoidal: length 5 is more than the max_length of 4",
                 positions.forward(tape.constant(zeros({2, 5, 3}))));
  EXPECT_THROW(positions.forward(tape.constant(zeros({4, 4}))), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(0, 4), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 0), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 4, {.base = 0}), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 4, {.base = NAN}), std::invalid_argument);
  EXPECT_INVALID("Sinusoidal: first_position inf must be finite",
                 Sinusoidal(3, 4, {.first_position = HUGE_VAL}));
}

TEST(Sinusoidal, RefusesPositionsBeyondItsTable) {
  Sinusoidal layer(8, 4);
  Tape tape;
  EXPECT_EQ(layer.rows(tape, 8).value(), layer.table.value());
  EXPECT_INVALID("Sinusoidal: length 9 is more than the max_length of 8", layer.rows(tape, 9));
  EXPECT_EQ(layer.rows(tape, 2, 6).shape(), Shape({2, 4}));
  EXPECT_INVALID("Sinusoidal: 3 positions from 6 on exceed the max_length of 8",
                 layer.rows(tape, 3, 6));
  EXPECT_THROW(layer.rows(tape, 2, SIZE_MAX), std::invalid_argument);
  Random random(1);
  PositionalEmbedding learned(8, 4, random);
  EXPECT_INVALID("PositionalEmbedding: 3 positions from 6 on exceed the context of 8",
                 learned.rows(tape, 3, 6));
}

}  // namespace
