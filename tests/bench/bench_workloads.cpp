// Measures training steps, each workload in a process of its own. torch_workloads.py does the same
// for PyTorch, and compare.sh runs the two in turn.
//
//   W1   token embedding + learned positions, backward, SGD: the cost of sparse row gradients
//   W1b  the same with larger batches and tables of up to four million rows
//   W2   the toy next-token model: W1's embedding, a linear head, cross-entropy, SGD
//   W3   a small GPT; W4 has GPT-2's sizes: AdamW
//   W5   W3 with a larger vocabulary and a memory of n-grams of 8 · 10⁴ or 8 · 10⁶ rows: AdamW for
//        all rows, and in W5-1M-sparse for those that were looked up alone

#include <iostream>
#include <map>

#include "tests/bench/bench_options.hpp"
#include "tests/bench/floor.hpp"
#include "tests/bench/own_process.hpp"
#include "tests/bench/report.hpp"
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/program.hpp>

namespace rowgrad::bench {
namespace {

// The rates of the machine for each number of threads, each measured once.
class Rates {
 public:
  explicit Rates(const Pace& pace) : pace_(pace) {}

  const MachineRates& operator()(int threads) {
    const auto known = rates_.find(threads);
    if (known != rates_.end()) return known->second;
    const auto measured = in_own_process([&] {
      set_threads(threads);
      const MachineRates rates = measure_rates(pace_);
      return nlohmann::json{{"bytes", rates.bytes_per_second},
                            {"operations", rates.operations_per_second}};
    });
    return rates_[threads] = {measured.at("bytes"), measured.at("operations")};
  }

 private:
  Pace pace_;
  std::map<int, MachineRates> rates_;
};

nlohmann::json measured(const Workload& workload, const Options& options, Rates& rates) {
  nlohmann::json result = workload;
  result.update(in_own_process([&] { return measure(workload, options.pace); }));
  if (options.floor) result["floor"] = floor_of(workload, rates(workload.threads));
  return result;
}

void run(const Options& options) {
  const std::vector<Workload> workloads = checked_workloads(options);
  Rates rates(options.pace);
  std::vector<nlohmann::json> results;
  for (const Workload& workload : workloads) {
    print_workload(std::cout, workload);
    if (!options.list) {
      std::cout.flush();
      try {
        results.push_back(measured(workload, options, rates));
      } catch (const std::exception& error) {
        std::cout << '\n';
        throw std::runtime_error(workload.name + ": " + error.what());
      }
      print_result(std::cout, results.back());
    }
    std::cout << std::endl;
  }
  if (!results.empty())
    std::cout << "Computed with " << results.back().at("blas").get<std::string>() << '\n';
  if (!options.json.empty()) write_file(options.json, run_json(results).dump(2) + "\n");
}

}  // namespace
}  // namespace rowgrad::bench

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_workloads", [&] {
    rowgrad::bench::Options options = rowgrad::bench::default_options();
    rowgrad::CommandLine line("Measures training steps: medians, tokens a second and peak memory.",
                              option_table_of(options));
    line.parse(argc, argv);
    rowgrad::bench::run(options);
    return 0;
  });
}
