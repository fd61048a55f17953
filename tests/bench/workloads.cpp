// The workloads that rowgrad is measured by, one training step an iteration.
//
//   W1   token embedding + learned positions, sum, backward, SGD: what sparse row gradients cost
//   W1b  the same with larger batches and tables of up to four million rows
//   W2   the toy next-token model: W1's embedding, a linear head, cross-entropy, SGD

#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include <rowgrad/core/blas/openblas.hpp>
#include <rowgrad/core/ops/arithmetic.hpp>
#include <rowgrad/core/ops/cross_entropy.hpp>
#include <rowgrad/core/ops/reduction.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kBatches = 16;  // different ones, so that no step finds its rows in the cache

std::vector<Ids> random_batches(std::size_t vocabulary, std::size_t batch, std::size_t context,
                                std::uint64_t seed) {
  Random random(seed);
  std::vector<Ids> batches;
  for (std::size_t i = 0; i < kBatches; ++i) {
    Ids ids = Ids::from_shape({batch, context});
    for (std::int32_t& id : ids.storage())
      id = static_cast<std::int32_t>(random.bits() % vocabulary);
    batches.push_back(std::move(ids));
  }
  return batches;
}

std::size_t argument(const benchmark::State& state, std::size_t i) {
  return static_cast<std::size_t>(state.range(i));
}

// Arguments: vocabulary, width, batch, context.
template <class Made>
void embed(benchmark::State& state, std::in_place_type_t<Made>,
           const typename Made::Options& options) {
  const std::size_t vocabulary = argument(state, 0);
  const std::size_t width = argument(state, 1);
  const std::size_t context = argument(state, 3);
  Embedding token(full({vocabulary, width}, 1));
  Random random(1);
  PositionalEmbedding position(context, width, random);
  Made optimizer({&token.weight(), &position.weight()}, options);
  const auto batches = random_batches(vocabulary, argument(state, 2), context, 1);
  std::size_t i = 0;
  for (auto _ : state) {
    optimizer.zero_grad();
    Tape tape;
    tape.backward(sum(position.forward(token.forward(tape, batches[i++ % kBatches]))));
    optimizer.step();
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<std::int64_t>(argument(state, 2) * context));
}

void toy(benchmark::State& state) {
  const std::size_t vocabulary = argument(state, 0);
  const std::size_t batch = argument(state, 2);
  const std::size_t context = argument(state, 3);
  NextTokenModel model({.vocabulary = vocabulary, .context = context, .width = argument(state, 1)},
                       Random(123));
  SGD sgd(model.parameters(), {.learning_rate = 0.1});
  const auto inputs = random_batches(vocabulary, batch, context, 1);
  const auto targets = random_batches(vocabulary, batch, context, 2);
  std::size_t i = 0;
  for (auto _ : state) {
    sgd.zero_grad();
    Tape tape;
    tape.backward(cross_entropy(model.forward(tape, inputs[i % kBatches]), targets[i % kBatches]));
    sgd.step();
    ++i;
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(batch * context));
}

const SgdOptions kPlain{.learning_rate = 0.1};
const SgdOptions kMomentum{.learning_rate = 0.1, .momentum = 0.9};
const SgdOptions kDecay{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};

void W1(benchmark::internal::Benchmark* workload) {
  workload->Args({50257, 256, 8, 4})->UseRealTime();
}
BENCHMARK_CAPTURE(embed, plain, std::in_place_type<SGD>, kPlain)->Name("W1")->Apply(W1);
BENCHMARK_CAPTURE(embed, momentum, std::in_place_type<SGD>, kMomentum)
    ->Name("W1_momentum")
    ->Apply(W1);
BENCHMARK_CAPTURE(embed, decay, std::in_place_type<SGD>, kDecay)
    ->Name("W1_momentum_decay")
    ->Apply(W1);
BENCHMARK_CAPTURE(embed, adamw, std::in_place_type<AdamW>, AdamWOptions())
    ->Name("W1_adamw")
    ->Apply(W1);
BENCHMARK_CAPTURE(embed, plain, std::in_place_type<SGD>, kPlain)
    ->Name("W1b")
    ->Args({1000, 256, 64, 256})
    ->Args({50257, 256, 64, 256})
    ->Args({1000000, 256, 64, 256})
    ->Args({4000000, 256, 64, 256})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();
BENCHMARK(toy)
    ->Name("W2")
    ->Args({1132, 256, 8, 4})
    ->Args({50257, 256, 8, 4})
    ->Args({50257, 256, 64, 64})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("blas", rowgrad::blas::describe());
  benchmark::RunSpecifiedBenchmarks();
}
