#pragma once

// Memory for tensors. Blocks freed in one training step are reused in the next, so later steps
// request nothing from the operating system. The page faults of a fresh large buffer cost more than
// the arithmetic done in it.

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>

namespace rowgrad {

/// Statistics of the process's memory pool.
struct BufferPoolStatistics {
  std::size_t bytes_in_use = 0;     // bytes of blocks handed out
  std::size_t bytes_idle = 0;       // bytes of blocks kept for reuse
  std::size_t system_requests = 0;  // successful requests to mmap or malloc
};

/// The memory pool of the process. Thread-safe. Blocks are aligned to 64 bytes. Blocks of 1 MiB or
/// more are aligned to 64 KiB and cut from page ranges for which huge pages are requested.
class BufferPool {
 public:
  /// Returns an uninitialised block of at least `bytes` bytes. If the system has no memory left,
  /// frees all idle blocks and tries again. Throws std::bad_alloc if that also fails.
  static void* allocate(std::size_t bytes);

  /// Takes back a block that allocate(bytes) returned. Accepts nullptr.
  static void deallocate(void* block, std::size_t bytes) noexcept;

  /// Zeroes a block that allocate(bytes) returned. Releases the pages of a large block, which use
  /// memory again only once they are written.
  static void clear(void* block, std::size_t bytes) noexcept;

  static BufferPoolStatistics statistics();  // returns the current statistics

  /// Frees every idle block.
  static void release_idle();
};

/// A standard allocator that uses the pool.
template <class T>
class PoolAllocator {
 public:
  using value_type = T;
  using is_always_equal = std::true_type;

  PoolAllocator() = default;
  template <class Other>
  PoolAllocator(const PoolAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
      throw std::bad_array_new_length();
    return static_cast<T*>(BufferPool::allocate(count * sizeof(T)));
  }
  void deallocate(T* block, std::size_t count) noexcept {
    BufferPool::deallocate(block, count * sizeof(T));
  }

  template <class Other>
  friend bool operator==(const PoolAllocator&, const PoolAllocator<Other>&) noexcept {
    return true;
  }
};

}  // namespace rowgrad
