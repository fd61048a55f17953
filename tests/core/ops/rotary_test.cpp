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

}  // namespace
