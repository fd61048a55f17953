// Measures the exchange of gradients between ranks. Run it with mpirun:
//   mpirun -n 2 build/tests/bench/bench_ranks
// Measures the latency of a small message, dense gradients of several sizes, and row gradients of
// tables of several sizes.

#include <algorithm>
#include <cstdio>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kWidth = 64;
constexpr std::size_t kLookups = 4096;  // lookups of a rank in a step: 64 windows of 64 tokens

struct Cost {
  double seconds;      // median, on this rank
  std::uint64_t sent;  // bytes sent by this rank
};

Cost measure(ProcessGroup& ranks, const std::function<void()>& step) {
  std::uint64_t before = 0;
  const auto begin_together = [&] {
    ranks.any(false);
    before = ranks.bytes_sent();
  };
  const bench::Timing timing =
      bench::time_runs(step, {.warm_up = 10, .repeats = 50}, begin_together);
  return {timing.median_seconds, ranks.bytes_sent() - before};
}

void print(const ProcessGroup& ranks, const char* what, std::size_t size, const Cost& cost,
           std::string_view way = "") {
  if (ranks.rank() == 0)
    std::printf("%-26s%10zu%12.1f µs%12ju B sent  %s\n", what, size, 1e6 * cost.seconds,
                std::uintmax_t{cost.sent}, std::string(way).c_str());
}

// Returns the distinct rows that a rank looks up. As with words, a few rows are frequent, and most
// are rare.
std::vector<std::int32_t> rows_of(std::size_t table, std::size_t rank) {
  Random random(rank + 1);
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < kLookups; ++i) {
    const double u = random.uniform_double();
    rows.push_back(static_cast<std::int32_t>(u * u * u * static_cast<double>(table)));
  }
  std::ranges::sort(rows);
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

void run() {
  const auto ranks = mpi_process_group();
  print(*ranks, "one byte to all", 1, measure(*ranks, [&] { ranks->any(false); }));
  for (const std::size_t count :
       {std::size_t{1} << 10, std::size_t{1} << 16, std::size_t{1} << 20, std::size_t{1} << 24}) {
    GradientExchange exchange(*ranks, ranks->size(), {{count}});
    const Tensor values = full({count}, 1);
    std::vector<Gradients> partial;
    const Cost copying = measure(*ranks, [&] { partial = {{Gradient(values)}}; });
    Cost cost = measure(*ranks, [&] { exchange.sum({{Gradient(values)}}); });
    cost.seconds -= copying.seconds;
    print(*ranks, "dense values", count, cost);
  }
  for (std::size_t table = 1000; table <= 4'096'000; table *= 4) {
    GradientExchange exchange(*ranks, ranks->size(), {{table, kWidth}});
    const std::vector<std::int32_t> rows = rows_of(table, ranks->rank());
    const Gradient gradient(RowGradient({table, kWidth}, rows, full({rows.size(), kWidth}, 1)));
    const Cost cost = measure(*ranks, [&] { exchange.sum({{gradient}}); });
    print(*ranks, "row gradient, table rows", table, cost, exchange.ways()[0]);
  }
}

}  // namespace
}  // namespace rowgrad

int main() { rowgrad::run(); }
