// Measures single kernels with Google Benchmark: `bench_kernels --benchmark_filter=gemm`. The sizes
// are those of the workloads.

#include <cstdint>
#include <optional>
#include <vector>

#include <benchmark/benchmark.h>

#include <rowgrad/core/autograd/tape.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/broadcast.hpp>
#include <rowgrad/core/kernels/linear_cross_entropy.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/kernels/softmax.hpp>
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

std::vector<std::int32_t> random_ids(std::size_t count, std::size_t vocabulary) {
  Random random(1);
  std::vector<std::int32_t> ids(count);
  for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.bits() % vocabulary);
  return ids;
}

// Arguments: vocabulary, ids, width.
void rows_gathered(benchmark::State& state) {
  const std::size_t width = argument(state, 2);
  const Tensor table = full({argument(state, 0), width}, 1);
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  Tensor out = empty({ids.size(), width});
  for (auto _ : state) {
    gather_rows(table.data(), width, ids, out.data());
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * out.size());
}

// The same with 256 positions added on the way.
void rows_gathered_and_added(benchmark::State& state) {
  const std::size_t width = argument(state, 2);
  const Tensor table = full({argument(state, 0), width}, 1);
  const Tensor positions = full({256, width}, 1);
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  Tensor out = empty({ids.size(), width});
  for (auto _ : state) {
    gather_rows(table.data(), width, ids, out.data(), &positions);
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * out.size());
}

void ids_grouped(benchmark::State& state) {
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  for (auto _ : state) benchmark::DoNotOptimize(RowGroups(ids, std::nullopt).indices.data());
  state.SetItemsProcessed(state.iterations() * state.range(1));
}

void rows_merged(benchmark::State& state) {
  const std::size_t width = argument(state, 2);
  const auto ids = random_ids(argument(state, 1), argument(state, 0));
  const Tensor values = full({ids.size(), width}, 1);
  const auto groups = RowGroups(ids, std::nullopt);
  for (auto _ : state) benchmark::DoNotOptimize(merge_rows(ids, values).values.data());
  count_numbers(state, (ids.size() + groups.indices.size()) * width);
}

void embedding_sizes(benchmark::internal::Benchmark* run) {
  run->ArgNames({"V", "ids", "d"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const std::int64_t vocabulary : {1000, 50257, 1000000}) run->Args({vocabulary, 16384, 256});
  run->Args({50257, 32, 256});
}
BENCHMARK(rows_gathered)->Apply(embedding_sizes);
BENCHMARK(rows_gathered_and_added)->Apply(embedding_sizes);
BENCHMARK(ids_grouped)->Apply(embedding_sizes);
BENCHMARK(rows_merged)->Apply(embedding_sizes);

// Arguments: rows, classes.
Tensor random_logits(const benchmark::State& state) {
  return Random(1).normal({argument(state, 0), argument(state, 1)});
}

void softmax(benchmark::State& state) {
  const Tensor x = random_logits(state);
  Tensor y = empty(x.shape());
  for (auto _ : state) {
    softmax_rows(x.data(), x.shape()[0], x.shape()[1], y.data());
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * x.size());
}

void log_sum_exp(benchmark::State& state) {
  const Tensor x = random_logits(state);
  std::vector<ExpSum> sums(x.shape()[0]);
  for (auto _ : state) {
    exp_sum_rows(x.data(), x.shape()[0], x.shape()[1], false, sums.data());
    benchmark::ClobberMemory();
  }
  count_numbers(state, x.size());
}

void cross_entropy_backward(benchmark::State& state) {
  const Tensor x = random_logits(state);
  const std::vector<ExpSum> sums(x.shape()[0], {10, 1});
  const auto targets = random_ids(x.shape()[0], x.shape()[1]);
  const std::vector<real> weights(x.shape()[0], 1);
  Tensor gradient = empty(x.shape());
  for (auto _ : state) {
    cross_entropy_rows_backward(x.data(), sums.data(), targets.data(), weights.data(), 1,
                                x.shape()[0], x.shape()[1], gradient.data());
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * x.size());
}

void logit_sizes(benchmark::internal::Benchmark* run) {
  run->ArgNames({"rows", "classes"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  run->Args({32, 1132})->Args({32, 50257})->Args({512, 50257});
}
BENCHMARK(softmax)->Apply(logit_sizes);
BENCHMARK(log_sum_exp)->Apply(logit_sizes);
BENCHMARK(cross_entropy_backward)->Apply(logit_sizes);

const auto kAdd = [](const Simd& a, const Simd& b) { return a + b; };

// [batch, 256, 256] + [256, 256]: positions.
void broadcast_add(benchmark::State& state) {
  const Tensor x = full({argument(state, 0), 256, 256}, 1);
  const Tensor positions = full({256, 256}, 1);
  Tensor result = empty(x.shape());
  for (auto _ : state) {
    broadcast_into(result, kAdd, x, positions);
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * x.size());
}
BENCHMARK(broadcast_add)->Arg(1)->Arg(64)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Argument: numbers.
void exponentials(benchmark::State& state) {
  const Tensor x = full({argument(state, 0)}, 1);
  Tensor y = empty(x.shape());
  for (auto _ : state) {
    map_into(
        x.size(), y.data(), [](const Simd& number) { return exp(number); }, x.data());
    benchmark::ClobberMemory();
  }
  count_numbers(state, 2 * x.size());
}

void sum_of_all(benchmark::State& state) {
  const Tensor x = full({argument(state, 0)}, 1);
  for (auto _ : state) benchmark::DoNotOptimize(sum(x.data(), x.size()));
  count_numbers(state, x.size());
}

void number_counts(benchmark::internal::Benchmark* run) {
  run->Arg(1 << 13)->Arg(1 << 22)->UseRealTime()->Unit(benchmark::kMicrosecond);
}
BENCHMARK(exponentials)->Apply(number_counts);
BENCHMARK(sum_of_all)->Apply(number_counts);

// The products of a linear layer, [rows, inputs] → [rows, outputs]: forward, dX and dW.
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
  state.counters["flop/s"] = benchmark::Counter(6.0 * static_cast<double>(rows * inputs * outputs),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(gemm_trio)
    ->ArgNames({"rows", "inputs", "outputs"})
    ->Args({32, 256, 50257})
    ->Args({32, 256, 1132})
    ->Args({4096, 256, 50257})
    ->Args({512, 768, 50257})
    ->Args({512, 768, 2304})
    ->Args({512, 768, 768})
    ->Args({512, 768, 3072})
    ->Args({512, 3072, 768})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

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
  state.counters["flop/s"] = benchmark::Counter(6.0 * static_cast<double>(rows * inputs * classes),
                                                benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(head)
    ->ArgNames({"rows", "inputs", "classes"})
    ->Args({32, 256, 50257})
    ->Args({32, 256, 1132})
    ->Args({4096, 256, 50257})
    ->Args({512, 768, 50257})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

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

// Allocates a block that was freed before. Argument: bytes.
void pool_block(benchmark::State& state) {
  const std::size_t bytes = argument(state, 0);
  for (auto _ : state) {
    void* block = BufferPool::allocate(bytes);
    benchmark::DoNotOptimize(block);
    BufferPool::deallocate(block, bytes);
  }
}
BENCHMARK(pool_block)->Arg(256)->Arg(1 << 20)->Arg(1 << 28);

}  // namespace
}  // namespace rowgrad::kernels
