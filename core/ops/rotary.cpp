#include <algorithm>
#include <cmath>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/rotary.hpp>
#include <rowgrad/core/ops/rotary.hpp>

namespace rowgrad {

RotaryTable::RotaryTable(std::size_t positions, std::size_t head_width,
                         const RotaryOptions& options)
    : head_width_(head_width), layout_(options.layout) {
  const std::size_t columns = options.columns == 0 ? head_width : options.columns;
  check_argument(positions > 0, "RotaryTable: there are 0 positions");
  check_argument(columns > 0 && columns % 2 == 0 && columns <= head_width, "RotaryTable: ", columns,
                 " columns of ", head_width, " cannot be rotated in pairs");
  check_argument(std::isfinite(options.base) && options.base > 0, "RotaryTable: base is ",
                 options.base, ", expected a finite number above 0");
  element_count({positions, columns / 2}, "RotaryTable");
  cosines_ = empty({positions, columns / 2});
  sines_ = empty({positions, columns / 2});
  for (std::size_t i = 0; i < columns / 2; ++i) {
    const double rate =
        std::pow(options.base, -2 * static_cast<double>(i) / static_cast<double>(columns));
    for (std::size_t position = 0; position < positions; ++position) {
      const double angle = static_cast<double>(position) * rate;
      cosines_(position, i) = static_cast<real>(std::cos(angle));
      sines_(position, i) = static_cast<real>(std::sin(angle));
    }
  }
}

Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position) {
  const Shape& shape = x.shape();
  const std::size_t head_width = table.head_width();
  check_argument(heads > 0, "rotary: there are 0 heads");
  check_argument(
      shape.size() >= 2 && shape.back() % heads == 0 && shape.back() / heads == head_width,
      "rotary: x has shape ", bracketed(shape), ", expected [..., length, ", heads, " · ",
      head_width, "]");
  const std::size_t length = shape[shape.size() - 2];
  const std::size_t positions = table.positions();
  check_argument(first_position <= positions && length <= positions - first_position,
                 "rotary: position ", std::max(first_position, positions), " is past the table's ",
                 positions, " positions (", length, " from ", first_position, " on)");
  const std::size_t rows = x.value().size() / shape.back();
  const std::size_t pairs = table.cosines_.shape()[1];
  const auto rotate = [=, interleaved = table.layout_ == RotaryLayout::kInterleaved,
                       cosines = table.cosines_.data() + first_position * pairs,
                       sines = table.sines_.data() + first_position * pairs](
                          const Tensor& from, real sign, Tensor& to) {
    kernels::rotate_rows({.pairs = pairs, .interleaved = interleaved}, from.data(), rows, length,
                         heads, head_width, cosines, sines, sign, to.data());
  };
  Tensor value = empty(shape);
  rotate(x.value(), 1, value);
  return record("rotary", {x}, std::move(value), [rotate](Backward& node) {
    Tensor dx = node.take_gradient();
    rotate(dx, -1, dx);  // the transpose of a rotation is the rotation back
    node.give(0, std::move(dx));
  });
}

}  // namespace rowgrad
