#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <thread>

#include <rowgrad/core/base/threads.hpp>
#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/examples/support/ranks.hpp>
#ifdef ROWGRAD_MPI
#include <rowgrad/core/parallel/mpi_ranks.hpp>
#endif

namespace rowgrad {
namespace {

// A number that mpirun passes on, under the names of Open MPI, MPICH and Slurm.
int passed_on(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return std::atoi(value);
  return 1;
}

}  // namespace

std::unique_ptr<Ranks> program_ranks([[maybe_unused]] double patience) {
  if (passed_on({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) < 2) return nullptr;
#ifdef ROWGRAD_MPI
  auto ranks = mpi_ranks(patience);
  const int here = passed_on({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  set_threads(std::clamp(cores / std::max(here, 1), 1, thread_count()));
  return ranks;
#else
  throw std::runtime_error(
      "mpirun needs programs that are built with MPI: install libopenmpi-dev and build again");
#endif
}

void check_same_on_all(Ranks& ranks, const nlohmann::json& facts) {
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
