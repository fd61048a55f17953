#include "tests/bench/own_process.hpp"

#include <array>
#include <cerrno>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include <rowgrad/core/base/check.hpp>

namespace rowgrad::bench {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::size_t bytes(const rusage& usage) { return static_cast<std::size_t>(usage.ru_maxrss) * 1024; }

nlohmann::json outcome(const std::function<nlohmann::json()>& work) {
  try {
    rusage before{};
    getrusage(RUSAGE_SELF, &before);
    nlohmann::json result = work();
    result["start_bytes"] = bytes(before);
    return result;
  } catch (const std::bad_alloc&) {
    return {{"error", "there is not enough memory"}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

// Does not return: only the parent does what the program does at its end.
[[noreturn]] void run_child(const std::function<nlohmann::json()>& work, int out) {
  const std::string message = outcome(work).dump();
  std::size_t written = 0;
  while (written < message.size()) {
    const ssize_t count = write(out, message.data() + written, message.size() - written);
    if (count < 0 && errno != EINTR) _exit(1);
    if (count > 0) written += static_cast<std::size_t>(count);
  }
  _exit(0);
}

std::string read_to_end(int in) {
  std::string message;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t count = read(in, part.data(), part.size());
    if (count < 0 && errno != EINTR) fail("reading from a workload's process");
    if (count == 0) return message;
    if (count > 0) message.append(part.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

nlohmann::json in_own_process(const std::function<nlohmann::json()>& work) {
  std::cout.flush();
  std::array<int, 2> ends;
  if (pipe(ends.data()) != 0) fail("pipe");
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    close(ends[0]);
    run_child(work, ends[1]);
  }
  close(ends[1]);
  const std::string message = read_to_end(ends[0]);
  close(ends[0]);

  int status = 0;
  rusage usage{};
  while (wait4(child, &status, 0, &usage) < 0)
    if (errno != EINTR) fail("wait4");
  check_runtime(!WIFSIGNALED(status), "its process was ended by signal ", WTERMSIG(status),
                "; is there enough memory?");
  check_runtime(WEXITSTATUS(status) == 0, "its process failed");
  auto result = nlohmann::json::parse(message);
  if (result.contains("error")) throw std::runtime_error(result["error"].get<std::string>());
  result["peak_bytes"] = bytes(usage);
  return result;
}

}  // namespace rowgrad::bench
