#include <algorithm>

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

}  // namespace rowgrad
