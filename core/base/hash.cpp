#include <bit>
#include <new>
#include <type_traits>

// Compiles xxHash into this file, so that programs that use rowgrad need not link it.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <rowgrad/core/base/hash.hpp>

namespace rowgrad {
namespace {

static_assert(std::endian::native == std::endian::little,
              "add() hashes the bytes of integers in memory order");

XXH64_state_t* state_in(std::byte* bytes) {
  return std::launder(reinterpret_cast<XXH64_state_t*>(bytes));
}

}  // namespace

Checksum::Checksum(std::uint64_t seed) {
  static_assert(sizeof(XXH64_state_t) <= sizeof state_ && std::is_trivial_v<XXH64_state_t>);
  XXH64_reset(new (state_.data()) XXH64_state_t, seed);
}

void Checksum::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  add_bytes(std::as_bytes(std::span(text)));
}

// Not inlined: GCC 12 warns about xxHash's pointer arithmetic if it knows the size of `bytes`.
[[gnu::noinline]] void Checksum::add_bytes(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH64_update(state_in(state_.data()), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  XXH64_state_t state;
  std::memcpy(&state, state_.data(), sizeof state);
  return XXH64_digest(&state);
}

std::string checksum_digits(std::uint64_t checksum) {
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; checksum >>= 4)
    digits[i] = "0123456789abcdef"[checksum & 15];
  return digits;
}

}  // namespace rowgrad
