#include <algorithm>
#include <cmath>
#include <vector>

#include <rowgrad/core/kernels/norm.hpp>
#include <rowgrad/core/ops/embedding_renorm.hpp>

namespace rowgrad {
void check_max_norm(const char* layer, const std::optional<double>& max_norm, double norm_type) {
  check_argument(!max_norm || (std::isfinite(*max_norm) && *max_norm > 0), layer, ": max_norm is ",
                 max_norm.value_or(0), ", expected a finite number above 0");
  check_argument(norm_type > 0, layer, ": norm_type is ", norm_type,
                 ", expected a number above 0 or infinity");
}

void embedding_renorm(const char* layer, Tape& tape, Parameter& table, const Ids& ids,
                      double max_norm, double norm_type) {
  std::vector<std::int32_t> distinct(ids.begin(), ids.end());
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  Tensor rows = table.rows(distinct);
  const std::size_t width = table.shape()[1];

  std::vector<std::int32_t> too_large;
  std::vector<real> scaled;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    const std::span row(rows.data() + i * width, width);
    double length = kernels::norm(row, norm_type);
    if (!(length > max_norm)) continue;
    if (std::isinf(length)) {  // in units of the largest value, it may be finite
      const double unit = kernels::largest_magnitude(row);
      if (std::isfinite(unit))
        for (real& number : row) number = static_cast<real>(number / unit);
      length = kernels::norm(row, norm_type);
    }
    const double factor = max_norm / (length + 1e-7);  // as a `real` it could underflow to 0
    too_large.push_back(distinct[i]);
    for (const real number : row) scaled.push_back(static_cast<real>(number * factor));
  }
  if (too_large.empty()) return;
  check_state(!tape.has_read(table), layer, ": max_norm has to change ", table.name(),
              ", which was read as a whole on this tape before");
  Tensor values = empty({too_large.size(), width});
  std::copy(scaled.begin(), scaled.end(), values.data());
  table.assign_rows(too_large, values);
}

}  // namespace rowgrad
