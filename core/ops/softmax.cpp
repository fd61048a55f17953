#include <algorithm>
#include <vector>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
#include <rowgrad/core/ops/axes.hpp>
#include <rowgrad/core/ops/shape.hpp>
#include <rowgrad/core/ops/softmax.hpp>

namespace rowgrad {
namespace {

using RowsForward = void (*)(const real*, std::size_t, std::size_t, real*);
using RowsBackward = void (*)(const real*, const real*, std::size_t, std::size_t, real*);

Variable along_rows(OpName op, const Variable& x, int axis, RowsForward forward,
                    RowsBackward backward) {
  const std::size_t rank = x.shape().size();
  const std::size_t along = resolve_axis(op, axis, rank);
  if (along + 1 != rank)  // the kernels work along the last axis
    return transpose(along_rows(op, transpose(x, axis, -1), -1, forward, backward), axis, -1);
  const std::size_t width = x.shape().back();
  const std::size_t rows = x.value().size() / std::max<std::size_t>(width, 1);
  Tensor value = empty(x.shape());
  forward(x.value().data(), rows, width, value.data());
  return record(op, {x}, std::move(value), [backward, rows, width](Backward& node) {
    Tensor gradient = empty(node.output().shape());
    backward(node.output().data(), node.gradient().data(), rows, width, gradient.data());
    node.give(0, std::move(gradient));
  });
}

}  // namespace

Variable softmax(const Variable& x, int axis) {
  return along_rows("softmax", x, axis, kernels::softmax_rows, kernels::softmax_rows_backward);
}

Variable log_softmax(const Variable& x, int axis) {
  return along_rows("log_softmax", x, axis, kernels::log_softmax_rows,
                    kernels::log_softmax_rows_backward);
}

Variable logsumexp(const Variable& x, int axis, KeepAxes keep) {
  const std::size_t rank = x.shape().size();
  const std::size_t along = resolve_axis("logsumexp", axis, rank);
  if (along + 1 != rank) {
    const Variable kept =
        transpose(logsumexp(transpose(x, axis, -1), -1, KeepAxes::kYes), axis, -1);
    return keep == KeepAxes::kYes ? kept : squeeze(kept, axis);
  }
  const std::size_t width = x.shape().back();
  Shape shape = x.shape();
  shape.back() = 1;
  if (keep == KeepAxes::kNo) shape.pop_back();
  Tensor value = empty(shape);
  std::vector<double, PoolAllocator<double>> log_sums(value.size());
  kernels::log_sum_exp_rows(x.value().data(), log_sums.size(), width, log_sums.data());
  std::transform(log_sums.begin(), log_sums.end(), value.data(),
                 [](double log_sum) { return static_cast<real>(log_sum); });
  return record("logsumexp", {x}, std::move(value),
                [width, log_sums = std::move(log_sums)](Backward& node) {
                  Tensor gradient = empty(node.input_shape(0));
                  kernels::log_sum_exp_rows_backward(node.input(0).data(), log_sums.data(),
                                                     node.gradient().data(), log_sums.size(), width,
                                                     gradient.data());
                  node.give(0, std::move(gradient));
                });
}

}  // namespace rowgrad
