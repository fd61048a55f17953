#include "tests/bench/bench_options.hpp"

#include <algorithm>
#include <thread>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/examples/support/data_files.hpp>

namespace rowgrad::bench {
namespace {

std::uint64_t usable_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace

Options default_options() {
  Options options;
  // Only a query: starts no threads.
  options.threads = std::min(static_cast<std::uint64_t>(thread_count()), usable_cores());
  return options;
}

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

std::vector<Workload> checked_workloads(const Options& options) {
  check_outputs({options.json}, {});
  check_argument(options.threads <= usable_cores(), "--threads ", options.threads,
                 ": expected at most ", usable_cores(), ", the cores that this process may use");
  return selected(listed_workloads(options.sweep, static_cast<int>(options.threads)),
                  options.workloads);
}

}  // namespace rowgrad::bench
