// Measures the training steps and the peak memory of one workload. Peak memory is measured for the
// whole process, so a process measures only one workload. torch_workloads.py does the same for
// PyTorch, and compare.sh runs the two in turn.
//
//   W1   token embedding + learned positions, backward, SGD: the cost of row gradients
//   W1b  W1 with larger batches and tables of up to four million rows
//   W2   the toy next-token model: W1's embedding, a linear head, cross-entropy, SGD
//   W3   a small GPT; AdamW
//   W4   a GPT with the dimensions of GPT-2; AdamW
//   W5   W3 with a larger vocabulary and an n-gram memory of 8 · 10⁴ or 8 · 10⁶ rows; AdamW, in
//        W5-1M-sparse only for rows that were looked up

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
  // thread_count() respects OMP_NUM_THREADS, and does not start threads.
  std::uint64_t threads = std::min(static_cast<std::uint64_t>(thread_count()), usable_cores());
  bool floor = false;
  std::string json = {};  // file to write, or ""
  bool force = false;
};

OptionTable option_table_of(Options& o) {
  return {
      {"--workload", &o.workload, "name of the workload in workloads.json", required()},
      {"--repeats", &o.pace.repeats, "number of measured steps (default: see --seconds)",
       whole_number(1)},
      {"--seconds", &o.pace.seconds, "time to measure, for at least three steps",
       finite_number(0, 3600) + excludes({"--repeats"})},
      {"--warm-up", &o.pace.warm_up, "number of steps before the measured steps", whole_number(0)},
      {"--threads", &o.threads, "number of threads", whole_number(1)},
      {"--floor", &o.floor, "also measure the matrix products and memory accesses alone"},
      {"--json", &o.json, "file to write the measurements to"},
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

// Returns the peak memory of the process.
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
      "%s: %.1f µs per step, %.0f tokens/s, %.0f MiB; forward %.0f %%, backward %.0f %%, "
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
  // torch_workloads.py writes the same format.
  if (!options.json.empty())
    write_file(options.json, json{{"program", "rowgrad"}, {"results", {result}}}.dump(2) + "\n");
}

}  // namespace
}  // namespace rowgrad::bench

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_workloads", [&] {
    rowgrad::bench::Options options;
    rowgrad::CommandLine line("bench_workloads",
                              "Measures training steps: medians, tokens/s and peak memory.",
                              option_table_of(options));
    line.parse(argc, argv);
    rowgrad::bench::run(options);
    return 0;
  });
}
