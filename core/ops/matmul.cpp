#include <algorithm>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/vector_product.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/shape.hpp>

namespace rowgrad {

using blas::transposed;

namespace {

// A stack of matrices: the shape of the stack, and its first matrix.
struct Matrices {
  Shape leading;
  blas::MatrixView first;

  std::size_t count() const { return element_count(leading); }
};

// Returns the matrices of x. A vector is one row or, if `is_right`, one column.
Matrices matrices(const Tensor& x, bool is_right) {
  const Shape& shape = x.shape();
  const std::size_t rank = shape.size();
  if (rank == 1) return {{}, {x.data(), is_right ? x.size() : 1, is_right ? 1 : x.size()}};
  return {Shape(shape.begin(), shape.end() - 2), {x.data(), shape[rank - 2], shape[rank - 1]}};
}

// Returns the stack as one tall matrix, for left factors that share one right factor.
Matrices stacked(Matrices x) {
  x.first.rows *= x.count();
  x.leading = Shape();
  return x;
}

Matrices transposed(Matrices x) {
  x.first = blas::transposed(x.first);
  return x;
}

// Multiplies two stacks of matrices with broadcasting. Many products are distributed over the
// threads. If there are only a few products, each uses all threads.
Tensor multiply(const Matrices& a, const Matrices& b, const Shape& leading) {
  const std::size_t rows = a.first.rows;
  const std::size_t columns = b.first.columns;
  Shape shape = leading;
  shape.push_back(rows);
  shape.push_back(columns);
  Tensor result = empty(shape);
  const kernels::BroadcastLoops loops = kernels::broadcast_loops(leading, {&a.leading, &b.leading});
  const bool has_vector = kernels::is_vector_product(a.first, b.first);
  const auto product = [&](std::size_t index) {
    const auto offsets = loops.offsets(index, 0);
    blas::MatrixView factors[] = {a.first, b.first};
    factors[0].data += offsets[0] * rows * a.first.columns;
    factors[1].data += offsets[1] * columns * b.first.rows;
    const blas::Matrix to{result.data() + index * rows * columns, rows, columns};
    if (has_vector)
      kernels::multiply_vector(factors[0], factors[1], to);
    else
      blas::gemm(factors[0], factors[1], to);
  };
  const std::size_t count = element_count(leading);
  const auto threads = static_cast<std::size_t>(thread_count());
  if (count >= 2 * threads) {
    blas::prepare();
    const std::size_t work = rows * a.first.columns * columns;
    kernels::parallel_for_each(count, work, product);
  } else {
    for (std::size_t i = 0; i < count; ++i) product(i);
  }
  return result;
}

}  // namespace

Variable matmul(const Variable& a, const Variable& b) {
  const auto checked = [&](const Variable& x, const char* name, bool is_right) {
    check_argument(!x.shape().empty(), "matmul: ", name,
                   " is a scalar, expected at least one axis");
    return matrices(x.read(), is_right);
  };
  const Matrices left = checked(a, "a", false);
  const Matrices right = checked(b, "b", true);
  const std::size_t rows = left.first.rows, columns = right.first.columns;
  check_argument(left.first.columns == right.first.rows, "matmul: a has shape ",
                 bracketed(a.shape()), " and b ", bracketed(b.shape()),
                 ", expected equal inner axes instead of ", left.first.columns, " and ",
                 right.first.rows);
  Shape leading = kernels::broadcast_shape("matmul", left.leading, right.leading);
  Shape shape = leading;
  if (a.shape().size() > 1) shape.push_back(rows);
  if (b.shape().size() > 1) shape.push_back(columns);
  // With a single matrix on the right, all products are computed as one larger product.
  const bool one_right = right.leading.empty();
  Tensor value = one_right ? multiply(stacked(left), right, {}) : multiply(left, right, leading);
  return record("matmul", {a, b}, reshaped(std::move(value), shape), [=](Backward& node) {
    Matrices of_a = matrices(node.input(0), false);
    const Matrices of_b = matrices(node.input(1), true);
    Matrices upstream{leading, {node.gradient().data(), rows, columns}};
    Shape stack = leading;
    if (one_right) {
      of_a = stacked(of_a);
      upstream = stacked(upstream);
      stack = Shape();
    }
    const auto take_product = [&](std::size_t i, const Matrices& first, const Matrices& second,
                                  Shape of_input) {
      GradientSlot slot = node.slot(i);
      if (!slot) return;
      Tensor gradient = multiply(first, second, stack);
      of_input.push_back(first.first.rows);
      of_input.push_back(second.first.columns);
      if (!one_right) gradient = kernels::sum_to(std::move(gradient), of_input);
      slot.take(reshaped(std::move(gradient), node.input_shape(i)));
    };
    take_product(0, upstream, transposed(of_b), of_a.leading);
    take_product(1, transposed(of_a), upstream, of_b.leading);
  });
}

Variable outer(const Variable& a, const Variable& b) {
  check_argument(a.shape().size() == 1 && b.shape().size() == 1, "outer: a has shape ",
                 bracketed(a.shape()), " and b ", bracketed(b.shape()), ", expected two vectors");
  return matmul(unsqueeze(a, 1), unsqueeze(b, 0));
}

void check_linear(const char* caller, const Variable& x, const Variable& weight,
                  const std::optional<Variable>& bias) {
  check_argument(weight.shape().size() == 2, caller, ": weight has shape ",
                 bracketed(weight.shape()), ", expected [outputs, inputs]");
  const std::size_t outputs = weight.shape()[0];
  const std::size_t inputs = weight.shape()[1];
  check_argument(!x.shape().empty() && x.shape().back() == inputs, caller, ": x has shape ",
                 bracketed(x.shape()), ", expected [..., ", inputs, "] for a weight of ",
                 bracketed(weight.shape()));
  check_argument(!bias || bias->shape() == Shape{outputs}, caller, ": bias has shape ",
                 bracketed(bias ? bias->shape() : Shape()), ", expected [", outputs, "]");
}

Variable linear(const Variable& x, const Variable& weight, const std::optional<Variable>& bias) {
  check_linear("linear", x, weight, bias);
  const std::size_t outputs = weight.shape()[0];
  const std::size_t inputs = weight.shape()[1];
  Shape shape(x.shape().begin(), x.shape().end() - 1);
  const std::size_t rows = element_count(shape);
  shape.push_back(outputs);
  Tensor value = empty(shape);
  if (bias)
    kernels::parallel_for_each(
        rows, outputs, [to = value.data(), from = bias->read().data(), outputs](std::size_t row) {
          std::copy_n(from, outputs, to + row * outputs);
        });
  blas::gemm({x.read().data(), rows, inputs},
             transposed(blas::MatrixView{weight.read().data(), outputs, inputs}),
             {value.data(), rows, outputs}, bias ? 1 : 0);

  auto rule = [rows, inputs, outputs, has_bias = bias.has_value()](Backward& node) {
    const blas::MatrixView upstream{node.gradient().data(), rows, outputs};
    const blas::MatrixView of_x{node.input(0).data(), rows, inputs};
    const blas::MatrixView of_weight{node.input(1).data(), outputs, inputs};
    if (GradientSlot dx = node.slot(0))
      blas::gemm(upstream, of_weight, {dx.data(), rows, inputs}, dx.adds() ? 1 : 0);
    if (GradientSlot dw = node.slot(1))
      blas::gemm(transposed(upstream), of_x, {dw.data(), outputs, inputs}, dw.adds() ? 1 : 0);
    if (has_bias && node.slot(2)) node.slot(2).take(kernels::sum_to(node.gradient(), {outputs}));
  };
  if (bias) return record("linear", {x, weight, *bias}, std::move(value), std::move(rule));
  return record("linear", {x, weight}, std::move(value), std::move(rule));
}

}  // namespace rowgrad
