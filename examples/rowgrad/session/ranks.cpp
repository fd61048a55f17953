#include <algorithm>
#include <sstream>
#include <thread>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/cpu_quota.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/blas/gemm.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/examples/rowgrad/session/ranks.hpp>

namespace rowgrad {

std::unique_ptr<ProcessGroup> program_ranks(double timeout) {
  if (!started_by_mpi()) return nullptr;
  blas::prepare();  // before MPI starts threads
  auto ranks = mpi_process_group(timeout);
  if (ranks->size() == 1) return nullptr;
  // Ranks with the same boot id share a machine: each boot of a kernel has a unique id.
  const auto machines = ranks->all_gather_lists(read_file("/proc/sys/kernel/random/boot_id"));
  const auto here = static_cast<int>(std::ranges::count(machines, machines[ranks->rank()]));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  set_threads(std::clamp(std::min(cores, cpu_quota().value_or(cores)) / here, 1, thread_count()));
  return ranks;
}

void check_same_on_all(ProcessGroup& ranks, const std::map<std::string, std::string>& facts) {
  std::string lines;
  for (const auto& [name, value] : facts) lines += concat(name, ": ", value, '\n');
  const std::vector<std::string> texts = ranks.all_gather_lists(lines);
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    std::istringstream first(texts.front()), others(texts[rank]);
    for (std::string expected, found; std::getline(first, expected);) {
      std::getline(others, found);
      const std::size_t begin = expected.find(": ") + 2;  // start of the value
      const std::string fact = expected.substr(0, begin);
      check_runtime(found == expected, ranks.name_of(rank), " and ", ranks.name_of(0),
                    " have different values of ", fact.substr(0, begin - 2), ": got ",
                    found.starts_with(fact) ? found.substr(begin) : "none", ", expected ",
                    expected.substr(begin));
    }
  }
}

}  // namespace rowgrad
