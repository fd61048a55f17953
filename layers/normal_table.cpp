#include <algorithm>
#include <cmath>

#include <rowgrad/layers/embedding.hpp>

namespace rowgrad {

Tensor normal_table(const char* layer, std::size_t rows, std::size_t width, Random& random,
                    double deviation, const std::optional<std::int32_t>& padding,
                    std::optional<IndexRange> kept) {
  const auto [begin, end] = kept.value_or(IndexRange{0, rows});
  element_count({rows, width}, layer);
  check_argument(std::isfinite(deviation) && deviation >= 0, layer, ": deviation is ", deviation,
                 ", expected a finite number not below 0");
  const auto row = padding_row(layer, padding, rows);
  if (deviation == 0) return sparse_zeros({end - begin, width});
  // Piece by piece. All pieces but the last are of whole groups of 16 numbers, as normals are
  // drawn: so they are those of one draw.
  Tensor table = empty({end - begin, width});
  constexpr std::size_t kPiece = 1024;  // rows, a multiple of 16
  for (std::size_t first = 0, count = 0; first < rows; first += count) {
    count = rows - first < 2 * kPiece ? rows - first : kPiece;
    const Tensor piece = random.normal({count, width}, 0, deviation);
    const std::size_t from = std::clamp(begin, first, first + count);
    const std::size_t to = std::clamp(end, from, first + count);
    if (from < to)
      std::copy_n(piece.data() + (from - first) * width, (to - from) * width,
                  table.data() + (from - begin) * width);
  }
  const std::size_t zeros = row ? static_cast<std::size_t>(*row) : end;
  if (begin <= zeros && zeros < end)
    std::fill_n(table.data() + (zeros - begin) * width, width, real{0});
  return table;
}

}  // namespace rowgrad
