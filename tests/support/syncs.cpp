#include "tests/support/syncs.hpp"

#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace rowgrad::testing {

static std::function<int(int)> current;

ReplacedSyncs::ReplacedSyncs(std::function<int(int)> replacement) {
  current = std::move(replacement);
}
ReplacedSyncs::~ReplacedSyncs() { current = nullptr; }

bool ReplacedSyncs::any() { return current != nullptr; }

int ReplacedSyncs::sync(int file) { return static_cast<int>(::syscall(SYS_fsync, file)); }

// Replaces the C library's function.
extern "C" int fsync(int file) { return current ? current(file) : ReplacedSyncs::sync(file); }

}  // namespace rowgrad::testing
