// Measures training steps, each workload in a process of its own. torch_workloads.py does the same
// for PyTorch, and compare.sh runs the two in turn.
//
//   W1   token embedding + learned positions, backward, SGD: the cost of sparse row gradients
//   W1b  the same with larger batches and tables of up to four million rows
//   W2   the toy next-token model: W1's embedding, a linear head, cross-entropy, SGD
//   W3   a small GPT; W4 has GPT-2's sizes: AdamW
//   W5   W3 with a larger vocabulary and a memory of n-grams of 8 · 10⁴ or 8 · 10⁶ rows: AdamW for
//        all rows, and in W5-1M-sparse for those that were looked up alone

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/program.hpp>

namespace rowgrad::bench {
namespace {

using nlohmann::json;

std::uint64_t usable_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

struct Options {
  std::vector<std::string> workloads = {};  // by name; empty for all
  std::string sweep = {};                   // instead of the workloads
  Pace pace = {};
  // Which OMP_NUM_THREADS limits. Only a query: starts no threads.
  std::uint64_t threads = std::min(static_cast<std::uint64_t>(thread_count()), usable_cores());
  bool floor = false;
  bool list = false;
  std::string json = {};  // file to write; "" for none
};

OptionTable option_table_of(Options& o) {
  return {
      {"--workload", &o.workloads,
       "only this one, or all that begin so (W1b); can be given more than once"},
      {"--sweep", &o.sweep, "instead of the workloads: how cost grows with this", one_of(kSweeps)},
      {"--repeats", &o.pace.repeats, "steps that count; if not given, as --seconds says",
       whole_number(1)},
      {"--seconds", &o.pace.seconds,
       "to go on with the steps that count, of which there are at least three",
       finite_number(0, 3600) + excludes({"--repeats"})},
      {"--warm-up", &o.pace.warm_up, "steps before those that count", whole_number(0)},
      {"--threads", &o.threads, "of rowgrad and OpenBLAS", whole_number(1)},
      {"--floor", &o.floor, "measure also the least time that each can take on this machine"},
      {"--json", &o.json, "file to write all figures to"},
      {"--list", &o.list, "show the workloads and measure nothing",
       excludes({"--floor", "--json"})}};
}

json outcome_of(const std::function<json()>& work) {
  try {
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    json result = work();
    result["start_bytes"] = 1024 * before.ru_maxrss;
    return result;
  } catch (const std::bad_alloc&) {
    return {{"error", "there is not enough memory"}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

// Runs `work` in a process of its own and returns its result, with `peak_bytes`, the most memory
// that the process had at any time, and `start_bytes`, what it had before `work` began. The
// operating system never lowers the peak of a process, so in a single process a small workload
// would get the peak of a larger one before it.
json in_own_process(const std::function<json()>& work) {
  std::cout.flush();
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  check_runtime(file != nullptr, "there is no room for a temporary file");
  const pid_t child = fork();
  check_runtime(child >= 0, "there is no room for a process");
  if (child == 0) {
    const std::string result = outcome_of(work).dump();
    std::fwrite(result.data(), 1, result.size(), file.get());
    // Only the parent does what the program does at its end.
    _exit(std::fflush(file.get()) == 0 ? 0 : 1);
  }
  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0)
    check_runtime(errno == EINTR, "its process cannot be waited for");
  check_runtime(!WIFSIGNALED(status), "its process was ended by signal ", WTERMSIG(status),
                "; is there enough memory?");
  check_runtime(WEXITSTATUS(status) == 0, "its process failed");
  std::rewind(file.get());
  auto result = json::parse(file.get());
  if (result.contains("error")) throw std::runtime_error(result["error"].get<std::string>());
  result["peak_bytes"] = 1024 * usage.ru_maxrss;
  return result;
}

// `W1b-1k embed sgd V 1000 d 256 B 64 T 256 2 threads`, in columns, without a line end.
void print_workload(const Workload& workload) {
  std::cout << std::left << std::setw(20) << workload.name << std::setw(6) << workload.model
            << std::setw(15) << workload.optimizer << " V " << std::setw(8) << workload.vocabulary
            << "d " << std::setw(5) << workload.width << "B " << std::setw(4) << workload.batch
            << "T " << std::setw(4) << workload.context << workload.threads
            << (workload.threads == 1 ? " thread " : " threads") << std::right;
}

// The rest of that line.
void print_result(const json& result) {
  constexpr double kMebibyte = 1 << 20;
  const auto number = [&](const std::string& key) { return result.at(key).get<double>(); };
  std::cout << std::fixed << std::setprecision(1) << std::setw(12) << number("median_us") << " µs"
            << std::setprecision(0) << std::setw(12) << number("tokens_per_second") << " tokens/s"
            << std::setw(8) << number("peak_bytes") / kMebibyte << " MiB";
  const char* separator = "   ";
  for (const char* part : {"forward", "backward", "update"}) {
    std::cout << separator << part << ' ' << 100 * number(concat(part, "_us")) / number("median_us")
              << " %";
    separator = ", ";
  }
  if (result.contains("floor"))
    std::cout << "  floor " << std::setprecision(1)
              << result.at("floor").at("floor_us").get<double>() << " µs";
}

void run(const Options& options) {
  check_outputs({options.json}, {});
  check_argument(options.threads <= usable_cores(), "--threads ", options.threads,
                 ": expected at most ", usable_cores(), ", the cores that this process may use");
  const std::vector<Workload> workloads = selected(
      listed_workloads(options.sweep, static_cast<int>(options.threads)), options.workloads);
  std::map<int, MachineRates> rates;  // with that many threads, each measured once
  const auto measured = [&](const Workload& workload) {
    json result = workload;
    result.update(in_own_process([&] { return measure(workload, options.pace); }));
    if (!options.floor) return result;
    if (!rates.contains(workload.threads))
      rates[workload.threads] = in_own_process([&] {
        set_threads(workload.threads);
        return json(measure_rates(options.pace));
      });
    result["floor"] = floor_of(workload, rates.at(workload.threads));
    return result;
  };
  json results = json::array();
  for (const Workload& workload : workloads) {
    print_workload(workload);
    if (!options.list) {
      try {
        results.push_back(measured(workload));
      } catch (const std::exception& error) {
        std::cout << '\n';
        throw std::runtime_error(workload.name + ": " + error.what());
      }
      print_result(results.back());
    }
    std::cout << std::endl;
  }
  if (!results.empty())
    std::cout << "Computed with " << results.back().at("blas").get<std::string>() << '\n';
  // In the form that torch_workloads.py writes, too.
  if (!options.json.empty())
    write_file(options.json, json{{"program", "rowgrad"}, {"results", results}}.dump(2) + "\n");
}

}  // namespace
}  // namespace rowgrad::bench

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_workloads", [&] {
    rowgrad::bench::Options options;
    rowgrad::CommandLine line("Measures training steps: medians, tokens a second and peak memory.",
                              option_table_of(options));
    line.parse(argc, argv);
    rowgrad::bench::run(options);
    return 0;
  });
}
