#include "tests/test.hpp"

namespace {

constexpr RotaryLayout kLayouts[] = {RotaryLayout::kHalves, RotaryLayout::kInterleaved};

const char* name_of(RotaryLayout layout) {
  return layout == RotaryLayout::kHalves ? "halves" : "interleaved";
}

Tensor rotated(const Tensor& x, const RotaryTable& table, std::size_t heads,
               std::size_t first_position = 0) {
  Tape tape(Tape::inference);
  return rotary(tape.constant(x), table, heads, first_position).value();
}

// Published inputs and outputs have four decimals: half of the last one is lost in each.
constexpr double kFourDecimals = 0.5e-4 * (1 + 1.4142135623730951) + 8 * kEpsilon;

TEST(Rotary, GivesThePublishedNumbersAndGradients) {
  constexpr std::size_t kBatch = 2, kHeads = 3, kLength = 7, kWidth = 4;
  const Shape by_head{kBatch, kHeads, kLength, kWidth};
  // An angle below 7 is rounded to half an epsilon of it, and so are values below 1.5.
  const double tolerance = sizeof(real) == 8 ? 1e-12 : 8 * kEpsilon;
  for (const RotaryLayout layout : kLayouts) {
    const RotaryTable table(10, kWidth, {.layout = layout});
    const std::string name = concat("rope ", name_of(layout), " [2, 3, 7, 4]");
    const json published = golden_case("gpt_ops.json", name);
    const Tensor x = wave(by_head, 0.7, 0.1, 1.5);
    expect_pytorch(
        published,
        [&](Inputs in) { return rotary(in[0], table, 1); },  // heads are an axis in front
        {{"x", x}}, {tolerance, tolerance}, name);

    // The same with the heads side by side.
    const Shape beside{kBatch, kLength, kHeads * kWidth};
    const auto turned = [&](const Tensor& from) {
      Tensor to = empty(beside);
      for (std::size_t b = 0; b < kBatch; ++b)
        for (std::size_t h = 0; h < kHeads; ++h)
          for (std::size_t t = 0; t < kLength; ++t)
            for (std::size_t j = 0; j < kWidth; ++j) to(b, t, h * kWidth + j) = from(b, h, t, j);
      return to;
    };
    const Tensor expected = reshaped(tensor_from(published["output"]), by_head);
    expect_near(rotated(turned(x), table, kHeads), turned(expected), tolerance, name);
  }
}

TEST(Rotary, GivesTheNumbersOfOnnxRuntimeInterleaved) {
  const RotaryTable table(3, 4, {.layout = RotaryLayout::kInterleaved});
  const Tensor x =
      tensor({1, 3, 8}, {-1.0408, .9166,  -1.3042, -1.1097, -.1320, -.2751,  -.2350, .0937,
                         -1.2188, 1.1676, -1.0574, -.1188,  -.7396, -1.2425, -.1752, .6990,
                         -.8110,  .6737,  -1.1233, -.0919,  -.6861, .7202,   .1963,  .6142});
  const Tensor y =
      tensor({1, 3, 8}, {-1.0408, .9166,   -1.3042, -1.1097, -.1320, -.2751,  -.2350, .0937,
                         -1.6411, -.3948,  -1.0561, -.1294,  .6460,  -1.2937, -.1822, .6972,
                         -.2751,  -1.0178, -1.1212, -.1143,  -.3694, -.9235,  .1840,  .6180});
  expect_near(rotated(x, table, 2), y, kFourDecimals);
}

TEST(Rotary, GivesTheNumbersOfOnnxRuntimeInHalves) {
  const RotaryTable table(2, 6);
  const Tensor x = tensor({1, 1, 18}, {-1.0574, -.1188, -.9078, .3452, -.5713, -.2351,  //
                                       -.8480, .5266, -1.2944, -.0243, -.2354, -.7087,  //
                                       -.9647, -.0991, -.2994, -.0650, -1.5720, -1.3211});
  const Tensor y = tensor({1, 1, 18}, {-.8618, -.0922, -.9073, -.7032, -.5762, -.2371,  //
                                       -.4377, .5370, -1.2929, -.7267, -.2107, -.7115,  //
                                       -.4666, -.0261, -.2965, -.8469, -1.5749, -1.3217});
  expect_near(rotated(x, table, 3, 1), y, kFourDecimals);
}

TEST(Rotary, HasThePublishedCosinesAndSines) {
  // (1, 0) becomes (cos, sin).
  const RotaryTable four(4, 4);
  const Tensor at_0_to_3 =
      rotated(tensor({4, 4}, {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0}), four, 1);
  expect_near(at_0_to_3,
              tensor({4, 4}, {1, 1, 0, 0,                   //
                              .5403, .9999, .8415, .0100,   //
                              -.4161, .9998, .9093, .0200,  //
                              -.9900, .9996, .1411, .0300}),
              0.51e-4);
  const RotaryTable six(2, 6);
  expect_near(rotated(tensor({1, 6}, {1, 1, 1, 0, 0, 0}), six, 1, 1),
              tensor({1, 6}, {.5403, .9989, 1, .8415, .0464, .0022}), 0.51e-4);
}

TEST(Rotary, FollowsTheDefinitionForEveryWidthLayoutAndBase) {
  for (const RotaryLayout layout : kLayouts)
    for (const std::size_t width : {2, 6, 8, 30, 32, 64, 66})
      for (const std::size_t columns : {std::size_t{0}, std::size_t{2}, width - width / 4 / 2 * 2})
        for (const double base : {10000.0, 500000.0}) {
          const std::size_t rotated_columns = columns == 0 ? width : columns;
          const std::size_t pairs = rotated_columns / 2;
          constexpr std::size_t kHeads = 3, kFirst = 5;
          const RotaryTable table(12, width, {.layout = layout, .base = base, .columns = columns});
          const Tensor x = irregular({2, 7, kHeads * width}, 1);
          expect_entries(
              rotated(x, table, kHeads, kFirst), x.shape(),
              [&](const Index& index) {
                const std::size_t column = index[2] % width;
                if (column >= rotated_columns) return at(x, index);
                const bool halves = layout == RotaryLayout::kHalves;
                const std::size_t pair = halves ? column % pairs : column / 2;
                const bool first = halves ? column < pairs : column % 2 == 0;
                Index other = index;
                if (halves)
                  other[2] = first ? index[2] + pairs : index[2] - pairs;
                else
                  other[2] = first ? index[2] + 1 : index[2] - 1;
                const double angle =
                    static_cast<double>(kFirst + index[1]) *
                    std::pow(base, -2.0 * static_cast<double>(pair) / rotated_columns);
                const double sine = first ? -std::sin(angle) : std::sin(angle);
                return at(x, index) * std::cos(angle) + at(x, other) * sine;
              },
              // Two rounded factors and products, one sum; all numbers are below 1.5.
              [](auto&, double) { return 4 * kEpsilon; },
              concat(name_of(layout), ' ', rotated_columns, " of ", width, ", base ", base));
        }
}

TEST(Rotary, LeavesProductsToTheDistance) {
  // Query and key at positions 7 and 3 have the product of those at 104 and 100.
  for (const RotaryLayout layout : kLayouts) {
    const RotaryTable table(128, 32, {.layout = layout});
    const Tensor query = irregular({1, 32}, 1);
    const Tensor key = irregular({1, 32}, 2);
    const auto product = [&](std::size_t q, std::size_t k) {
      const Tensor a = rotated(query, table, 1, q);
      const Tensor b = rotated(key, table, 1, k);
      double sum = 0;
      for (std::size_t j = 0; j < 32; ++j) sum += static_cast<double>(a(0, j)) * b(0, j);
      return sum;
    };
    EXPECT_NEAR(product(7, 3), product(104, 100), 32 * 8 * kEpsilon);
    EXPECT_GT(std::abs(product(7, 3) - product(7, 4)), 0.01);
  }
}

TEST(Rotary, ReadsOnWhereItStopped) {
  const RotaryTable table(9, 8);
  const Tensor x = irregular({1, 9, 16});
  const Tensor whole = rotated(x, table, 2);
  const Tensor tail = tensor({1, 4, 16}, std::vector<real>(x.data() + 5 * 16, x.data() + 9 * 16));
  EXPECT_EQ(rotated(tail, table, 2, 5),
            tensor({1, 4, 16}, std::vector<real>(whole.data() + 5 * 16, whole.data() + 9 * 16)));
}

template <class Table>
concept Rotates = requires(const Variable& x, Table table) {
  rotary(x, std::forward<Table>(table), 1);
};

TEST(Rotary, TakesNoTableThatIsGoneBeforeBackward) {
  EXPECT_TRUE(Rotates<const RotaryTable&>);
  EXPECT_FALSE(Rotates<RotaryTable&&>);
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const RotaryTable table(8, 4);
  Tape tape;
  const Variable x = tape.input(zeros({2, 3, 8}));
  EXPECT_INVALID("rotary: x has shape [2, 3, 8], expected [..., length, 3 · 4]",
                 rotary(x, table, 3));
  EXPECT_INVALID("rotary: x has shape [2, 3, 8], expected [..., length, 1 · 4]",
                 rotary(x, table, 1));
  EXPECT_INVALID("rotary: x has shape [8], expected [..., length, 2 · 4]",
                 rotary(tape.input(zeros({8})), table, 2));
  EXPECT_INVALID("rotary: there are 0 heads", rotary(tape.input(zeros({2, 3, 0})), table, 0));
  EXPECT_INVALID("rotary: position 8 is past the table's 8 positions (3 from 6 on)",
                 rotary(x, table, 2, 6));
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_INVALID(concat("rotary: position ", kMost, " is past the table's 8 positions (3 from ",
                        kMost, " on)"),
                 rotary(x, table, 2, kMost));
  rotary(x, table, 2, 5);  // up to the last position
}

TEST(RotaryTable, RefusesSizesAndBases) {
  EXPECT_INVALID("RotaryTable: there are 0 positions", RotaryTable(0, 4));
  EXPECT_INVALID("RotaryTable: 0 columns of 0 cannot be rotated in pairs", RotaryTable(8, 0));
  EXPECT_INVALID("RotaryTable: 5 columns of 5 cannot be rotated in pairs", RotaryTable(8, 5));
  EXPECT_INVALID("RotaryTable: 3 columns of 4 cannot be rotated in pairs",
                 RotaryTable(8, 4, {.columns = 3}));
  EXPECT_INVALID("RotaryTable: 6 columns of 4 cannot be rotated in pairs",
                 RotaryTable(8, 4, {.columns = 6}));
  for (const double base : {0.0, -1.0, std::numeric_limits<double>::infinity()})
    EXPECT_INVALID(concat("RotaryTable: base is ", base, ", expected a finite number above 0"),
                   RotaryTable(8, 4, {.base = base}));
  EXPECT_INVALID(
      "RotaryTable: shape [2305843009213693952, 8] has more numbers than memory could ever "
      "hold",
      RotaryTable(std::size_t{1} << 61, 16));
}

}  // namespace
