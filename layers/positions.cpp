#include <algorithm>
#include <cmath>
#include <numeric>

#include <rowgrad/core/ops/embedding.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/layers/positions.hpp>

namespace rowgrad {
namespace {

std::size_t length_of(const char* layer, const Shape& shape, std::size_t width) {
  check_argument(shape.size() >= 2 && shape.back() == width, layer, ": x has shape ",
                 bracketed(shape), ", expected [..., length, ", width, "]");
  return shape[shape.size() - 2];
}

void check_length(const char* layer, std::size_t first_position, std::size_t length,
                  const char* limit_name, std::size_t limit) {
  check_argument(length <= limit, layer, ": length is ", length, ", expected at most the ",
                 limit_name, ", ", limit);
  check_argument(first_position <= limit - length, layer, ": got ", length, " positions from ",
                 first_position, " on, expected all below the ", limit_name, ", ", limit);
}

double exponent(FrequencyScheme scheme, std::size_t column, std::size_t width) {
  const std::size_t next = scheme == FrequencyScheme::kFormalAlgorithms ? 2 : 0;
  const std::size_t steps =
      scheme == FrequencyScheme::kPerColumn ? column : 2 * (column / 2) + next;
  return static_cast<double>(steps) / static_cast<double>(width);
}

// Returns the index, in `layout`, of a column of the interleaved layout.
std::size_t index_of(SinusoidLayout layout, std::size_t column, std::size_t width) {
  const std::size_t half = width / 2;
  if (layout == SinusoidLayout::kInterleaved || column == 2 * half) return column;
  return column % 2 * half + column / 2;
}

Tensor sinusoids(std::size_t max_length, std::size_t width, const SinusoidalOptions& options) {
  check_argument(max_length > 0 && width > 0, "Sinusoidal: max_length is ", max_length,
                 " and width is ", width, ", expected both above 0");
  check_argument(std::isfinite(options.base) && options.base > 0, "Sinusoidal: base is ",
                 options.base, ", expected a finite number above 0");
  check_argument(std::isfinite(options.first_position), "Sinusoidal: first_position is ",
                 options.first_position, ", expected a finite number");
  element_count({max_length, width}, "Sinusoidal");
  Tensor table = empty({max_length, width});
  for (std::size_t column = 0; column < width; ++column) {
    const double scale = std::pow(options.base, exponent(options.scheme, column, width));
    real* to = table.data() + index_of(options.layout, column, width);
    for (std::size_t row = 0; row < max_length; ++row) {
      const double angle = (options.first_position + static_cast<double>(row)) / scale;
      to[row * width] = static_cast<real>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

}  // namespace

Variable PositionalEmbedding::rows(Tape& tape, std::size_t length, std::size_t first_position) {
  check_length("PositionalEmbedding", first_position, length, "context", table().shape()[0]);
  Ids positions = Ids::from_shape({length});
  std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(first_position));
  return scaled(embedding(tape.parameter(table()), positions, lookup()));
}

Variable PositionalEmbedding::forward(const Variable& x) {
  return x + rows(x.tape(), length_of("PositionalEmbedding", x.shape(), weight.shape()[1]));
}

Sinusoidal::Sinusoidal(std::size_t max_length, std::size_t width, const SinusoidalOptions& options)
    : table(*this, "table", sinusoids(max_length, width, options)) {}

Variable Sinusoidal::rows(Tape& tape, std::size_t length, std::size_t first_position) {
  check_length("Sinusoidal", first_position, length, "max_length", table.shape()[0]);
  const std::size_t width = table.shape()[1];
  Tensor rows = empty({length, width});
  std::copy_n(table.value().data() + first_position * width, rows.size(), rows.data());
  return tape.constant(std::move(rows));
}

Variable Sinusoidal::forward(const Variable& x) {
  return x + rows(x.tape(), length_of("Sinusoidal", x.shape(), table.shape()[1]));
}

}  // namespace rowgrad
