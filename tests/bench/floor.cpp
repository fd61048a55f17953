#include "tests/bench/floor.hpp"

#include <map>

#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/blas/openblas.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>

namespace rowgrad::bench {
namespace {

// Times an optimizer reads or writes a number of a parameter, its gradient and its states.
double optimizer_accesses(const std::string& optimizer) {
  constexpr double kGradient = 1;   // read
  constexpr double kParameter = 2;  // read and written
  constexpr double kState = 2;      // read and written
  static const std::map<std::string, double> kStates{
      {"sgd", 0}, {"momentum", 1}, {"momentum-decay", 1}, {"adamw", 2}};
  return kGradient + kParameter + kState * kStates.at(optimizer);
}

// Numbers, not bytes.
double embedding_numbers(const Workload& workload) {
  const auto width = static_cast<double>(workload.width);
  const double looked_up = static_cast<double>(workload.tokens()) * width;
  const double rows = (distinct_ids(workload) + static_cast<double>(workload.context)) * width;
  return rows         // tokens' and positions' rows, read
         + looked_up  // token + position, written: a block of sums at a time
         + looked_up  // the same, read: by the sum, or merged as the gradient of a head
         + rows       // row gradients of both tables, written
         + rows * optimizer_accesses(workload.optimizer);
}

double head_numbers(const Workload& workload) {
  const auto vocabulary = static_cast<double>(workload.vocabulary);
  const double parameters = vocabulary * static_cast<double>(workload.width + 1);  // weight, bias
  return vocabulary  // gradient of the bias, written; that of the weight is written by a product
         + parameters * optimizer_accesses(workload.optimizer);
}

}  // namespace

double bytes_to_move(const Workload& workload) {
  double numbers = embedding_numbers(workload);
  if (workload.model == "toy") numbers += head_numbers(workload);
  return numbers * sizeof(real);
}

double product_operations(const Workload& workload) {
  if (workload.model != "toy") return 0;
  return 3 * 2.0 * static_cast<double>(workload.tokens()) * static_cast<double>(workload.width) *
         static_cast<double>(workload.vocabulary);
}

double measured_memory_rate(const Pace& pace) {
  constexpr std::size_t kCount = std::size_t{64} << 20;
  constexpr double kAccesses = 3;  // x read, y read and written
  const Tensor x = full({kCount}, 1);
  Tensor y = full({kCount}, 1);
  const auto add = [](const kernels::Simd& sum, const kernels::Simd& number) {
    return sum + kernels::Simd(real{0.5}) * number;
  };
  const Timing timing =
      time_runs([&] { kernels::map_into(kCount, y.data(), add, y.data(), x.data()); }, pace);
  return kAccesses * kCount * sizeof(real) / timing.median_seconds;
}

double measured_product_seconds(const Workload& workload, const Pace& pace) {
  if (workload.model != "toy") return 0;
  const std::size_t rows = workload.tokens();
  const std::size_t inner = workload.width;
  const std::size_t columns = workload.vocabulary;
  const Tensor x = full({rows, inner}, 1);
  const Tensor weight = full({columns, inner}, 1);
  Tensor logits = full({rows, columns}, 1);  // and their gradient: the numbers do not matter
  Tensor x_gradient = full({rows, inner}, 1);
  Tensor weight_gradient = full({columns, inner}, 1);
  const blas::ConstMatrix of_x{x.data(), rows, inner};
  const blas::ConstMatrix of_weight{weight.data(), columns, inner};
  const blas::ConstMatrix upstream{logits.data(), rows, columns};
  return time_runs(
             [&] {
               blas::gemm(of_x, transposed(of_weight), {logits.data(), rows, columns});
               blas::gemm(upstream, of_weight, {x_gradient.data(), rows, inner});
               blas::gemm(transposed(upstream), of_x, {weight_gradient.data(), columns, inner});
             },
             pace)
      .median_seconds;
}

nlohmann::json measure_floor(const Workload& workload, double memory_rate, const Pace& pace) {
  blas::set_threads(workload.threads);
  const double products = measured_product_seconds(workload, pace);
  const double bytes = bytes_to_move(workload);
  const double operations = product_operations(workload);
  return {{"floor_us", (products + bytes / memory_rate) * 1e6},
          {"products_us", products * 1e6},
          {"product_operations", operations},
          {"operations_per_second", products > 0 ? operations / products : 0},
          {"bytes", bytes},
          {"bytes_per_second", memory_rate}};
}

}  // namespace rowgrad::bench
