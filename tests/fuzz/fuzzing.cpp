#include "tests/fuzz/fuzzing.hpp"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <sys/mman.h>
#include <unistd.h>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

#ifdef ROWGRAD_ADDRESS_SANITIZER
// As in <sanitizer/allocator_interface.h>, which only clang provides.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*,
                                                                  std::size_t),
                                                         void (*)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void*);
#endif

namespace rowgrad::fuzzing {
namespace {

// For the three bytes `"",`, the JSON reader uses 43 bytes, and a vector of strings 32 bytes, or
// three times as much while it grows. kFixedBytes covers messages and tables of fixed size.
constexpr std::size_t kBytesPerByte = 48;
constexpr std::size_t kFixedBytes = 64 * 1024;
constexpr std::size_t kLongestMessage = 300;

std::atomic<std::size_t> in_use = 0;
std::atomic<std::size_t> most_in_use = 0;

#ifdef ROWGRAD_ADDRESS_SANITIZER
void count_allocation(const volatile void*, std::size_t bytes) {
  const std::size_t now = in_use += bytes;
  if (now > most_in_use) most_in_use = now;
}

void count_release(const volatile void* memory) {
  if (memory != nullptr) in_use -= __sanitizer_get_allocated_size(memory);
}
#endif

// Starts counting memory. Returns false if that is not possible.
bool prepare() {
  character_class(U'a');  // creates a table that stays in memory
#ifdef ROWGRAD_ADDRESS_SANITIZER
  return __sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) != 0;
#else
  return true;
#endif
}

}  // namespace

void expect(bool condition, std::string_view message) {
  if (condition) return;
  std::fprintf(stderr, "FOUND: %.*s\n", static_cast<int>(message.size()), message.data());
  throw Finding{std::string(message)};
}

std::optional<std::string> refusal_of(std::string_view input, const std::function<void()>& read) {
  static const bool prepared = prepare();
  expect(prepared, "memory cannot be counted");

  std::optional<std::string> refusal;
  const std::size_t before = in_use;
  most_in_use = before;
  try {
    read();
  } catch (const std::runtime_error& error) {
    refusal = error.what();
  } catch (const std::invalid_argument& error) {
    refusal = error.what();
  }
  const std::size_t most = most_in_use - before;
  expect(most <= kFixedBytes + kBytesPerByte * input.size(),
         concat("used ", most, " bytes of memory for an input of ", input.size(), " bytes"));
  if (refusal) {
    expect(refusal->size() <= kLongestMessage, concat("the message is too long: ", *refusal));
    const bool quoted = input.find("json.exception") != std::string_view::npos;
    expect(quoted || refusal->find("json.exception") == std::string::npos,
           concat("the message comes from nlohmann/json: ", *refusal));
  }
  return refusal;
}

std::string memory_file(std::string_view contents) {
  static const int file = ::memfd_create("fuzzing", 0);
  const auto size = static_cast<ssize_t>(contents.size());
  expect(file >= 0 && ::ftruncate(file, 0) == 0 &&
             ::pwrite(file, contents.data(), contents.size(), 0) == size,
         "cannot create a file in memory");
  return concat("/proc/self/fd/", file);
}

}  // namespace rowgrad::fuzzing

#ifdef ROWGRAD_FUZZ_TARGET
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Processor time, because wall-clock time depends on other load.
  const std::clock_t start = std::clock();
  rowgrad::fuzzing::ROWGRAD_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  rowgrad::fuzzing::expect(std::clock() - start < CLOCKS_PER_SEC,
                           "one input took more than a second");
  return 0;
}
#endif
