#include <cmath>
#include <map>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::bench {
namespace {

// How many different ones of `count` ids a batch has on average: V (1 − (1 − 1/V)ⁿ) for n out of V.
double distinct_ids(const Workload& workload, std::size_t count) {
  const auto of = static_cast<double>(count);
  const auto ids = static_cast<double>(workload.tokens());
  return -of * std::expm1(ids * std::log1p(-1 / of));
}

// How often an optimizer reads or writes each number of a parameter, its gradient and its states.
double optimizer_accesses(const std::string& optimizer) {
  constexpr double kGradient = 1;   // read
  constexpr double kParameter = 2;  // read and written
  constexpr double kState = 2;      // read and written
  static const std::map<std::string, double> kStates{
      {"sgd", 0}, {"momentum", 1}, {"momentum-decay", 1}, {"adamw", 2}, {"sparse-adam", 2}};
  return kGradient + kParameter + kState * kStates.at(optimizer);
}

// Numbers, not bytes.
double embedding_numbers(const Workload& workload) {
  const auto width = static_cast<double>(workload.width);
  const double looked_up = static_cast<double>(workload.tokens()) * width;
  const double rows =
      (distinct_ids(workload, workload.vocabulary) + static_cast<double>(workload.context)) * width;
  return rows         // rows of tokens and positions, read
         + looked_up  // token + position, written: a block of sums at a time
         + looked_up  // the gradient of that sum, read and merged
         + rows       // row gradients of both tables, written
         + rows * optimizer_accesses(workload.optimizer);
}

// Of the linear layers of all blocks: four of attention, two of width · 4 width.
double block_weights(const Workload& workload) {
  const auto width = static_cast<double>(workload.width);
  return static_cast<double>(workload.layers) * 12 * width * width;
}

// The memory of n-grams: rows read and put side by side, their gradient read, row gradients written
// and merged, and the update.
double memory_numbers(const Workload& workload) {
  constexpr std::size_t kLookups = kNgramOrders * kNgramHeads;
  if (workload.ngram_rows == 0) return 0;
  const double looked_up = static_cast<double>(workload.tokens() * kLookups * kNgramWidth);
  const double rows =
      kLookups * distinct_ids(workload, workload.ngram_rows) * static_cast<double>(kNgramWidth);
  return 2 * looked_up + rows * (2 + optimizer_accesses(workload.optimizer));
}

// Of its key and value.
double memory_weights(const Workload& workload) {
  if (workload.ngram_rows == 0) return 0;
  return 2.0 * kNgramOrders * kNgramHeads * kNgramWidth * static_cast<double>(workload.width);
}

double head_numbers(const Workload& workload) {
  const auto vocabulary = static_cast<double>(workload.vocabulary);
  const double parameters = vocabulary * static_cast<double>(workload.width + 1);  // weight, bias
  return vocabulary  // gradient of the bias, written; that of the weight is written by a product
         + parameters * optimizer_accesses(workload.optimizer);
}

// The bytes that any implementation of a step reads and writes: each number once for every use,
// with each value and each merged row gradient written once. Numbers that can stay in the cache
// between two uses (logits, which can be computed a block at a time; a row that is looked up
// twice) count once or not at all, and what matrix products read and write is part of their time.
// If everything fits in the cache, as in the smallest workloads, a step may beat its floor.
double bytes_to_move(const Workload& workload) {
  double numbers = embedding_numbers(workload);
  if (workload.model != "embed") numbers += head_numbers(workload);
  numbers += memory_numbers(workload);
  numbers +=
      (block_weights(workload) + memory_weights(workload)) * optimizer_accesses(workload.optimizer);
  return numbers * sizeof(real);
}

// 2 · rows · inner · columns for each of the three products of a linear layer, and the seven of
// causal attention, one of which is made again in the backward pass; half of each is above the
// diagonal. 0 without a head.
double product_operations(const Workload& workload) {
  if (workload.model == "embed") return 0;
  const auto tokens = static_cast<double>(workload.tokens());
  const auto width = static_cast<double>(workload.width);
  const double head = width * static_cast<double>(workload.vocabulary);
  const double attention =
      7 * static_cast<double>(workload.context * workload.layers) * tokens * width;
  return 3 * 2 * tokens * (block_weights(workload) + memory_weights(workload) + head) + attention;
}

}  // namespace

MachineRates measure_rates(const Pace& pace) {
  constexpr std::size_t kCount = std::size_t{64} << 20, kSide = 2048;
  constexpr double kAccesses = 3;  // x read, y read and written
  const Tensor x = full({kCount}, 1);
  Tensor y = full({kCount}, 1);
  const auto add = [](const kernels::Simd& sum, const kernels::Simd& number) {
    return sum + kernels::Simd(real{0.5}) * number;
  };
  const Timing sum =
      time_runs([&] { kernels::map_into(kCount, y.data(), add, y.data(), x.data()); }, pace);
  const blas::MatrixView factor{x.data(), kSide, kSide};
  const auto multiply = [&] { blas::gemm(factor, factor, {y.data(), kSide, kSide}); };
  const Timing product = time_runs(multiply, pace);
  return {.bytes_per_second = kAccesses * kCount * sizeof(real) / sum.median_seconds,
          .operations_per_second = 2.0 * kSide * kSide * kSide / product.median_seconds};
}

nlohmann::json floor_of(const Workload& workload, const MachineRates& rates) {
  const double bytes = bytes_to_move(workload);
  const double operations = product_operations(workload);
  const double products = operations / rates.operations_per_second;
  return {{"floor_us", (products + bytes / rates.bytes_per_second) * 1e6},
          {"products_us", products * 1e6},
          {"product_operations", operations},
          {"operations_per_second", rates.operations_per_second},
          {"bytes", bytes},
          {"bytes_per_second", rates.bytes_per_second}};
}

}  // namespace rowgrad::bench
