#include <algorithm>
#include <set>
#include <utility>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/ops/loss.hpp>
#include <rowgrad/core/ops/matmul.hpp>
#include <rowgrad/core/ops/normalize.hpp>
#include <rowgrad/core/ops/pointwise.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/optim/training/arithmetic.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kRows = 64;
constexpr std::size_t kMost = 4096;  // rows or columns of a weight, which bounds the time
constexpr std::size_t kMostWeights = 12;

// Numbers in [−1, 1).
Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor values = empty(shape);
  for (real& value : values)
    value = static_cast<real>(static_cast<std::int64_t>(splitmix64(seed++)) >> 40) / (1 << 23);
  return values;
}

void add(Checksum& sum, const Tensor& values) {
  sum.add_words(std::as_bytes(std::span(values.data(), values.size())));
}

void add_products(Checksum& sum, std::size_t outputs, std::size_t inputs) {
  Tape tape;
  const Variable x = tape.input(numbers({kRows, inputs}, 1));
  const Variable weight = tape.input(numbers({outputs, inputs}, inputs));
  const Variable bias = tape.input(numbers({outputs}, outputs));
  const Variable y = linear(x, weight, bias);
  const Variable z = softmax(layer_norm(y)) + gelu(y) + gelu_tanh(y);
  const Variable loss = rowgrad::sum(z * z);
  tape.backward(loss);
  for (const Variable& each : {y, z, loss}) add(sum, each.value());
  for (const Variable& each : {x, weight, bias})
    add(sum, Gradient(tape.gradient(each)).take_dense());
}

}  // namespace

std::uint64_t arithmetic_fingerprint(std::span<Parameter* const> parameters) {
  // How a product is computed depends on its shape.
  std::set<std::pair<std::size_t, std::size_t>> weights;
  for (const Parameter* parameter : parameters)
    if (const Shape& shape = parameter->shape();
        shape.size() == 2 && parameter->size() > 0 && weights.size() < kMostWeights)
      weights.emplace(std::min(shape[0], kMost), std::min(shape[1], kMost));
  Checksum sum;
  // In a range of a loop all is computed on one thread, however many there are.
  run_ranges(2, RangeBody([&](std::size_t range) {
               if (range > 0) return;
               for (const auto& [outputs, inputs] : weights) add_products(sum, outputs, inputs);
             }));
  return sum.value();
}

}  // namespace rowgrad
