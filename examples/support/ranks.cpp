#include <algorithm>
#include <iostream>
#include <thread>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/parallel/mpi_process_group.hpp>
#include <rowgrad/examples/support/ranks.hpp>

namespace rowgrad {

std::unique_ptr<ProcessGroup> program_ranks(double patience) {
  if (!started_by_mpi()) return nullptr;
  auto ranks = mpi_process_group(patience);
  if (ranks->size() == 1) return nullptr;
  // Which ranks share a machine, whoever started them: each boot of a kernel has another id.
  const auto machines = ranks->gather_texts(read_file("/proc/sys/kernel/random/boot_id"));
  const auto here = static_cast<int>(std::ranges::count(machines, machines[ranks->rank()]));
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  set_threads(std::clamp(cores / here, 1, thread_count()));
  return ranks;
}

void check_same_on_all(ProcessGroup& ranks, const nlohmann::json& facts) {
  const std::vector<std::string> texts = ranks.gather_texts(facts.dump());
  const auto first = nlohmann::json::parse(texts.front());
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    const auto others = nlohmann::json::parse(texts[rank]);
    for (const auto& [fact, value] : first.items())
      check_runtime(others.contains(fact) && others[fact] == value, "rank ", rank, " has another ",
                    fact, " than rank 0: ", others.value(fact, nlohmann::json()).dump(),
                    ", expected ", value.dump());
  }
}

SilentOutput::SilentOutput() : before_(std::cout.rdbuf(&nowhere_)) {}
SilentOutput::~SilentOutput() { std::cout.rdbuf(before_); }

}  // namespace rowgrad
