#pragma once

// The threads that all loops and matrix products share. They are created on first use. Idle threads
// spin for 2 ms, as the next loop often follows at once, then sleep. The calling thread takes part:
// after its own range, it runs the ranges that no other thread has begun. If a spinning thread is
// preempted, other programs need the processors. Loops then stay on their calling thread for a
// while, so a busy machine needs no settings. Several threads of a program may run loops at the
// same time; one gets help, and the others work alone. If the process forks while no loop runs, the
// child creates its own threads.

#include <cstddef>
#include <memory>

namespace rowgrad {

/// Returns the number of threads for large loops and products, including the calling thread: the
/// argument of set_threads(), else the first number in OMP_NUM_THREADS, else the number of
/// processors that the process may run on, limited by its CPU quota (base/cpu_quota.hpp).
int thread_count();

/// Sets the thread count of the process. Requires: no other thread computes. Throws
/// std::invalid_argument for a count below 1, std::runtime_error if there is not enough memory for
/// the threads, and std::logic_error inside run_ranges(). On failure, the count is unchanged.
void set_threads(int count);

/// Returns the number of threads started for loops in this process.
std::size_t worker_count();

/// Returns true if there is address space for `more` threads. OpenBLAS maps a buffer for each
/// thread, and retries forever if that fails.
bool room_for_threads(int more);

/// Returns the number of ranges for a loop over `count` items: at most one per thread. Several
/// ranges have at least `grain` items each. Inside another loop, returns 1.
std::size_t range_count(std::size_t count, std::size_t grain);

/// A reference to a function of a range's index.
class FunctionRef {
 public:
  template <class Body>
  /// Refers to `body`, which must outlive this object.
  explicit FunctionRef(const Body& body)
      : body_(std::addressof(body)), call_([](const void* known, std::size_t range) {
          (*static_cast<const Body*>(known))(range);
        }) {}

  void operator()(std::size_t range) const { call_(body_, range); }  // calls the function

 private:
  const void* body_;
  void (*call_)(const void*, std::size_t);
};

/// Calls body(range) for each range below `ranges`, on at most thread_count() threads, and waits
/// for all calls. Inside another loop, all calls stay on the calling thread. If a call throws, the
/// others still run, and then the first exception is rethrown.
void run_ranges(std::size_t ranges, const FunctionRef& body);

}  // namespace rowgrad
