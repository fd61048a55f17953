// Tests that a steady training step requests no memory from the operating system. After some steps,
// a seccomp filter turns every system call for memory into a signal.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.hpp"

namespace {

constexpr int kRequested = 3;    // exit status: a step requested memory
constexpr int kUnsupported = 4;  // the kernel does not support seccomp filters

extern "C" void exit_as_requested(int) { _exit(kRequested); }

// Makes every later system call for memory, in any thread, end the process.
void forbid_memory_calls() {
  std::signal(SIGSYS, exit_as_requested);
  constexpr std::array kCalls{__NR_brk, __NR_mmap, __NR_munmap, __NR_mremap, __NR_madvise};
  std::vector<sock_filter> program{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const int call : kCalls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    _exit(kUnsupported);
}

// Returns true if two threads share loops now. On a busy machine, loops may stay on one thread for
// a while.
bool loops_are_shared() {
  std::atomic<int> begun = 0;
  std::atomic<bool> together = false;
  run_ranges(2, FunctionRef([&](std::size_t) {
               ++begun;
               const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
               while (begun < 2 && std::chrono::steady_clock::now() < end)
                 std::this_thread::yield();
               if (begun == 2) together = true;
             }));
  return together;
}

// Makes some steps on two threads, then more with system calls for memory forbidden, and ends the
// process. A thread that joined later would request memory for its stack and computations.
void make_steps(const std::function<void(int)>& step) {
  constexpr int kUntilSteady = 40;  // all 16 batches are used at least twice
  constexpr int kSteady = 32;
  constexpr int kMaxSteps = 2000;
  set_threads(2);
  int made = 0;
  for (int shared = 0; shared < kUntilSteady && made < kMaxSteps; ++made) {
    shared += loops_are_shared();
    step(made);
  }
  forbid_memory_calls();
  for (int i = 0; i < kSteady; ++i) step(made + i);
  _exit(0);
}

std::vector<Ids> random_batches(const std::vector<std::size_t>& shape, std::size_t vocabulary) {
  Random random(1);
  std::vector<Ids> batches(16, Ids::from_shape(shape));
  for (Ids& batch : batches)
    for (std::int32_t& id : batch.storage())
      id = static_cast<std::int32_t>(random.bits() % vocabulary);
  return batches;
}

void train_model(std::size_t texts, std::size_t context, const SgdOptions& options) {
  NextTokenModel model({.vocabulary = 1132, .context = context, .width = 64, .hidden = {64}},
                       Random(1));
  SGD sgd(model.parameters(), options);
  const auto batches = random_batches({texts, context}, 1132);
  make_steps([&](int i) {
    sgd.zero_grad();
    Tape tape;
    const auto at = static_cast<std::size_t>(i);
    tape.backward(model.loss(tape, batches[at % 16], batches[(at + 1) % 16]));
    clip_grad_norm(model.parameters(), 1);
    sgd.step();
  });
}

class SteadyStep : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(ROWGRAD_ADDRESS_SANITIZER)
    GTEST_SKIP() << "AddressSanitizer allocates memory itself";
#endif
    std::uint32_t action = SECCOMP_RET_TRAP;
    if (syscall(__NR_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
      GTEST_SKIP() << "this system does not support system call filters";
    // Steps run in a newly started program, because threads do not survive a fork.
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }
};

// Stores how the process ended, and accepts every exit status.
auto noted_in(int& status) {
  return [&status](int ended) {
    status = ended;
    return true;
  };
}

// If a busy machine lets a thread join late, the steps are repeated. A step that always requests
// memory does so each time.
#define EXPECT_NO_REQUEST(steps)                           \
  do {                                                     \
    int status = -1;                                       \
    for (int tries = 0; tries < 6 && status != 0; ++tries) \
      EXPECT_EXIT(steps, noted_in(status), "");            \
    EXPECT_EQ(status, 0);                                  \
  } while (false)

TEST_F(SteadyStep, RequestsNoMemory) {
  EXPECT_NO_REQUEST(train_model(16, 16, {}));
  EXPECT_NO_REQUEST(train_model(16, 16, {.momentum = 0.9}));
  EXPECT_NO_REQUEST(train_model(64, 64, {}));
}

TEST_F(SteadyStep, DetectsStepsThatRequestMemory) {
  const auto grow = [](int i) { empty({static_cast<std::size_t>(i + 1) << 20}); };
  EXPECT_EXIT(make_steps(grow), ::testing::ExitedWithCode(kRequested), "");
}

}  // namespace
