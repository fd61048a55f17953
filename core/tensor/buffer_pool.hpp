#pragma once

// Memory of tensors. A block freed by one training step serves the next, so that a steady step
// asks the operating system for nothing: a fresh large buffer costs more in page faults than the
// arithmetic done in it.

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>

namespace rowgrad {

struct BufferPoolStatistics {
  std::size_t bytes_in_use = 0;     // blocks handed out
  std::size_t bytes_idle = 0;       // blocks kept for the next request
  std::size_t system_requests = 0;  // blocks ever asked of the operating system
};

/// One pool for the process, safe to use from any thread. Blocks are aligned to 64 bytes; those of
/// 2 MiB and more are aligned to 2 MiB and advised to use pages of that size.
class BufferPool {
 public:
  /// An uninitialised block of at least `bytes` bytes. Where the operating system has none left, it
  /// gets the idle blocks back and is asked again; if that does not help, throws std::bad_alloc.
  static void* allocate(std::size_t bytes);

  /// Takes back a block that allocate(bytes) gave.
  static void deallocate(void* block, std::size_t bytes) noexcept;

  static BufferPoolStatistics statistics();

  /// Returns every idle block to the operating system.
  static void release_idle();
};

/// The standard allocator interface of the pool, for containers of numbers.
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
