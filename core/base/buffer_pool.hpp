#pragma once

// Memory for tensors. Blocks freed in one training step are reused in the next, so that a steady
// state requests nothing from the operating system: a fresh large buffer costs more in page faults
// than the arithmetic done in it.

#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>

namespace rowgrad {

/// What the pool of a process has lent and kept.
struct BufferPoolStatistics {
  std::size_t bytes_in_use = 0;     // in blocks handed out
  std::size_t bytes_idle = 0;       // in blocks kept for reuse
  std::size_t system_requests = 0;  // blocks requested from the operating system so far
};

/// One pool per process, thread-safe. Blocks are aligned to 64 bytes. Those of a mebibyte and more
/// are cut from ranges of pages, aligned to 64 KiB; the operating system is advised to use huge
/// pages.
class BufferPool {
 public:
  /// Returns an uninitialised block of at least `bytes` bytes. If the system has no memory left,
  /// frees all idle blocks and tries once more; throws std::bad_alloc if that fails too.
  static void* allocate(std::size_t bytes);

  /// Takes back a block that allocate(bytes) returned.
  static void deallocate(void* block, std::size_t bytes) noexcept;

  /// Fills a block that allocate(bytes) returned with zeros. A large one gives its memory back and
  /// takes it anew page by page, where it is written.
  static void clear(void* block, std::size_t bytes) noexcept;

  static BufferPoolStatistics statistics();  // of now

  /// Frees every idle block.
  static void release_idle();
};

/// The standard allocator interface to the pool.
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
