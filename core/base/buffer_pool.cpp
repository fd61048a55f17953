#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
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
constexpr std::size_t kPage = std::size_t{64} << 10;  // a multiple of those of all systems
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = std::size_t{1} << 20;   // from here on, blocks are cut from pages
constexpr std::size_t kChunk = std::size_t{64} << 20;  // what the system is asked for at once
constexpr std::size_t kSteps = 4;  // sizes of small blocks per octave: at most 25 % is wasted
constexpr std::size_t kClasses = 64 * kSteps;

// Under AddressSanitizer no block is kept, so that a use after free is detected.
#if defined(ROWGRAD_ADDRESS_SANITIZER)
constexpr bool kKeepsIdleBlocks = false;
#else
constexpr bool kKeepsIdleBlocks = true;
#endif

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

struct SizeClass {
  std::size_t index;  // of a small block; kClasses for a large one
  std::size_t bytes;

  bool is_large() const { return index == kClasses; }
};

// Rounds up to the size of a block, a multiple of the alignment.
SizeClass size_class(std::size_t bytes) {
  if (kKeepsIdleBlocks && bytes >= kLarge) return {kClasses, round_up(bytes, kPage)};
  const std::size_t lines = std::max<std::size_t>(1, round_up(bytes, kAlignment) / kAlignment);
  if (lines < kSteps) return {lines, lines * kAlignment};
  const std::size_t octave = std::bit_width(lines) - 1;
  const std::size_t step = (std::size_t{1} << octave) / kSteps;
  const std::size_t steps = (lines + step - 1) / step;  // in [kSteps, 2 * kSteps]
  return {octave * kSteps + (steps - kSteps), steps * step * kAlignment};
}

// Returns null if there is no memory.
char* map_pages(std::size_t bytes) {
  const std::size_t room = bytes + kHugePage;  // to begin at a huge page within it
  void* mapped = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const first = static_cast<char*>(mapped);
  const std::size_t before = -reinterpret_cast<std::uintptr_t>(first) % kHugePage;
  if (before > 0) munmap(first, before);
  munmap(first + before + bytes, kHugePage - before);
  madvise(first + before, bytes, MADV_HUGEPAGE);  // a refusal costs nothing but speed
  return first + before;
}

// Idle pages, from which large blocks are cut. Ranges that meet are joined, so that what one size
// leaves serves any other: activations use the memory of the last step's gradients.
class PageRanges {
 public:
  // Returns null if no range is long enough.
  char* take(std::size_t bytes) {
    auto best = ranges_.end();
    for (auto range = ranges_.begin(); range != ranges_.end(); ++range)
      if (range->second >= bytes && (best == ranges_.end() || range->second < best->second))
        best = range;
    if (best == ranges_.end()) return nullptr;
    auto taken = ranges_.extract(best);
    char* const block = taken.key();
    if (taken.mapped() > bytes) {
      taken.key() += bytes;
      taken.mapped() -= bytes;
      ranges_.insert(std::move(taken));
    }
    return block;
  }

  // Throws std::bad_alloc if there is no memory to record the range.
  void put(char* first, std::size_t bytes) {
    const auto range = ranges_.emplace(first, bytes).first;
    if (const auto next = std::next(range); next != ranges_.end() && first + bytes == next->first) {
      range->second += next->second;
      ranges_.erase(next);
    }
    if (range == ranges_.begin()) return;
    if (const auto before = std::prev(range); before->first + before->second == first) {
      before->second += range->second;
      ranges_.erase(range);
    }
  }

  void release() {
    for (const auto& [first, bytes] : ranges_) munmap(first, bytes);
    ranges_.clear();
  }

 private:
  std::map<char*, std::size_t> ranges_;  // the number of bytes by the first
};

// The state of the pool. Callers hold the lock.
struct Pool {
  std::mutex mutex;
  std::array<std::vector<void*>, kClasses> idle;
  PageRanges pages;
  std::set<void*> sparse;  // blocks in use that were advised to do without huge pages
  BufferPoolStatistics statistics;

  void keep_pages(char* first, std::size_t bytes) noexcept {
    try {
      pages.put(first, bytes);
      statistics.bytes_idle += bytes;
    } catch (const std::bad_alloc&) {
      munmap(first, bytes);
    }
  }

  // Returns null if the system has no memory.
  void* request(SizeClass size) {
    void* block = nullptr;
    if (size.is_large()) {
      const std::size_t mapped = round_up(size.bytes, kChunk);
      block = map_pages(mapped);
      if (block != nullptr && mapped > size.bytes)
        keep_pages(static_cast<char*>(block) + size.bytes, mapped - size.bytes);
    } else {
      block = std::aligned_alloc(kAlignment, size.bytes);
    }
    if (block != nullptr) ++statistics.system_requests;
    return block;
  }

  void release_idle() {
    for (auto& blocks : idle) {
      for (void* block : blocks) std::free(block);
      blocks.clear();
    }
    pages.release();
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
  void* block = nullptr;
  if (size.is_large()) {
    block = shared.pages.take(size.bytes);
  } else if (auto& idle = shared.idle[size.index]; !idle.empty()) {
    block = idle.back();
    idle.pop_back();
  }
  if (block != nullptr) {
    shared.statistics.bytes_idle -= size.bytes;
  } else if ((block = shared.request(size)) == nullptr) {
    shared.release_idle();
    block = shared.request(size);
    if (block == nullptr) throw std::bad_alloc();
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
  if (size.is_large()) {
    if (shared.sparse.erase(block) > 0) {  // whoever has these pages next gets huge ones again
      madvise(block, size.bytes, MADV_DONTNEED);
      madvise(block, size.bytes, MADV_HUGEPAGE);
    }
    return shared.keep_pages(static_cast<char*>(block), size.bytes);
  }
  if (!kKeepsIdleBlocks) return std::free(block);
  try {
    shared.idle[size.index].push_back(block);
    shared.statistics.bytes_idle += size.bytes;
  } catch (const std::bad_alloc&) {
    std::free(block);  // as there is no memory to record it
  }
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
      // Within huge pages, the first row would take the memory of hundreds.
      const std::size_t pages = bytes / kPage * kPage;
      if (madvise(begin, pages, MADV_NOHUGEPAGE) == 0 && madvise(begin, pages, MADV_DONTNEED) == 0)
        begin += pages;
    }
  } catch (const std::bad_alloc&) {
    // There is no memory to record the block, so its pages stay as they are.
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
