#pragma once

// The threads that all loops and products share. They are made when they are first needed and
// wait well: for two milliseconds by looking again and again, as the next loop often follows at
// once, then asleep. The calling thread takes part, and what a thread has not begun when the caller
// is done with its own share, the caller does itself. A thread that loses its processor while it
// looks tells that other programs want it: for some time, all loops then stay on the thread that
// runs them. So nothing needs to be set on a busy machine. Threads of the user's may compute at the
// same time; if two do, one gets help and the other works alone. A process that was forked while no
// loop ran makes threads of its own.

#include <cstddef>
#include <memory>

namespace rowgrad {

/// The number of threads that large loops and products use, the calling one included: what was
/// passed to set_threads(), else the first number in OMP_NUM_THREADS, else the number of
/// processors that the process may run on, but not more than its CPU quota (base/cpu_quota.hpp).
int thread_count();

/// Sets it for the process; to be called while no other thread computes. Throws
/// std::invalid_argument for a count below 1, std::runtime_error if there is not enough memory for
/// so many threads, and std::logic_error in a range of run_ranges; nothing changes then.
void set_threads(int count);

/// The number of threads that loops have started in this process. They wait unless a loop runs.
std::size_t worker_count();

/// Whether there is address space for `more` threads. OpenBLAS maps a buffer for each of them and
/// retries forever if that fails.
bool room_for_threads(int more);

/// The number of ranges that a loop over `count` items should be cut into: one for each thread, but
/// only one if a second thread would get fewer than `grain` items, or in a range of another loop.
std::size_t range_count(std::size_t count, std::size_t grain);

/// A reference to something that can be called with the number of a range.
class FunctionRef {
 public:
  template <class Body>
  /// Borrows the body.
  explicit FunctionRef(const Body& body)
      : body_(std::addressof(body)), call_([](const void* known, std::size_t range) {
          (*static_cast<const Body*>(known))(range);
        }) {}

  void operator()(std::size_t range) const { call_(body_, range); }  // calls the body

 private:
  const void* body_;
  void (*call_)(const void*, std::size_t);
};

/// Calls body(range) for each range below `ranges`, on thread_count() threads at most, and returns
/// when all are done; inside a range, on the thread that is there. If one throws, on any thread,
/// the others still run, and then the first exception is rethrown.
void run_ranges(std::size_t ranges, const FunctionRef& body);

}  // namespace rowgrad
