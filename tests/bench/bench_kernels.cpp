// Measures single kernels with Google Benchmark: `bench_kernels --benchmark_filter=gemm`. The sizes
// are those of the workloads.

#include <cstdint>
#include <vector>

#include <benchmark/benchmark.h>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/linear_cross_entropy.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/ops/attention.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad::kernels {
namespace {

std::size_t argument(const benchmark::State& state, std::size_t i) {
  return static_cast<std::size_t>(state.range(i));
}

// Reports the rate at which values are read and written.
void count_numbers(benchmark::State& state, std::size_t numbers_a_run) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<std::int64_t>(numbers_a_run * sizeof(real)));
}

// And that of the three products of a linear layer, [rows, inputs] → [rows, outputs].
void count_products(benchmark::State& state) {
  state.counters["flop/s"] = benchmark::Counter(
      6.0 * static_cast<double>(state.range(0) * state.range(1) * state.range(2)),
      benchmark::Counter::kIsIterationInvariantRate);
}

std::vector<std::int32_t> random_ids(std::size_t count, std::size_t vocabulary) {
  Random random(1);
  std::vector<std::int32_t> ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.bits() % vocabulary);
  return ids;
}

void rows_gathered(benchmark::State& state) {
  const std::size_t width = argument(state, 2);
  const Tensor table = full({argument(state, 0), width}, 1);
  const Tensor positions = full({256, width}, 1);  // added on the way
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  Tensor out = empty({ids.size(), width});
  for (auto _ : state) {
    gather_rows(table.data(), width, ids, out.data(), &positions);
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * out.size());
}

void rows_merged(benchmark::State& state) {
  const std::size_t width = argument(state, 2);
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  const Tensor values = full({ids.size(), width}, 1);
  for (auto _ : state) benchmark::DoNotOptimize(merge_rows(ids, values).values.data());
  count_numbers(state, (ids.size() + merge_rows(ids, values).indices.size()) * width);
}

void embedding_sizes(benchmark::internal::Benchmark* run) {
  run->ArgNames({"V", "ids", "d"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const std::int64_t vocabulary : {1000, 50257, 1000000}) run->Args({vocabulary, 16384, 256});
  run->Args({50257, 32, 256});
}
BENCHMARK(rows_gathered)->Apply(embedding_sizes);
BENCHMARK(rows_merged)->Apply(embedding_sizes);

// Forward, dX and dW.
void gemm_trio(benchmark::State& state) {
  const std::size_t rows = argument(state, 0);
  const std::size_t inputs = argument(state, 1);
  const std::size_t outputs = argument(state, 2);
  const Tensor x = full({rows, inputs}, 1);
  const Tensor weight = full({outputs, inputs}, 1);
  Tensor y = full({rows, outputs}, 1);
  Tensor x_gradient = empty(x.shape());
  Tensor weight_gradient = empty(weight.shape());
  const blas::MatrixView of_x{x.data(), rows, inputs};
  const blas::MatrixView of_weight{weight.data(), outputs, inputs};
  const blas::MatrixView upstream{y.data(), rows, outputs};
  for (auto _ : state) {
    blas::gemm(of_x, transposed(of_weight), {y.data(), rows, outputs});
    blas::gemm(upstream, of_weight, {x_gradient.data(), rows, inputs});
    blas::gemm(transposed(upstream), of_x, {weight_gradient.data(), outputs, inputs});
  }
  count_products(state);
}

// The same products with softmax, losses and their gradient, as in linear_cross_entropy.
void head(benchmark::State& state) {
  const std::size_t rows = argument(state, 0);
  const std::size_t inputs = argument(state, 1);
  const std::size_t classes = argument(state, 2);
  const Tensor x = full({rows, inputs}, real{0.01});
  const Tensor weight = full({classes, inputs}, real{0.01});
  const auto targets = random_ids(rows, classes);
  Tensor x_gradient = empty(x.shape());
  Tensor weight_gradient = empty(weight.shape());
  const LinearCrossEntropy loss{.x = x.data(),
                                .weight = weight.data(),
                                .bias = nullptr,
                                .rows = rows,
                                .width = inputs,
                                .classes = classes,
                                .targets = targets.data()};
  for (auto _ : state)
    benchmark::DoNotOptimize(
        linear_cross_entropy(loss, {.x = x_gradient.data(), .weight = weight_gradient.data()}));
  count_products(state);
}

void head_sizes(benchmark::internal::Benchmark* run) {
  run->ArgNames({"rows", "inputs", "outputs"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  run->Args({32, 256, 50257})->Args({32, 256, 1132})->Args({4096, 256, 50257});
  run->Args({512, 768, 50257});
}
void layer_sizes(benchmark::internal::Benchmark* run) {
  for (const std::int64_t outputs : {2304, 768, 3072}) run->Args({512, 768, outputs});
  run->Args({512, 3072, 768});
}
BENCHMARK(gemm_trio)->Apply(head_sizes)->Apply(layer_sizes);
BENCHMARK(head)->Apply(head_sizes);

// Causal attention of two texts, 12 heads of width 64, without what comes before and after it.
// Arguments: the length of the texts, and whether gradients are computed, too.
void attention(benchmark::State& state) {
  const Shape shape{2, argument(state, 0), 768};
  std::vector<Tensor> qkv;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) qkv.push_back(Random(seed).normal(shape));
  const Tensor upstream = full(shape, 1);
  const bool backward = argument(state, 1) != 0;
  for (auto _ : state) {
    Tape tape(backward ? Tape::gradient_mode : Tape::inference);
    std::vector<Variable> x;
    for (const Tensor& tensor : qkv) x.push_back(tape.input(tensor));
    const Variable y = causal_attention(x[0], x[1], x[2], {.heads = 12});
    if (backward) tape.backward(y, upstream);
  }
}
BENCHMARK(attention)
    ->ArgNames({"length", "backward"})
    ->ArgsProduct({{64, 256, 1024}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// The attention of one more token of a text, 12 heads of width 64. Argument: the tokens before it.
void attention_to_the_past(benchmark::State& state) {
  const std::size_t past = argument(state, 0);
  KeyValueCache cache(past + 1, 768);
  const auto attend = [&](const Tensor& tokens) {
    Tape tape(Tape::inference);
    const Variable x = tape.constant(tokens);
    causal_attention(x, x, x, {.heads = 12}, &cache);
  };
  attend(Random(1).normal({1, past, 768}));
  const Tensor next = Random(2).normal({1, 1, 768});
  for (auto _ : state) {
    attend(next);
    cache.truncate(past);
  }
}
BENCHMARK(attention_to_the_past)
    ->ArgName("tokens")
    ->Arg(64)
    ->Arg(256)
    ->Arg(1024)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rowgrad::kernels
