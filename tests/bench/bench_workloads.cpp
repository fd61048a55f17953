// Measures the training steps of one workload, as the most memory that it takes is that of a
// process. torch_workloads.py does the same for PyTorch, and compare.sh runs the two in turn.
//
//   W1   token embedding + learned positions, backward, SGD: the cost of sparse row gradients
//   W1b  the same with larger batches and tables of up to four million rows
//   W2   the toy next-token model: W1's embedding, a linear head, cross-entropy, SGD
//   W3   a small GPT; W4 has GPT-2's sizes: AdamW
//   W5   W3 with a larger vocabulary and a memory of n-grams of 8 · 10⁴ or 8 · 10⁶ rows: AdamW for
//        all rows, and in W5-1M-sparse for those that were looked up alone

#include <algorithm>
#include <cstdio>
#include <sys/resource.h>
#include <thread>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>

namespace rowgrad::bench {
namespace {

using nlohmann::json;

std::uint64_t usable_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

struct Options {
  std::string workload = {};
  Pace pace = {};
  // Which OMP_NUM_THREADS limits. Only a query: starts no threads.
  std::uint64_t threads = std::min(static_cast<std::uint64_t>(thread_count()), usable_cores());
  bool floor = false;
  std::string json = {};  // file to write; "" for none
  bool force = false;
};

OptionTable option_table_of(Options& o) {
  return {{"--workload", &o.workload, "its name in workloads.json", required()},
          {"--repeats", &o.pace.repeats, "steps that count; if not given, as --seconds says",
           whole_number(1)},
          {"--seconds", &o.pace.seconds,
           "to go on with the steps that count, of which there are at least three",
           finite_number(0, 3600) + excludes({"--repeats"})},
          {"--warm-up", &o.pace.warm_up, "steps before those that count", whole_number(0)},
          {"--threads", &o.threads, "of rowgrad and OpenBLAS", whole_number(1)},
          {"--floor", &o.floor, "measure also its products and memory accesses alone"},
          {"--json", &o.json, "file to write all figures to"},
          force_option(o.force)};
}

Workload listed_workload(const std::string& name) {
  const json list = json::parse(read_file(ROWGRAD_BENCH_WORKLOADS));
  json groups = list.at("sweeps");
  groups["workloads"] = list.at("workloads");
  std::string names;
  for (const json& group : groups)
    for (const json& each : group) {
      if (each.at("name") == name) return each;
      names += concat(names.empty() ? "" : ", ", each.at("name").get<std::string>());
    }
  throw std::invalid_argument(concat("--workload ", name, ": expected one of ", names));
}

// The most memory that the process had at any time.
long peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024 * usage.ru_maxrss;
}

void print(const json& result) {
  const auto number = [&](const std::string& key) { return result.at(key).get<double>(); };
  const auto percent = [&](const std::string& part) {
    return 100 * number(part + "_us") / number("median_us");
  };
  std::printf(
      "%s: %.1f µs a step, %.0f tokens/s, %.0f MiB; forward %.0f %%, backward %.0f %%, "
      "update %.0f %%\n",
      result.at("name").get<std::string>().c_str(), number("median_us"),
      number("tokens_per_second"), number("peak_bytes") / (1 << 20), percent("forward"),
      percent("backward"), percent("update"));
  if (result.contains("floor"))
    std::printf("Floor %.1f µs\n", result.at("floor").at("floor_us").get<double>());
  std::printf("Computed with %s\n", result.at("blas").get<std::string>().c_str());
}

void run(const Options& options) {
  check_outputs({{"--json", options.json, kMeasurements}}, {}, options.force);
  check_argument(options.threads <= usable_cores(), "--threads ", options.threads,
                 ": expected at most ", usable_cores(), ", the cores that this process may use");
  Workload workload = listed_workload(options.workload);
  workload.threads = static_cast<int>(options.threads);
  json result = workload;
  result["start_bytes"] = peak_bytes();
  result.update(measure(workload, options.pace));
  result["peak_bytes"] = peak_bytes();
  if (options.floor) result["floor"] = floor_of(workload, options.pace);
  print(result);
  // In the form that torch_workloads.py writes, too.
  if (!options.json.empty())
    write_file(options.json, json{{"program", "rowgrad"}, {"results", {result}}}.dump(2) + "\n");
}

}  // namespace
}  // namespace rowgrad::bench

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_workloads", [&] {
    rowgrad::bench::Options options;
    rowgrad::CommandLine line("bench_workloads",
                              "Measures training steps: medians, tokens a second and peak memory.",
                              option_table_of(options));
    line.parse(argc, argv);
    rowgrad::bench::run(options);
    return 0;
  });
}
