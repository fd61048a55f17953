#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <new>
#include <set>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include <rowgrad/core/base/buffer_pool.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = std::size_t{64} << 10;  // a multiple of every system's page size
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{1} << 20;   // smallest block that is cut from pages
constexpr std::size_t kChunk = std::size_t{64} << 20;  // requested from the system at once
// Sizes of small blocks per octave. From 256 bytes on, rounding up adds at most 25 %.
constexpr std::size_t kSteps = 4;
constexpr std::size_t kClasses = 64 * kSteps;

// AddressSanitizer detects a use after free only if blocks are freed at once.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr bool kKeepsIdleBlocks = false;
#else
constexpr bool kKeepsIdleBlocks = true;
#endif

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

struct SizeClass {
  std::size_t index;  // class of a small block; kClasses for a large block
  std::size_t bytes;

  bool is_large() const { return index == kClasses; }
};

// Rounds up to a block size, which is a multiple of the alignment.
SizeClass size_class(std::size_t bytes) {
  if (kKeepsIdleBlocks && bytes >= kLarge) return {kClasses, round_up(bytes, kPage)};
  const std::size_t lines = std::max<std::size_t>(1, round_up(bytes, kAlignment) / kAlignment);
  if (lines < kSteps) return {lines, lines * kAlignment};
  const std::size_t octave = std::bit_width(lines) - 1;
  const std::size_t step = (std::size_t{1} << octave) / kSteps;
  const std::size_t steps = (lines + step - 1) / step;  // in [kSteps, 2 * kSteps]
  return {octave * kSteps + (steps - kSteps), steps * step * kAlignment};
}

// Maps pages that begin at a multiple of `alignment`. Returns nullptr if out of memory.
char* map_pages(std::size_t bytes, std::size_t alignment) {
  void* mapped =
      mmap(nullptr, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % alignment;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, alignment - before);
  madvise(first + before, bytes, MADV_HUGEPAGE);  // if it fails, only speed is lost
  return first + before;
}

// The link of a list of idle small blocks, stored inside the block.
struct Free {
  Free* next;
};

// Idle pages, from which large blocks are cut.
struct Range {
  char* first;
  std::size_t bytes;

  char* end() const { return first + bytes; }
};

// The state of the pool. Callers must hold `mutex`.
struct Pool {
  std::mutex mutex;
  std::array<Free*, kClasses> idle{};
  // Sorted by address. Adjacent ranges are joined, so that blocks of other sizes can use them:
  // activations use the memory of the last step's gradients.
  std::vector<Range> ranges;
  std::set<void*> sparse;  // blocks in use without huge pages
  BufferPoolStatistics statistics;

  // Takes a block from the idle memory. Returns nullptr if no idle memory fits.
  void* take(SizeClass size) {
    void* block = nullptr;
    if (!size.is_large()) {
      Free*& first = idle[size.index];
      if (first == nullptr) return nullptr;
      block = std::exchange(first, first->next);
    } else {
      // Finds the shortest range that is long enough. For ranges that are too short, the difference
      // wraps around and is huge.
      const auto best = std::ranges::min_element(
          ranges, {}, [&](const Range& range) { return range.bytes - size.bytes; });
      if (best == ranges.end() || best->bytes < size.bytes) return nullptr;
      block = std::exchange(best->first, best->first + size.bytes);
      if ((best->bytes -= size.bytes) == 0) ranges.erase(best);
    }
    statistics.bytes_idle -= size.bytes;
    return block;
  }

  void keep(void* block, SizeClass size) noexcept {
    if (!size.is_large()) {
      Free*& first = idle[size.index];
      first = new (block) Free{first};
    } else if (!keep_range({static_cast<char*>(block), size.bytes})) {
      munmap(block, size.bytes);
      return;
    }
    statistics.bytes_idle += size.bytes;
  }

  // Returns false if recording the range fails for lack of memory.
  bool keep_range(Range range) noexcept try {
    auto next = std::ranges::lower_bound(ranges, range.first, {}, &Range::first);
    if (next != ranges.end() && range.end() == next->first) {
      range.bytes += next->bytes;
      next = ranges.erase(next);
    }
    if (next != ranges.begin() && std::prev(next)->end() == range.first)
      std::prev(next)->bytes += range.bytes;
    else
      ranges.insert(next, range);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  // Requests a new block from the system. For a large block, first tries to map whole chunks, from
  // which later blocks are also cut. Returns nullptr if out of memory.
  void* request(SizeClass size) {
    std::size_t bytes = size.is_large() ? round_up(size.bytes, kChunk) : size.bytes;
    void* block =
        size.is_large() ? map_pages(bytes, kHugePage) : std::aligned_alloc(kAlignment, bytes);
    if (block == nullptr && size.is_large()) block = map_pages(bytes = size.bytes, kPage);
    if (block == nullptr) return nullptr;
    ++statistics.system_requests;
    keep(block, {size.index, bytes});
    return take(size);
  }

  void release_idle() {
    for (Free*& first : idle)
      while (first != nullptr) std::free(std::exchange(first, first->next));
    for (const Range& range : ranges) munmap(range.first, range.bytes);
    ranges.clear();
    statistics.bytes_idle = 0;
  }
};

// Never destroyed: tensors in static storage may outlive any other static object.
Pool& pool() {
  static Pool& instance = *new Pool;
  return instance;
}

}  // namespace

void* BufferPool::allocate(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) throw std::bad_alloc();
  const SizeClass size = size_class(bytes);
  Pool& shared = pool();
  const std::scoped_lock lock(shared.mutex);
  void* block = shared.take(size);
  if (block == nullptr && (block = shared.request(size)) == nullptr) {
    shared.release_idle();
    if ((block = shared.request(size)) == nullptr) throw std::bad_alloc();
  }
  shared.statistics.bytes_in_use += size.bytes;
  return block;
}

void BufferPool::deallocate(void* block, std::size_t bytes) noexcept {
  if (block == nullptr) return;
  const SizeClass size = size_class(bytes);
  Pool& shared = pool();
  const std::scoped_lock lock(shared.mutex);
  shared.statistics.bytes_in_use -= size.bytes;
  if (!kKeepsIdleBlocks)
    std::free(block);
  else if (size.is_large() && shared.sparse.erase(block) > 0)
    munmap(block, size.bytes);  // if kept, the next block here would have no huge pages
  else
    shared.keep(block, size);
}

void BufferPool::clear(void* block, std::size_t bytes) noexcept {
  char* begin = static_cast<char*>(block);
  char* const end = begin + bytes;
  try {
    if (size_class(bytes).is_large()) {
      {
        const std::scoped_lock lock(pool().mutex);
        pool().sparse.insert(block);
      }
      // With huge pages, writing one row would use the memory of hundreds of rows.
      const std::size_t pages = bytes / kPage * kPage;
      if (madvise(begin, pages, MADV_NOHUGEPAGE) == 0 && madvise(begin, pages, MADV_DONTNEED) == 0)
        begin += pages;
    }
  } catch (const std::bad_alloc&) {
    // Recording the block failed for lack of memory, so it keeps its pages.
  }
  std::memset(begin, 0, static_cast<std::size_t>(end - begin));
}

BufferPoolStatistics BufferPool::statistics() {
  const std::scoped_lock lock(pool().mutex);
  return pool().statistics;
}

void BufferPool::release_idle() {
  const std::scoped_lock lock(pool().mutex);
  pool().release_idle();
}

}  // namespace rowgrad
