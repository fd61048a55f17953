#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/cpu_quota.hpp>
#include <rowgrad/core/base/threads.hpp>

namespace rowgrad {
namespace {

using Clock = std::chrono::steady_clock;

// Time that a thread spins before it sleeps: while it waits for the next loop (kLoopSpin), or for
// other threads to finish the current loop (kEndSpin). Waking a thread takes about 12 µs, mostly in
// the thread that wakes it.
constexpr std::chrono::microseconds kLoopSpin{2000};
constexpr std::chrono::microseconds kEndSpin{200};
// A longer gap between two checks of a spinning thread can mean that the thread was preempted.
constexpr std::chrono::microseconds kPreemptionGap{300};
// After a preemption, loops stay on their calling thread for the minimum time. If a thread is soon
// preempted again, the time doubles, up to the maximum.
constexpr std::chrono::milliseconds kMinContention{10}, kMaxContention{320};

thread_local bool computes_range = false;

// Tells the processor that this thread is spinning.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Records preemptions of spinning threads, which show that other programs need the processors.
class ContentionMonitor {
 public:
  bool is_detected(Clock::time_point now) const {
    return now.time_since_epoch() < until_.load(std::memory_order_relaxed);
  }

  void note_preemption(Clock::time_point now) {
    const Clock::duration last = length_.load(std::memory_order_relaxed);
    const bool again = now.time_since_epoch() < until_.load(std::memory_order_relaxed) + last;
    const Clock::duration length =
        again ? std::min<Clock::duration>(2 * last, kMaxContention) : kMinContention;
    length_.store(length, std::memory_order_relaxed);
    until_.store(now.time_since_epoch() + length, std::memory_order_relaxed);
  }

 private:
  std::atomic<Clock::duration> until_{Clock::duration{}};
  std::atomic<Clock::duration> length_{kMinContention};
};

ContentionMonitor contention;

// Returns the number of times the calling thread was preempted (involuntary context switches).
long preemptions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// Spins briefly. Returns true if `state` is no longer `value`.
bool changes_soon(const std::atomic<std::uint32_t>& state, std::uint32_t value) {
  for (int i = 0; i < 64; ++i) {
    if (state.load(std::memory_order_acquire) != value) return true;
    pause();
  }
  return false;
}

// Waits until `state` is no longer `value`: spins for `spin`, then sleeps.
void await_change(const std::atomic<std::uint32_t>& state, std::uint32_t value,
                  Clock::duration spin) {
  if (changes_soon(state, value)) return;
  const long preemptions_before = preemptions();
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin; now < begin + spin && !contention.is_detected(now);) {
    if (changes_soon(state, value)) return;
    const Clock::time_point before = std::exchange(now, Clock::now());
    if (now - before > kPreemptionGap && preemptions() != preemptions_before)
      contention.note_preemption(now);
  }
  while (state.load(std::memory_order_acquire) == value)
    state.wait(value, std::memory_order_acquire);
}

// The state of a loop, which its threads share.
struct Loop {
  explicit Loop(const FunctionRef& range_body) : body(&range_body) {}

  const FunctionRef* body;
  std::atomic<bool> failed = false;
  std::exception_ptr thrown;  // exception of the range that set `failed`

  void run(std::size_t range) noexcept {
    const bool before = std::exchange(computes_range, true);
    try {
      (*body)(range);
    } catch (...) {
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
    computes_range = before;
  }
};

// A thread that is offered one range at a time.
class alignas(128) Worker {
 public:
  // Throws std::system_error if no thread can be created.
  Worker() {
    sigset_t all, before;  // workers block all signals, so the program's threads get them
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([this] { serve(); }).detach();
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void offer(Loop& loop, std::size_t range) {
    loop_ = &loop;
    range_ = range;
    publish(kOffered);
  }

  // Waits until the offered range is done. If the worker has not begun it, the calling thread runs
  // it.
  void finish() {
    std::uint32_t offered = kOffered;
    if (state_.compare_exchange_strong(offered, kFree, std::memory_order_acquire)) {
      loop_->run(range_);
    } else {
      await_change(state_, kBusy, kEndSpin);
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kOffered = 1;
  static constexpr std::uint32_t kBusy = 2;

  // Sequentially consistent, so that notify_one(), which first checks for sleeping threads, cannot
  // miss one.
  void publish(std::uint32_t state) {
    state_.exchange(state, std::memory_order_seq_cst);
    state_.notify_one();
  }

  [[noreturn]] void serve() {
    while (true) {
      await_change(state_, kFree, kLoopSpin);
      std::uint32_t offered = kOffered;
      if (!state_.compare_exchange_strong(offered, kBusy, std::memory_order_acquire)) continue;
      loop_->run(range_);
      publish(kFree);
    }
  }

  std::atomic<std::uint32_t> state_ = kFree;
  Loop* loop_ = nullptr;   // written only while state_ is kFree
  std::size_t range_ = 0;  // written only while state_ is kFree
};

// The workers of a process. Only one loop uses them at a time.
class Workers {
 public:
  // Creates workers until there are `count`. Returns false on failure.
  bool ensure(std::size_t count) {
    try {
      workers_.reserve(count);  // so that push_back() cannot fail after a thread was started
      for (; workers_.size() < count; ++started_) workers_.push_back(std::make_unique<Worker>());
      return true;
    } catch (const std::exception&) {  // no memory, or too many threads
      return false;
    }
  }

  void run(std::size_t ranges, const FunctionRef& body) {
    Loop loop(body);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!computes_range && !contention.is_detected(Clock::now()))
      static_cast<void>(lock.try_lock());
    const std::size_t wanted = std::min<std::size_t>(ranges, thread_count()) - 1;
    if (lock) ensure(wanted);
    const std::size_t helped = lock ? std::min(workers_.size(), wanted) : 0;
    for (std::size_t i = 0; i < helped; ++i) workers_[i]->offer(loop, i + 1);
    loop.run(0);
    for (std::size_t range = helped + 1; range < ranges; ++range) loop.run(range);
    for (std::size_t i = 0; i < helped; ++i) workers_[i]->finish();
    if (loop.failed) std::rethrow_exception(loop.thrown);
  }

  std::mutex& mutex() { return mutex_; }
  std::size_t started() const { return started_; }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<std::size_t> started_ = 0;  // workers_.size(), for readers without the mutex
};

// Never destroyed, as its threads never end. Replaced after a fork, which does not copy the
// workers' threads.
std::atomic<Workers*> current_workers = nullptr;

Workers& workers() {
  static const bool once = [] {
    const auto begin_anew = [] { current_workers = new Workers; };
    if (pthread_atfork(nullptr, nullptr, begin_anew) != 0) throw std::bad_alloc();
    begin_anew();
    return true;
  }();
  static_cast<void>(once);
  return *current_workers.load(std::memory_order_acquire);
}

int default_count() {
  if (const char* value = std::getenv("OMP_NUM_THREADS"))
    if (const long wanted = std::strtol(value, nullptr, 10); wanted >= 1 && wanted < 65536)
      return static_cast<int>(wanted);
  cpu_set_t usable;
  const int cpus = sched_getaffinity(0, sizeof usable, &usable) == 0
                       ? CPU_COUNT(&usable)
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::min(cpus, cpu_quota().value_or(cpus));
}

std::atomic<int>& count() {
  static std::atomic<int> value = default_count();
  return value;
}

}  // namespace

std::size_t worker_count() { return workers().started(); }

bool room_for_threads(int more) {
  constexpr std::size_t kBytesEach =
      std::size_t{(128 + 8) << 20};  // OpenBLAS's buffer and the stack
  if (more <= 0) return true;
  const std::size_t bytes = static_cast<std::size_t>(more) * kBytesEach;
  void* const space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return space != MAP_FAILED && munmap(space, bytes) == 0;
}

int thread_count() { return count().load(std::memory_order_relaxed); }

void set_threads(int wanted) {
  check_argument(wanted >= 1, "set_threads: count ", wanted, ", expected at least 1");
  check_state(!computes_range, "set_threads: must not be called inside run_ranges()");
  bool possible = room_for_threads(wanted - thread_count());
  if (possible) {
    const std::scoped_lock lock(workers().mutex());
    possible = workers().ensure(static_cast<std::size_t>(wanted) - 1);
  }
  check_runtime(possible, "set_threads: not enough memory for ", wanted, " threads");
  count() = wanted;
}

std::size_t range_count(std::size_t items, std::size_t grain) {
  const std::size_t useful = items / std::max<std::size_t>(grain, 1);
  if (useful < 2 || computes_range) return 1;
  return std::min(useful, static_cast<std::size_t>(thread_count()));
}

void run_ranges(std::size_t ranges, const FunctionRef& body) {
  if (ranges > 1) {
    workers().run(ranges, body);
  } else if (ranges == 1) {
    body(0);
  }
}

}  // namespace rowgrad
