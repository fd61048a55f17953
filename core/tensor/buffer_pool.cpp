#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>
#include <sys/mman.h>
#include <vector>

#include <rowgrad/core/tensor/buffer_pool.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Block sizes per octave: at most 25 % of a block is wasted, and 6 % of one of a mebibyte or more.
constexpr std::size_t kSteps = 4;
constexpr std::size_t kFineSteps = 16;
constexpr std::size_t kFineLines = (std::size_t{1} << 20) / kAlignment;
constexpr std::size_t kClasses = 64 * kFineSteps;

struct SizeClass {
  std::size_t index;
  std::size_t bytes;
};

// Rounds up to one of the sizes; each is a multiple of the alignment.
SizeClass size_class(std::size_t bytes) {
  const std::size_t lines = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment);
  if (lines < kSteps) return {lines, lines * kAlignment};
  const std::size_t per_octave = lines < kFineLines ? kSteps : kFineSteps;
  const std::size_t octave = std::bit_width(lines) - 1;
  const std::size_t step = (std::size_t{1} << octave) / per_octave;
  const std::size_t steps = (lines + step - 1) / step;  // in [per_octave, 2 * per_octave]
  return {octave * kFineSteps + (steps - per_octave) * (kFineSteps / per_octave),
          steps * step * kAlignment};
}

// Returns null if there is no memory.
void* system_allocate(std::size_t bytes) {
  const bool large = bytes >= kHugePage;
  const std::size_t alignment = large ? kHugePage : kAlignment;
  void* block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (large && block != nullptr)
    madvise(block, bytes, MADV_HUGEPAGE);  // only advice: a refusal costs nothing but speed
  return block;
}

struct Pool {
  std::mutex mutex;
  std::array<std::vector<void*>, kClasses> idle;
  BufferPoolStatistics statistics;
};

// Never destroyed: tensors in static storage may outlive any other static object.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

// Under AddressSanitizer no block is kept, so that a use after free is detected.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr bool kKeepsIdleBlocks = false;
#else
constexpr bool kKeepsIdleBlocks = true;
#endif

}  // namespace

void* BufferPool::allocate(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
  const SizeClass size = size_class(bytes);
  Pool& shared = pool();
  {
    const std::scoped_lock lock(shared.mutex);
    auto& idle = shared.idle[size.index];
    if (!idle.empty()) {
      void* block = idle.back();
      idle.pop_back();
      shared.statistics.bytes_idle -= size.bytes;
      shared.statistics.bytes_in_use += size.bytes;
      return block;
    }
  }
  void* block = system_allocate(size.bytes);
  if (block == nullptr) {
    release_idle();
    block = system_allocate(size.bytes);
    if (block == nullptr) throw std::bad_alloc();
  }
  const std::scoped_lock lock(shared.mutex);
  shared.statistics.bytes_in_use += size.bytes;
  ++shared.statistics.system_requests;
  return block;
}

void BufferPool::deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const SizeClass size = size_class(bytes);
  Pool& shared = pool();
  const std::scoped_lock lock(shared.mutex);
  shared.statistics.bytes_in_use -= size.bytes;
  if (kKeepsIdleBlocks) {
    try {
      shared.idle[size.index].push_back(block);
      shared.statistics.bytes_idle += size.bytes;
      return;
    } catch (const std::bad_alloc&) {
      // There is no memory to record the block: free it instead.
    }
  }
  std::free(block);
}

BufferPoolStatistics BufferPool::statistics() {
  const std::scoped_lock lock(pool().mutex);
  return pool().statistics;
}

void BufferPool::release_idle() {
  Pool& shared = pool();
  const std::scoped_lock lock(shared.mutex);
  for (auto& idle : shared.idle) {
    for (void* block : idle) std::free(block);
    idle.clear();
  }
  shared.statistics.bytes_idle = 0;
}

}  // namespace rowgrad
