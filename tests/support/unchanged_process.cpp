// Fails each test that leaves the process changed for the tests after it.

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

#include "tests/support/syncs.hpp"
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

class UnchangedProcess : public ::testing::EmptyTestEventListener {
 private:
  void OnTestStart(const ::testing::TestInfo&) override { before_ = state_of_process(); }
  void OnTestEnd(const ::testing::TestInfo&) override {
    State after = state_of_process();
    for (const auto& [what, value] : before_) {
      if (after[what] != value)
        ADD_FAILURE() << "the test changed for others: " << what << ": " << value << " became "
                      << after[what];
      after.erase(what);
    }
    for (const auto& [what, value] : after)
      ADD_FAILURE() << "the test changed for others: " << what << ": " << value;
  }

  State before_;
};

[[maybe_unused]] const bool listens = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new UnchangedProcess);
  return true;
}();

}  // namespace
}  // namespace rowgrad::testing
