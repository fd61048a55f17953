#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numeric>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/attention.hpp>
#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/positions.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {
namespace {

void check_buckets(const char* caller, std::size_t buckets, std::size_t max_distance) {
  check_argument(buckets >= 2, caller, ": buckets is ", buckets, ", expected at least 2");
  check_argument(max_distance > buckets / 2, caller, ": max_distance is ", max_distance,
                 ", expected more than ", buckets / 2, " (buckets / 2)");
}

}  // namespace

std::vector<double> alibi_slopes(std::size_t heads) {
  check_argument(heads > 0, "alibi_slopes: heads is 0, expected at least 1");
  std::vector<double> slopes;
  const std::size_t power = std::bit_floor(heads);
  const auto slope = [](std::size_t of, std::size_t head) {
    return std::exp2(-8 * static_cast<double>(head) / static_cast<double>(of));
  };
  for (std::size_t head = 1; head <= power; ++head) slopes.push_back(slope(power, head));
  for (std::size_t head = 1; slopes.size() < heads; head += 2)
    slopes.push_back(slope(2 * power, head));
  return slopes;
}

Tensor alibi_bias(std::size_t heads, std::size_t length) {
  const std::vector<double> slopes = alibi_slopes(heads);
  Tensor bias = empty({heads, length});
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t distance = 0; distance < length; ++distance)
      bias(h, distance) = static_cast<real>(-slopes[h] * static_cast<double>(distance));
  return bias;
}

std::size_t t5_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance) {
  check_buckets("t5_bucket", buckets, max_distance);
  const std::size_t exact = buckets / 2;
  if (distance < exact) return distance;
  if (distance >= max_distance) return buckets - 1;
  const auto first = static_cast<double>(exact);
  const double share = std::log(static_cast<double>(distance) / first) /
                       std::log(static_cast<double>(max_distance) / first);
  const auto more = static_cast<std::size_t>(share * static_cast<double>(buckets - exact));
  return std::min(exact + more, buckets - 1);
}

Variable t5_bias(const Variable& table, std::size_t length, std::size_t max_distance) {
  const Shape& shape = table.shape();
  check_argument(shape.size() == 2, "t5_bias: table has shape ", bracketed(shape),
                 ", expected [buckets, heads]");
  check_buckets("t5_bias", shape[0], max_distance);
  std::vector<std::int32_t> buckets(length);
  for (std::size_t distance = 0; distance < length; ++distance)
    buckets[distance] = static_cast<std::int32_t>(t5_bucket(distance, shape[0], max_distance));
  return transpose(embedding(table, to_ids(buckets)));
}

Variable relative_rows(const Variable& table, std::size_t length) {
  const Shape& shape = table.shape();
  check_argument(shape.size() == 2 && shape[0] % 2 == 1, "relative_rows: table has shape ",
                 bracketed(shape), ", expected [2k + 1, width]");
  const std::size_t distance_0 = shape[0] / 2;
  std::vector<std::int32_t> rows(std::min(length, distance_0 + 1));
  std::iota(rows.begin(), rows.end(), static_cast<std::int32_t>(distance_0 + 1 - rows.size()));
  return embedding(table, to_ids(rows));
}

RotaryTable::RotaryTable(std::size_t positions, std::size_t head_width,
                         const RotaryOptions& options)
    : head_width_(head_width), layout_(options.layout), first_position_(options.first_position) {
  const std::size_t columns = options.columns == 0 ? head_width : options.columns;
  check_argument(positions > 0, "RotaryTable: positions is 0, expected at least 1");
  check_argument(columns > 0 && columns % 2 == 0 && columns <= head_width,
                 "RotaryTable: columns is ", columns,
                 ", expected an even number above 0 and at most head_width, ", head_width);
  check_argument(std::isfinite(options.base) && options.base > 0, "RotaryTable: base is ",
                 options.base, ", expected a finite number above 0");
  element_count({positions, columns / 2}, "RotaryTable");
  cosines_ = empty({positions, columns / 2});
  sines_ = empty({positions, columns / 2});
  for (std::size_t i = 0; i < columns / 2; ++i) {
    const double rate =
        std::pow(options.base, -2 * static_cast<double>(i) / static_cast<double>(columns));
    for (std::size_t row = 0; row < positions; ++row) {
      const double angle = static_cast<double>(first_position_ + row) * rate;
      cosines_(row, i) = static_cast<real>(std::cos(angle));
      sines_(row, i) = static_cast<real>(std::sin(angle));
    }
  }
}

Variable rotary(const Variable& x, const RotaryTable& table, std::size_t heads,
                std::size_t first_position) {
  const Shape& shape = x.shape();
  const std::size_t head_width = table.head_width();
  check_argument(heads > 0, "rotary: heads is 0, expected at least 1");
  check_argument(
      shape.size() >= 2 && shape.back() % heads == 0 && shape.back() / heads == head_width,
      "rotary: x has shape ", bracketed(shape), ", expected [..., length, ", heads, " · ",
      head_width, "]");
  const std::size_t length = shape[shape.size() - 2];
  const std::size_t first_row = first_position - table.first_position();
  check_argument(first_position >= table.first_position() && first_row <= table.positions() &&
                     length <= table.positions() - first_row,
                 "rotary: x has ", length, " positions from ", first_position,
                 " on, but the table has ", table.positions(), " from ", table.first_position(),
                 " on");
  const std::size_t rows = x.value().size() / shape.back();
  const std::size_t pairs = table.cosines_.shape()[1];
  const auto rotate = [=, interleaved = table.layout_ == RotaryLayout::kInterleaved,
                       cosines = table.cosines_.data() + first_row * pairs,
                       sines = table.sines_.data() + first_row * pairs](const Tensor& from,
                                                                        real sign, Tensor& to) {
    kernels::rotate_rows({.pairs = pairs, .interleaved = interleaved}, from.data(), rows, length,
                         heads, head_width, cosines, sines, sign, to.data());
  };
  Tensor value = empty(shape);
  rotate(x.read(), 1, value);
  return record("rotary", {x}, std::move(value), [rotate](Backward& node) {
    Tensor dx = node.take_gradient();
    rotate(dx, -1, dx);  // the transpose is the inverse rotation
    node.slot(0).take(std::move(dx));
  });
}

}  // namespace rowgrad
