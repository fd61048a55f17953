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

// How long a thread looks for the next loop before it sleeps, and for the end of what others have
// begun. To wake a thread takes a dozen microseconds, of which most are the waker's.
constexpr std::chrono::microseconds kLoopPatience{2000};
constexpr std::chrono::microseconds kEndPatience{200};
// A thread that only looks is off its processor for so long if another program has got it.
constexpr std::chrono::microseconds kEviction{300};
// For how long that tells that the processors are wanted, and loops stay on the thread that runs
// them: longer if it is so again and again.
constexpr std::chrono::milliseconds kCrowded{10}, kCrowdedForLong{320};

thread_local bool computes_range = false;

// Tells the processor that this thread only waits.
inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether other programs want the processors, as far as one of the threads has found out.
class ContentionMonitor {
 public:
  bool is_here(Clock::time_point now) const {
    return now.time_since_epoch() < until_.load(std::memory_order_relaxed);
  }

  void note_eviction(Clock::time_point now) {
    const Clock::duration last = length_.load(std::memory_order_relaxed);
    const bool again = now.time_since_epoch() < until_.load(std::memory_order_relaxed) + last;
    const Clock::duration length =
        again ? std::min<Clock::duration>(2 * last, kCrowdedForLong) : kCrowded;
    length_.store(length, std::memory_order_relaxed);
    until_.store(now.time_since_epoch() + length, std::memory_order_relaxed);
  }

 private:
  std::atomic<Clock::duration> until_{Clock::duration{}};
  std::atomic<Clock::duration> length_{kCrowded};
};

ContentionMonitor crowd;

// How often the calling thread had to leave its processor to another.
long evictions() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// Looks a few times, and returns whether `state` is no longer `value`.
bool changes_soon(const std::atomic<std::uint32_t>& state, std::uint32_t value) {
  for (int i = 0; i < 64; ++i) {
    if (state.load(std::memory_order_acquire) != value) return true;
    pause();
  }
  return false;
}

// Returns when `state` is no longer `value`: looks for as long as `patience`, and then sleeps.
void await_change(const std::atomic<std::uint32_t>& state, std::uint32_t value,
                  Clock::duration patience) {
  if (changes_soon(state, value)) return;
  const long evictions_before = evictions();
  const Clock::time_point begin = Clock::now();
  for (Clock::time_point now = begin; now < begin + patience && !crowd.is_here(now);) {
    if (changes_soon(state, value)) return;
    const Clock::time_point before = std::exchange(now, Clock::now());
    if (now - before > kEviction && evictions() != evictions_before) crowd.note_eviction(now);
  }
  while (state.load(std::memory_order_acquire) == value)
    state.wait(value, std::memory_order_acquire);
}

// What all threads of a loop share.
struct Loop {
  explicit Loop(const FunctionRef& range_body) : body(&range_body) {}

  const FunctionRef* body;
  std::atomic<bool> failed = false;
  std::exception_ptr thrown;  // by the range that set `failed`

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
  // Throws std::system_error if there can be no more threads.
  Worker() {
    sigset_t all, before;  // signals are for the threads of the program
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

  // Returns when the offered range is done, by the calling thread if the worker has not begun it.
  void finish() {
    std::uint32_t offered = kOffered;
    if (state_.compare_exchange_strong(offered, kFree, std::memory_order_acquire)) {
      loop_->run(range_);
    } else {
      await_change(state_, kBusy, kEndPatience);
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kOffered = 1;
  static constexpr std::uint32_t kBusy = 2;

  // In one order with the look at who sleeps, which notify_one() begins with.
  void publish(std::uint32_t state) {
    state_.exchange(state, std::memory_order_seq_cst);
    state_.notify_one();
  }

  [[noreturn]] void serve() {
    while (true) {
      await_change(state_, kFree, kLoopPatience);
      std::uint32_t offered = kOffered;
      if (!state_.compare_exchange_strong(offered, kBusy, std::memory_order_acquire)) continue;
      loop_->run(range_);
      publish(kFree);
    }
  }

  std::atomic<std::uint32_t> state_ = kFree;
  Loop* loop_ = nullptr;   // set while free
  std::size_t range_ = 0;  // as loop_
};

// The workers of a process. One loop has them at a time.
class Workers {
 public:
  // Whether there are `count` of them now; makes those that are missing.
  bool ensure(std::size_t count) {
    try {
      workers_.reserve(count);  // so that no worker that has begun is lost
      for (; workers_.size() < count; ++started_) workers_.push_back(std::make_unique<Worker>());
      return true;
    } catch (const std::exception&) {  // no memory, or no more threads
      return false;
    }
  }

  void run(std::size_t ranges, const FunctionRef& body) {
    Loop loop(body);
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!computes_range && !crowd.is_here(Clock::now())) static_cast<void>(lock.try_lock());
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

// Never destroyed, as its threads are not ended. A forked process has none of them.
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
  constexpr std::size_t kBytesEach = std::size_t{(128 + 8) << 20};  // a buffer and a stack
  if (more <= 0) return true;
  const std::size_t bytes = static_cast<std::size_t>(more) * kBytesEach;
  void* const space = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return space != MAP_FAILED && munmap(space, bytes) == 0;
}

int thread_count() { return count().load(std::memory_order_relaxed); }

void set_threads(int wanted) {
  check_argument(wanted >= 1, "set_threads: count ", wanted, " is below 1");
  check_state(!computes_range, "set_threads: called by a loop that uses the threads");
  bool possible = room_for_threads(wanted - thread_count());
  if (possible) {
    const std::scoped_lock lock(workers().mutex());
    possible = workers().ensure(static_cast<std::size_t>(wanted) - 1);
  }
  check_runtime(possible, "set_threads: there is not enough memory for ", wanted, " threads");
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
