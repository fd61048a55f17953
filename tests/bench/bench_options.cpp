#include "tests/bench/bench_options.hpp"

#include <algorithm>
#include <thread>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/output_files.hpp>

namespace rowgrad::bench {
namespace {

int usable_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

Options default_options() {
  Options options;
  // Only a query: starts no threads.
  options.threads = std::min(thread_count(), usable_cores());
  return options;
}

void add_options(CLI::App& app, Options& options) {
  app.option_defaults()->always_capture_default();
  app.add_option("--workload", options.workloads,
                 "only this one, or all that begin so (W1b); can be given more than once")
      ->allow_extra_args(false)
      ->default_str("");
  app.add_option("--sweep", options.sweep, "instead of the workloads: how cost grows with this")
      ->check(CLI::IsMember(kSweeps));
  auto* repeats = app.add_option("--repeats", options.pace.repeats,
                                 "steps that count; if not given, as --seconds says")
                      ->check(whole_number(1))
                      ->default_str("");
  app.add_option("--seconds", options.pace.seconds,
                 "to go on with the steps that count, of which there are at least three")
      ->check(finite_number(0, 3600))
      ->excludes(repeats);
  app.add_option("--warm-up", options.pace.warm_up, "steps before those that count")
      ->check(whole_number(0));
  app.add_option("--threads", options.threads, "of rowgrad and OpenBLAS")->check(whole_number(1));
  auto* floor = app.add_flag("--floor", options.floor,
                             "measure also the least time that each can take on this machine");
  auto* json = app.add_option("--json", options.json, "file to write all figures to");
  app.add_flag("--list", options.list, "show the workloads and measure nothing")
      ->excludes(floor)
      ->excludes(json);
}

std::vector<Workload> checked_workloads(const Options& options) {
  check_outputs({options.json}, {});
  check_argument(options.threads <= usable_cores(), "--threads ", options.threads,
                 ": expected at most ", usable_cores(), ", the cores that this process may use");
  return selected(listed_workloads(options.sweep, options.threads), options.workloads);
}

}  // namespace rowgrad::bench
