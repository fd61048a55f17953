#include "tests/test.hpp"

namespace {

// The largest rounding error of a sine or cosine, computed in double and rounded to `real`.
constexpr double kRounding = sizeof(real) == 8 ? 1e-15 : 6e-8;

TEST(Sinusoidal, FollowsTheFormulaOfEachScheme) {
  for (const std::size_t width : {1U, 5U, 6U})
    for (const auto scheme : {FrequencyScheme::kPaired, FrequencyScheme::kFormalAlgorithms,
                              FrequencyScheme::kPerColumn}) {
      const Sinusoidal positions(7, width, {.base = 5, .scheme = scheme, .first_position = 1});
      expect_entries(
          positions.table.value(), {7, width},
          [&](const Index& at) {
            const std::size_t pair = at[1] - at[1] % 2;
            const std::size_t power = scheme == FrequencyScheme::kPaired             ? pair
                                      : scheme == FrequencyScheme::kFormalAlgorithms ? pair + 2
                                                                                     : at[1];
            const double exponent = static_cast<double>(power) / static_cast<double>(width);
            const double angle = static_cast<double>(at[0] + 1) / std::pow(5, exponent);
            return at[1] % 2 == 0 ? std::sin(angle) : std::cos(angle);
          },
          [](const Index&, double) { return kRounding; });
    }
}

TEST(Sinusoidal, HalvesLayoutPutsSinesFirst) {
  for (const std::size_t width : {1U, 5U, 6U}) {
    const Sinusoidal halves(5, width, {.layout = SinusoidLayout::kHalves});
    // These are the defaults, and follow Vaswani et al. 2017.
    const SinusoidalOptions paper{
        .base = 10000, .scheme = FrequencyScheme::kPaired, .first_position = 0};
    const Sinusoidal mixed(5, width, paper);
    for (std::size_t t = 0; t < 5; ++t)
      for (std::size_t i = 0; i < width; ++i) {
        const std::size_t to = i == width / 2 * 2 ? i : i % 2 * (width / 2) + i / 2;
        EXPECT_EQ(halves.table.value()(t, to), mixed.table.value()(t, i));
      }
  }
}

TEST(Positions, AddFirstRowsToEveryWindow) {
  Random random(7), same(7);
  PositionalEmbedding learned(4, 3, random, {.init_std = 2});
  Sinusoidal fixed(4, 3);
  EXPECT_EQ(learned.weight.value(), same.normal({4, 3}, 0, 2));
  EXPECT_EQ(fixed.state_dict().names(), std::vector<std::string>{"table"});
  EXPECT_TRUE(fixed.parameters().empty());
  Tape tape;
  const Variable x = tape.constant(counting({2, 3, 3}));
  const auto expect_sum = [&](const Variable& y, const Tensor& table) {
    expect_exact(y.value(), {2, 3, 3}, [&](const Index& at) {
      return x.value()(at[0], at[1], at[2]) + table(at[1], at[2]);
    });
  };
  const Variable y = learned.forward(x);
  expect_sum(y, learned.weight.value());
  expect_sum(fixed.forward(x), fixed.table.value());
  EXPECT_FALSE(fixed.forward(x).needs_gradient());
  tape.backward(sum(y));
  const RowGradient& rows = learned.weight.gradient().rows();
  EXPECT_EQ(rows.indices(), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(rows.values(), full({3, 3}, 2));  // each row is used in two windows
}

TEST(Positions, FusedAdditionEqualsSeparateAddition) {
  for (const bool scaled : {false, true}) {
    Random random(3);
    Embedding token(7, 4, random, {.scale_by_sqrt_width = scaled, .max_norm = 0.5});
    PositionalEmbedding position(3, 4, random);
    Tape tape;
    const Ids text = ids({2, 3}, {0, 1, 2, 2, 2, 6});
    EXPECT_EQ(token.forward(tape, text, position.rows(tape, 3)).value(),
              position.forward(token.forward(tape, text)).value());
  }
}

TEST(Positions, RejectInputLongerThanTheTable) {
  Random random(1);
  PositionalEmbedding learned(8, 3, random);
  Sinusoidal fixed(8, 3);
  Tape tape;
  const auto expect_refusals = [&](auto& layer, const Tensor& table, const std::string& name,
                                   const std::string& limit) {
    EXPECT_EQ(layer.rows(tape, 8).value(), table);
    EXPECT_EQ(layer.rows(tape, 2, 6).value(), slice(tape.constant(table), 0, 6).value());
    EXPECT_INVALID(name + ": length is 9, expected at most the " + limit, layer.rows(tape, 9));
    EXPECT_INVALID(name + ": length is 9, expected at most the " + limit,
                   layer.forward(tape.constant(zeros({2, 9, 3}))));
    EXPECT_INVALID(name + ": got 3 positions from 6 on, expected all below the " + limit,
                   layer.rows(tape, 3, 6));
    EXPECT_THROW(layer.rows(tape, 2, SIZE_MAX), std::invalid_argument);
    EXPECT_INVALID(name + ": x has shape [2, 4, 2], expected [..., length, 3]",
                   layer.forward(tape.constant(zeros({2, 4, 2}))));
    EXPECT_THROW(layer.forward(tape.constant(zeros({3}))), std::invalid_argument);
  };
  expect_refusals(learned, learned.weight.value(), "PositionalEmbedding", "context, 8");
  expect_refusals(fixed, fixed.table.value(), "Sinusoidal", "max_length, 8");
  EXPECT_THROW(PositionalEmbedding(0, 3, random), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(0, 4), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 0), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 4, {.base = 0}), std::invalid_argument);
  EXPECT_THROW(Sinusoidal(4, 4, {.base = NAN}), std::invalid_argument);
  EXPECT_INVALID("Sinusoidal: first_position is inf, expected a finite number",
                 Sinusoidal(3, 4, {.first_position = HUGE_VAL}));
}

}  // namespace
