#include <algorithm>

#include <rowgrad/core/autograd/row_source.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {
namespace {

class RowsInMemory final : public RowSource {
 public:
  RowsInMemory(Tensor values, std::optional<Part> part)
      : RowSource(values.shape(), part), values_(std::move(values)) {}

  Tensor* dense() override { return &values_; }

  void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) override {
    kernels::gather_rows(values_.data(), shape()[1], ids, out, added);
  }

  void scatter(std::span<const std::int32_t> ids, const real* in) override {
    const std::size_t width = shape()[1];
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(in + i * width, width, values_.data() + static_cast<std::size_t>(ids[i]) * width);
  }

 private:
  Tensor values_;
};

}  // namespace

std::unique_ptr<RowSource> rows_in_memory(Tensor values, std::optional<RowSource::Part> part) {
  return std::make_unique<RowsInMemory>(std::move(values), part);
}

}  // namespace rowgrad
