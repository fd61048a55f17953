#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/layers/nearest.hpp>

namespace rowgrad {

std::vector<Neighbour> nearest(const Tensor& table, const Tensor& vector, std::size_t count) {
  kernels::check_table("nearest", table.shape());
  const std::size_t width = table.shape()[1];
  check_argument(vector.shape() == Shape{width}, "nearest: the vector has shape ",
                 bracketed(vector.shape()), ", expected [", width, "]");
  const double length = kernels::length(width, vector.data());
  check_argument(length > 0 && std::isfinite(length), "nearest: the vector has length ", length,
                 ", expected a finite length above 0");
  std::vector<double> unit(vector.begin(), vector.end());
  for (double& value : unit) value /= length;
  std::vector<Neighbour> all(table.shape()[0]);
  kernels::parallel_for_each(all.size(), width, [&](std::size_t i) {
    const real* const row = table.data() + i * width;
    const double product = std::transform_reduce(row, row + width, unit.begin(), 0.0);
    const double least = std::numeric_limits<double>::min();  // instead of 0
    const double cosine = product / std::max(kernels::length(width, row), least);
    all[i] = {static_cast<std::int32_t>(i), std::clamp(cosine, -1.0, 1.0)};
  });
  std::erase_if(all, [](const Neighbour& neighbour) { return std::isnan(neighbour.cosine); });
  count = std::min(count, all.size());
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count), {},
                            [](const Neighbour& n) { return std::pair(-n.cosine, n.row); });
  all.resize(count);
  return all;
}

std::vector<Neighbour> nearest(const Tensor& table, std::int32_t row, std::size_t count) {
  kernels::check_table("nearest", table.shape());
  check_argument(row >= 0 && std::cmp_less(row, table.shape()[0]), "nearest: row ", row,
                 " is out of range: the table has ", table.shape()[0], " rows");
  Tensor vector = empty({table.shape()[1]});
  kernels::gather_rows(table.data(), vector.size(), {&row, 1}, vector.data());
  std::vector<Neighbour> others = nearest(table, vector, std::max(count, count + 1));
  std::erase_if(others, [row](const Neighbour& neighbour) { return neighbour.row == row; });
  others.resize(std::min(count, others.size()));
  return others;
}

}  // namespace rowgrad
