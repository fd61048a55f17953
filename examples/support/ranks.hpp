#pragma once

// Programs that mpirun has started several times, to train one model together.

#include <memory>
#include <streambuf>

#include <nlohmann/json.hpp>

#include <rowgrad/core/base/process_group.hpp>

namespace rowgrad {

/// The processes of this run; null if mpirun has not started it, or started it once. If a rank lets
/// others wait for `patience` seconds, that is an error. Each process gets its share of the
/// machine's threads. Throws std::runtime_error as mpi_process_group.
std::unique_ptr<ProcessGroup> program_ranks(double patience);

/// Throws std::runtime_error naming a rank and a fact, if facts are not the same on all ranks. A
/// fact is a member of the object `facts`.
void check_same_on_all(ProcessGroup& ranks, const nlohmann::json& facts);

/// While one exists, what is written to standard output goes nowhere.
class SilentOutput {
 public:
  SilentOutput();
  ~SilentOutput();
  SilentOutput(const SilentOutput&) = delete;
  SilentOutput& operator=(const SilentOutput&) = delete;

 private:
  class Nowhere : public std::streambuf {
    int overflow(int byte) override { return byte == EOF ? 0 : byte; }
  };
  Nowhere nowhere_;
  std::streambuf* before_;
};

}  // namespace rowgrad
