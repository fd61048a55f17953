// Fails each test that leaves the state of the process changed for later tests.

#include <array>
#include <cfenv>
#include <clocale>
#include <csignal>
#include <filesystem>
#include <map>
#include <new>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/support/process.hpp"
#include "tests/support/syncs.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/threads.hpp"
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/threads.hpp>

namespace rowgrad::testing {
namespace {

using State = std::map<std::string, std::string>;

State state_of_process() {
  State state;
  state["current folder"] = std::filesystem::current_path();
  for (char** variable = environ; *variable != nullptr; ++variable)
    state[concat("environment variable ", *variable)] = "set";
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) == 0)
      state[concat("handler of signal ", signal)] =
          concat(reinterpret_cast<std::uintptr_t>(action.sa_handler));
  }
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    rlimit limit{};
    ::getrlimit(static_cast<__rlimit_resource>(resource), &limit);
    state[concat("limit of resource ", resource)] = concat(limit.rlim_cur);
  }
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  for (int signal = 1; signal < NSIG; ++signal)
    if (::sigismember(&blocked, signal) == 1) state[concat("block of signal ", signal)] = "set";
  const mode_t mask = ::umask(0);
  ::umask(mask);
  state["mask of new files"] = concat(mask);
  state["user"] = concat(::geteuid());
  state["locale"] = std::setlocale(LC_ALL, nullptr);
  state["rounding"] = concat(std::fegetround());
  state["handler of new"] = std::get_new_handler() == nullptr ? "none" : "set";
  state["fsync"] = ReplacedSyncs::any() ? "replaced" : "the kernel's";
  state["threads"] = concat(thread_count());
  return state;
}

// Lists the differences, with the old and new values.
std::string changes(const State& before, State after) {
  std::string all;
  for (const auto& [what, value] : before) {
    if (after[what] != value) all += concat("\n", what, ": ", value, " became ", after[what]);
    after.erase(what);
  }
  for (const auto& [what, value] : after) all += concat("\n", what, ": ", value);
  return all;
}

class UnchangedProcess : public ::testing::EmptyTestEventListener {
 private:
  void OnTestStart(const ::testing::TestInfo&) override { before_ = state_of_process(); }
  void OnTestEnd(const ::testing::TestInfo&) override {
    const std::string changed = changes(before_, state_of_process());
    if (!changed.empty()) ADD_FAILURE() << "the test left the process changed:" << changed;
  }

  State before_;
};

[[maybe_unused]] const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new UnchangedProcess);
  return true;
}();

TEST(UnchangedProcess, DetectsChangesAndScopesUndoThem) {
  const State before = state_of_process();
  const auto expect = [&](const char* what) {
    const std::string changed = changes(before, state_of_process());
    EXPECT_NE(changed.find(what), changed.npos) << what << " in" << changed;
  };
  const TemporaryFolder folder;
  {
    const CurrentFolder current(folder.path());
    expect("current folder");
    const EnvironmentVariable variable("ROWGRAD_UNCHANGED_PROCESS", "1");
    expect("environment variable ROWGRAD_UNCHANGED_PROCESS=1: set");
    const FileMask mask(0123);
    expect("mask of new files");
    const ResourceLimit limit(RLIMIT_NOFILE, 99);
    expect("limit of resource");
    const Handlers handlers;
    std::signal(SIGHUP, SIG_IGN);
    expect(concat("handler of signal ", SIGHUP).c_str());
    const Threads threads(thread_count() + 1);
    expect("threads");
  }
  sigset_t usr1, unblocked;
  ::sigemptyset(&usr1);
  ::sigaddset(&usr1, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &usr1, &unblocked);
  expect(concat("block of signal ", SIGUSR1).c_str());
  ::pthread_sigmask(SIG_SETMASK, &unblocked, nullptr);
  EXPECT_EQ(changes(before, state_of_process()), "");
}

}  // namespace
}  // namespace rowgrad::testing
