#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/kernels/elementwise.hpp>
#include <rowgrad/core/kernels/rows.hpp>

namespace rowgrad::bench {
namespace {

// Returns the number of slots of an optimizer.
std::size_t optimizer_slots(const std::string& optimizer) {
  static const std::map<std::string, std::size_t> kSlots{
      {"sgd", 0}, {"momentum", 1}, {"momentum-decay", 1}, {"adamw", 2}, {"sparse-adam", 2}};
  return kSlots.at(optimizer);
}

// Returns how often an optimizer accesses memory for each value of a parameter.
double optimizer_accesses(const std::string& optimizer) {
  constexpr double kGradient = 1;   // read
  constexpr double kParameter = 2;  // read and written
  constexpr double kSlot = 2;       // read and written
  return kGradient + kParameter + kSlot * static_cast<double>(optimizer_slots(optimizer));
}

// The memory accesses of steps on the rows of a table: plain loops over a table of the workload's
// size, with the workload's number of random ids. A step does not sort, check or allocate anything.
class RowTraffic {
 public:
  // The table also has `positions` rows at its end, which every step uses.
  RowTraffic(const Workload& workload, std::size_t positions, std::size_t width)
      : vocabulary_(workload.vocabulary),
        positions_(positions),
        width_(width),
        table_(
            full({vocabulary_ + positions, width * (1 + optimizer_slots(workload.optimizer))}, 1)),
        looked_up_(full({workload.tokens(), width}, 1)),
        gradients_(full({workload.tokens(), width}, 1)),
        merged_(full({workload.tokens() + positions, width}, 1)),
        lookups_(random_batches(workload, 1)) {
    for (const Ids& ids : lookups_) {
      std::set<std::size_t> rows(ids.begin(), ids.end());
      for (std::size_t i = 0; i < positions; ++i) rows.insert(vocabulary_ + i);
      updates_.emplace_back(rows.begin(), rows.end());
    }
  }

  // Runs a step on each of the batches, so that rows are cached as in the workload.
  void run() {
    for (std::size_t batch = 0; batch < kBatches; ++batch) {
      look_up(lookups_[batch]);
      merge(updates_[batch].size());
      update(updates_[batch]);
    }
  }

 private:
  // Reads a row for each id, adds the row of its position, and writes the sum.
  void look_up(const Ids& ids) {
    for_rows(ids.size(), [&](std::size_t i, std::size_t end) {
      if (i + ahead_ < end) kernels::prefetch_row(row(ids.data()[i + ahead_]), width_);
      const real* const from = row(ids.data()[i]);
      real* const to = looked_up_.data() + i * width_;
      if (positions_ > 0)
        kernels::map_span(width_, to, std::plus<>(), from, row(vocabulary_ + i % positions_));
      else
        std::copy_n(from, width_, to);
    });
  }

  // Reads a gradient for each id, in order, and writes `count` sums.
  void merge(std::size_t count) {
    const std::size_t all = gradients_.shape()[0];
    for_rows(count, [&](std::size_t i, std::size_t) {
      const std::size_t first = i * all / count;
      real* const to = merged_.data() + i * width_;
      std::copy_n(gradients_.data() + first * width_, width_, to);
      for (std::size_t k = first + 1; k < (i + 1) * all / count; ++k)
        kernels::map_span(width_, to, std::plus<>(), to, gradients_.data() + k * width_);
    });
  }

  // Reads a gradient for each row. Reads and writes the row and its optimizer state, which is next
  // to it.
  void update(const std::vector<std::size_t>& rows) {
    const std::size_t with_state = table_.shape()[1];
    for_rows(rows.size(), [&](std::size_t i, std::size_t end) {
      if (i + ahead_ < end) kernels::prefetch_row(row(rows[i + ahead_]), with_state);
      for (std::size_t at = 0; at < with_state; at += width_)
        kernels::map_span(width_, row(rows[i]) + at, std::plus<>(), row(rows[i]) + at,
                          merged_.data() + i * width_);
    });
  }

  // Calls body(i, end) for each row i on all threads, where `end` is the end of the thread's range.
  void for_rows(std::size_t count, const auto& body) const {
    kernels::parallel_for(count, kernels::row_grain(width_),
                          [&](std::size_t begin, std::size_t end) {
                            for (std::size_t i = begin; i < end; ++i) body(i, end);
                          });
  }

  real* row(std::size_t i) { return table_.data() + i * table_.shape()[1]; }

  std::size_t vocabulary_, positions_, width_;
  std::size_t ahead_ = kernels::rows_ahead(width_);
  Tensor table_, looked_up_, gradients_, merged_;
  std::vector<Ids> lookups_;                       // ids of each batch
  std::vector<std::vector<std::size_t>> updates_;  // rows of each batch, in increasing order
};

// Returns the number of weights in the linear layers of all blocks: four [width, width] for
// attention and two [width, 4 width].
double block_weights(const Workload& workload) {
  const auto width = static_cast<double>(workload.width);
  return static_cast<double>(workload.layers) * 12 * width * width;
}

// Returns the number of weights in the keys and values of the n-gram memory.
double memory_weights(const Workload& workload) {
  if (workload.ngram_rows == 0) return 0;
  return 2.0 * kNgramOrders * kNgramHeads * kNgramWidth * static_cast<double>(workload.width);
}

// Returns the number of values that a step reads and writes for the head, outside matrix products.
double head_accesses(const Workload& workload) {
  const auto vocabulary = static_cast<double>(workload.vocabulary);
  const double parameters = vocabulary * static_cast<double>(workload.width + 1);  // weight, bias
  return vocabulary  // bias gradient, written; a matrix product writes the weight gradient
         + parameters * optimizer_accesses(workload.optimizer);
}

// Returns the shortest time for the rows of the workload's tables in a step. `pace` is in steps.
double row_seconds(const Workload& workload, const Pace& pace) {
  const auto runs = [](std::size_t steps) { return (steps + kBatches - 1) / kBatches; };
  const Pace run_pace{runs(pace.warm_up), runs(pace.repeats), pace.seconds};
  const auto measure = [&](RowTraffic&& traffic) {
    return time_runs([&] { traffic.run(); }, run_pace).least_seconds / kBatches;
  };
  const double seconds = measure(RowTraffic(workload, workload.context, workload.width));
  if (workload.ngram_rows == 0) return seconds;
  constexpr std::size_t kLookups = kNgramOrders * kNgramHeads;
  Workload ngrams = workload;
  ngrams.vocabulary = kLookups * workload.ngram_rows;
  ngrams.context = kLookups * workload.context;
  return seconds + measure(RowTraffic(ngrams, 0, kNgramWidth));
}

// Returns the bytes that every implementation of a step must read and write, except rows of tables:
// each value once for every use. The time of matrix products includes their memory accesses.
double bytes_to_stream(const Workload& workload) {
  double accesses = workload.model != "embed" ? head_accesses(workload) : 0;
  accesses +=
      (block_weights(workload) + memory_weights(workload)) * optimizer_accesses(workload.optimizer);
  return accesses * sizeof(real);
}

// Returns the floating-point operations of the matrix products, 2 · rows · inner · columns each:
// three for each linear layer, and seven for causal attention (one is repeated in the backward
// pass), of which half is above the diagonal and skipped. Returns 0 without a head.
double product_operations(const Workload& workload) {
  if (workload.model == "embed") return 0;
  const auto tokens = static_cast<double>(workload.tokens());
  const auto width = static_cast<double>(workload.width);
  const double head = width * static_cast<double>(workload.vocabulary);
  const double attention =
      7 * static_cast<double>(workload.context * workload.layers) * tokens * width;
  return 3 * 2 * tokens * (block_weights(workload) + memory_weights(workload) + head) + attention;
}

// The rates of the machine.
struct MachineRates {
  double bytes_per_second;       // in y += a · x, with arrays far larger than any cache
  double operations_per_second;  // in a large square product; products of a head are slower
};

MachineRates measure_rates(const Pace& pace) {
  constexpr std::size_t kCount = std::size_t{64} << 20, kSide = 2048;
  constexpr double kAccesses = 3;  // x read, y read and written
  const Tensor x = full({kCount}, 1);
  Tensor y = full({kCount}, 1);
  const auto add = [](const kernels::Simd& sum, const kernels::Simd& term) {
    return sum + kernels::Simd(real{0.5}) * term;
  };
  const Timing sum =
      time_runs([&] { kernels::map_into(kCount, y.data(), add, y.data(), x.data()); }, pace);
  const blas::MatrixView factor{x.data(), kSide, kSide};
  const auto multiply = [&] { blas::gemm(factor, factor, {y.data(), kSide, kSide}); };
  const Timing product = time_runs(multiply, pace);
  return {.bytes_per_second = kAccesses * kCount * sizeof(real) / sum.least_seconds,
          .operations_per_second = 2.0 * kSide * kSide * kSide / product.least_seconds};
}

}  // namespace

nlohmann::json floor_of(const Workload& workload, const Pace& pace) {
  const double rows = row_seconds(workload, pace);
  const MachineRates rates = measure_rates(pace);
  const double bytes = bytes_to_stream(workload);
  const double operations = product_operations(workload);
  const double products = operations / rates.operations_per_second;
  return {{"floor_us", (rows + products + bytes / rates.bytes_per_second) * 1e6},
          {"rows_us", rows * 1e6},
          {"products_us", products * 1e6},
          {"product_operations", operations},
          {"operations_per_second", rates.operations_per_second},
          {"bytes", bytes},
          {"bytes_per_second", rates.bytes_per_second}};
}

}  // namespace rowgrad::bench
