#include <algorithm>
#include <cmath>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/parallel.hpp>
#include <rowgrad/core/ops/rotary.hpp>

namespace rowgrad {
namespace {

// How the pairs of one head lie in its row.
struct Pairs {
  std::size_t count;
  std::size_t step;    // from one pair to the next
  std::size_t second;  // from a pair's first column to its second
};

// Rotates every head of every row; by the negative angles if sign is −1.
struct Rotation {
  Pairs pairs;
  std::size_t heads;
  std::size_t head_width;
  std::size_t length;
  const real* cosines;  // from the first position on
  const real* sines;

  void apply(const Tensor& x, real sign, Tensor& result) const {
    const std::size_t width = heads * head_width;
    const std::size_t rows = x.size() / std::max<std::size_t>(width, 1);
    kernels::parallel_for(rows, kernels::row_grain(width), [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::size_t angles = row % length * pairs.count;
        for (std::size_t head = 0; head < heads; ++head) {
          const std::size_t offset = row * width + head * head_width;
          rotate(x.data() + offset, cosines + angles, sines + angles, sign, result.data() + offset);
        }
      }
    });
  }

 private:
  void rotate(const real* x, const real* cosine, const real* sine, real sign, real* to) const {
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const real a = x[i * pairs.step];
      const real b = x[i * pairs.step + pairs.second];
      to[i * pairs.step] = a * cosine[i] - sign * b * sine[i];
      to[i * pairs.step + pairs.second] = sign * a * sine[i] + b * cosine[i];
    }
    std::copy(x + 2 * pairs.count, x + head_width, to + 2 * pairs.count);
  }
};

}  // namespace

RotaryTable::RotaryTable(std::size_t positions, std::size_t head_width,
                         const RotaryOptions& options)
    : head_width_(head_width), layout_(options.layout) {
  const std::size_t columns = options.columns == 0 ? head_width : options.columns;
  check_argument(positions > 0, "RotaryTable: there are 0 positions");
  check_argument(columns > 0 && columns % 2 == 0 && columns <= head_width, "RotaryTable: ", columns,
                 " columns of ", head_width, " cannot be rotated in pairs");
  check_argument(std::isfinite(options.base) && options.base > 0, "RotaryTable: base is ",
                 options.base, ", expected a finite number above 0");
  cosines_ = empty({positions, columns / 2});
  sines_ = empty({positions, columns / 2});
  for (std::size_t position = 0; position < positions; ++position)
    for (std::size_t i = 0; i < columns / 2; ++i) {
      const double rate =
          std::pow(options.base, -2 * static_cast<double>(i) / static_cast<double>(columns));
      const double angle = static_cast<double>(position) * rate;
      cosines_(position, i) = static_cast<real>(std::cos(angle));
      sines_(position, i) = static_cast<real>(std::sin(angle));
    }
}

Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position) {
  const Shape& shape = x.shape();
  check_argument(shape.size() == 3 && shape[2] == heads * table.head_width(),
                 "rotary: x has shape ", bracketed(shape), ", expected [batch, length, ", heads,
                 " · ", table.head_width(), "]");
  const std::size_t length = shape[1];
  check_argument(first_position + length <= table.positions(), "rotary: position ",
                 first_position + length - 1, " is past the table's ", table.positions(),
                 " positions");
  const std::size_t count = table.cosines_.shape()[1];
  const bool halves = table.layout_ == RotaryLayout::kHalves;
  const Rotation rotation{halves ? Pairs{count, 1, count} : Pairs{count, 2, 1},
                          heads,
                          table.head_width(),
                          length,
                          table.cosines_.data() + first_position * count,
                          table.sines_.data() + first_position * count};
  Tensor value = empty(shape);
  rotation.apply(x.value(), 1, value);
  return record("rotary", {x}, std::move(value), [rotation](Backward& node) {
    Tensor dx = empty(node.input_shape(0));
    rotation.apply(node.gradient(), -1, dx);
    node.give(0, std::move(dx));
  });
}

}  // namespace rowgrad
