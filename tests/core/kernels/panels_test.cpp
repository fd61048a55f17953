#include "tests/test.hpp"
#include <rowgrad/core/kernels/panels.hpp>

namespace rowgrad::kernels {
namespace {

// Around the widths of a vector and of a panel.
constexpr std::size_t kPanelSizes[] = {0,      1,          2,      3,          kLanes - 1,
                                       kLanes, kLanes + 1, kPanel, kPanel + 1, 70};

TEST(PackPanels, CopiesRowsOfLongerRowsTimesAFactor) {
  for (const std::size_t rows : kPanelSizes)
    for (const std::size_t columns : kPanelSizes) {
      const std::size_t stride = columns + 5;
      const Tensor matrix = counting({rows, stride});
      const auto entry = [&](std::size_t i, std::size_t j) {
        return i < rows && j < columns ? 0.5 * static_cast<double>(i * stride + j + 1) : 0.0;
      };
      const blas::MatrixView source{matrix.data(), rows, columns, stride};
      Tensor panels = full({panel_count(columns), rows, kPanel}, -1);
      pack_panels(source, 0.5, panels.data());
      expect_exact(panels, panels.shape(),
                   [&](const Shape& at) { return entry(at[1], at[0] * kPanel + at[2]); });
      Tensor transposed = full({panel_count(rows), columns, kPanel}, -1);
      pack_panels(blas::transposed(source), 0.5, transposed.data());
      expect_exact(transposed, transposed.shape(),
                   [&](const Shape& at) { return entry(at[0] * kPanel + at[2], at[1]); });
    }
}

TEST(MultiplyPanel, StoresOrAddsAnyRowsAndColumnsOfTheProduct) {
  constexpr std::size_t kLength = 7;
  const Tensor right = irregular({kLength, kPanel}, 1);
  for (std::size_t rows = 1; rows <= 3 * kTileRows; ++rows)
    for (const std::size_t columns : {std::size_t{1}, kLanes, kPanel - 1, kPanel})
      for (const bool add : {false, true})
        for (const bool transposed : {false, true}) {
          const Tensor left = irregular({rows * kLength}, 2);
          const blas::MatrixView factor = transposed
                                              ? blas::transposed({left.data(), kLength, rows})
                                              : blas::MatrixView{left.data(), rows, kLength};
          const Tensor before = irregular({rows, kPanel + 3}, 3);
          Tensor result = before;
          multiply_panel(
              factor, right.data(),
              {.data = result.data(), .stride = kPanel + 3, .columns = columns, .add = add});
          expect_entries(
              result, before.shape(),
              [&](const Shape& at) {
                double sum = add || at[1] >= columns ? before(at[0], at[1]) : 0;
                for (std::size_t k = 0; k < kLength && at[1] < columns; ++k)
                  sum += static_cast<double>(*factor.at(at[0], k)) * right(k, at[1]);
                return sum;
              },
              // All numbers are below 1, so partial sums are at most 8.
              [](const Shape&, double) { return 8 * 8 * kEpsilon / 2; },
              concat(rows, " rows, ", columns, " columns"));
        }
}

}  // namespace
}  // namespace rowgrad::kernels
