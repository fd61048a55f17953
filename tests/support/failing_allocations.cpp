#include "tests/support/failing_allocations.hpp"

#include <atomic>
#include <cstdlib>

#include <rowgrad/core/base/buffer_pool.hpp>

namespace {

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

std::atomic<bool> armed = false;
std::atomic<std::size_t> requests = 0;
std::atomic<std::size_t> requested_bytes = 0;
std::atomic<std::size_t> first_failing = kNever;
std::atomic<std::size_t> failing_count = 0;
std::atomic<bool> failed = false;

// Counts a request. Returns true if it must fail.
bool fails(std::size_t bytes) {
  if (!armed) return false;
  requested_bytes += bytes;
  const std::size_t number = ++requests;
  if (number < first_failing || number - first_failing >= failing_count) return false;
  failed = true;
  return true;
}

// Uses posix_memalign, because aligned_alloc is replaced below.
void* allocate(std::size_t alignment, std::size_t bytes) {
  void* block = nullptr;
  return fails(bytes) || ::posix_memalign(&block, alignment, bytes) != 0 ? nullptr : block;
}

void* allocate_or_throw(std::size_t alignment, std::size_t bytes) {
  void* block = allocate(alignment, bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

// These operators replace the C++ library's in the whole program. The array forms call them. The
// library's nothrow form would also call them, but AddressSanitizer's nothrow form would not, and
// its blocks could not be freed here.
void* operator new(std::size_t bytes) {
  return allocate_or_throw(__STDCPP_DEFAULT_NEW_ALIGNMENT__, bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate_or_throw(static_cast<std::size_t>(alignment), bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(__STDCPP_DEFAULT_NEW_ALIGNMENT__, bytes);
}
void operator delete(void* block) noexcept { std::free(block); }
void operator delete(void* block, std::size_t) noexcept { std::free(block); }
void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

// This replaces the C library's function.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return allocate(alignment, bytes);
}

namespace rowgrad::testing {

FailingAllocations::FailingAllocations(std::size_t first, std::size_t count) {
  BufferPool::release_idle();
  requests = 0;
  requested_bytes = 0;
  first_failing = first;
  failing_count = count;
  failed = false;
  armed = true;
}

FailingAllocations::~FailingAllocations() { armed = false; }

bool FailingAllocations::any_failed() const { return failed; }

std::size_t FailingAllocations::bytes() { return requested_bytes; }

}  // namespace rowgrad::testing
