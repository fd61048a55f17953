#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include <rowgrad/core/autograd/gradient.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad {
namespace {

using kernels::Simd;

RowGradient sum(const RowGradient& a, const RowGradient& b) {
  std::vector<std::int32_t> indices;
  indices.reserve(a.size() + b.size());
  std::set_union(a.indices().begin(), a.indices().end(), b.indices().begin(), b.indices().end(),
                 std::back_inserter(indices));
  const std::size_t width = a.width();
  Tensor values = empty({indices.size(), width});
  std::size_t in_a = 0;
  std::size_t in_b = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const bool from_a = in_a < a.size() && a.indices()[in_a] == indices[i];
    const bool from_b = in_b < b.size() && b.indices()[in_b] == indices[i];
    real* to = values.data() + i * width;
    if (from_a && from_b) {
      kernels::map_span(width, to, std::plus<>(), a.row(in_a).data(), b.row(in_b).data());
    } else {
      std::copy_n((from_a ? a.row(in_a) : b.row(in_b)).data(), width, to);
    }
    in_a += from_a;
    in_b += from_b;
  }
  return {a.table_shape(), std::move(indices), std::move(values)};
}

}  // namespace

RowGradient::RowGradient(Shape table_shape, std::vector<std::int32_t> indices, Tensor values)
    : table_shape_(std::move(table_shape)),
      indices_(std::move(indices)),
      values_(std::move(values)) {
  check_argument(table_shape_.size() == 2, "RowGradient: the table has shape ",
                 bracketed(table_shape_), ", expected [rows, width]");
  check_argument(values_.dimension() == 2 && values_.shape()[0] == indices_.size() &&
                     values_.shape()[1] == table_shape_[1],
                 "RowGradient: values have shape ", bracketed(values_.shape()), ", expected [",
                 indices_.size(), ", ", table_shape_[1], "]");
  check_argument(kernels::strictly_increasing(indices_),
                 "RowGradient: the row indices are not strictly increasing");
  check_argument(indices_.empty() || (indices_.front() >= 0 &&
                                      static_cast<std::size_t>(indices_.back()) < table_shape_[0]),
                 "RowGradient: row indices ", indices_.empty() ? 0 : indices_.front(), " to ",
                 indices_.empty() ? 0 : indices_.back(), " are out of range: the table has ",
                 table_shape_[0], " rows");
}

Tensor RowGradient::to_dense() const {
  Tensor dense = zeros(table_shape_);
  for (const auto [index, values] : *this)
    std::copy(values.begin(), values.end(),
              dense.data() + static_cast<std::size_t>(index) * width());
  return dense;
}

std::string_view Gradient::kind() const {
  static constexpr std::array<std::string_view, 3> kKinds{"none", "dense", "rows"};
  return kKinds.at(kind_.index());
}

const Tensor& Gradient::dense() const {
  check_state(is_dense(), "Gradient::dense: the gradient is of kind ", kind(), ", expected dense");
  return std::get<Tensor>(kind_);
}

Tensor& Gradient::dense() { return const_cast<Tensor&>(std::as_const(*this).dense()); }

const RowGradient& Gradient::rows() const {
  check_state(is_rows(), "Gradient::rows: the gradient is of kind ", kind(), ", expected rows");
  return std::get<RowGradient>(kind_);
}

const Shape& Gradient::shape() const {
  check_state(!is_none(), "Gradient::shape: the gradient is none, expected dense or rows");
  return is_rows() ? rows().table_shape() : dense().shape();
}

Tensor Gradient::take_dense() && {
  if (is_rows()) return rows().to_dense();
  check_state(is_dense(), "Gradient::take_dense: the gradient is none, expected dense or rows");
  return std::move(std::get<Tensor>(kind_));
}

std::span<real> Gradient::values() {
  if (is_none()) return {};
  Tensor& values = is_dense() ? std::get<Tensor>(kind_) : std::get<RowGradient>(kind_).values_;
  return {values.data(), values.size()};
}

std::span<const real> Gradient::values() const { return const_cast<Gradient*>(this)->values(); }

void Gradient::scale(real factor) {
  if (factor == 1) return;
  const std::span<real> all = values();
  kernels::map_into(
      all.size(), all.data(), [factor](const Simd& x) { return x * Simd(factor); }, all.data());
}

void Gradient::add(Gradient other) {
  if (other.is_none()) return;
  if (is_none()) {
    kind_ = std::move(other.kind_);
    return;
  }
  check_argument(shape() == other.shape(), "Gradient::add: the added gradient has shape ",
                 bracketed(other.shape()), ", expected ", bracketed(shape()));
  if (is_rows() && other.is_rows()) {
    kind_ = sum(rows(), other.rows());
    return;
  }
  if (is_rows()) kind_.swap(other.kind_);
  Tensor& sum = std::get<Tensor>(kind_);
  if (other.is_dense())
    kernels::map_into(sum.size(), sum.data(), std::plus<>(), sum.data(), other.dense().data());
  else
    for (const auto [index, values] : other.rows()) {
      real* const to = sum.data() + static_cast<std::size_t>(index) * values.size();
      kernels::map_span(values.size(), to, std::plus<>(), to, values.data());
    }
}

}  // namespace rowgrad
