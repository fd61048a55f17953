#pragma once

#include <cstddef>

#include <rowgrad/core/base/buffer_pool.hpp>

namespace rowgrad {

/// A standard allocator of zeroed blocks from the pool. A large block uses memory only for written
/// pages. Vectors with this allocator do not initialise new elements. Requires: all-zero bytes
/// are the value T(), and no vector grows after shrinking.
template <class T>
class ZeroedAllocator : public PoolAllocator<T> {
 public:
  ZeroedAllocator() = default;  // stateless
  /// Converts an allocator of another type.
  template <class Other>
  ZeroedAllocator(const ZeroedAllocator<Other>&) noexcept {}

  template <class Other>
  struct rebind {                          // for std::allocator_traits
    using other = ZeroedAllocator<Other>;  // allocator of another type
  };

  /// Returns a block of `count` zeros. Throws std::bad_alloc if out of memory.
  T* allocate(std::size_t count) {
    T* const block = PoolAllocator<T>::allocate(count);
    BufferPool::clear(block, count * sizeof(T));
    return block;
  }
  /// Does nothing: the element keeps its zero bytes.
  void construct(T* /*element*/) noexcept {}
};

}  // namespace rowgrad
