#include <bit>

#include <rowgrad/core/base/hash.hpp>

namespace rowgrad {
namespace {

static_assert(std::endian::native == std::endian::little, "XXH64 reads little-endian numbers");

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                        kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                        kPrime5 = 0x27D4EB2F165667C5;

template <class Number>
std::uint64_t read(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

std::uint64_t round_of(std::uint64_t lane, std::uint64_t number) {
  return std::rotl(lane + number * kPrime2, 31) * kPrime1;
}

}  // namespace

Checksum::Checksum(std::uint64_t seed)
    : seed_(seed), lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1} {}

void Checksum::add(std::string_view text) {
  add(std::uint64_t{text.size()});
  add_bytes(std::as_bytes(std::span(text)));
}

void Checksum::add_bytes(std::span<const std::byte> bytes) {
  const std::size_t kept = length_ % block_.size();
  length_ += bytes.size();
  auto [a, b, c, d] = lanes_;
  const auto take_block = [&](const std::byte* block) {
    a = round_of(a, read<std::uint64_t>(block));
    b = round_of(b, read<std::uint64_t>(block + 8));
    c = round_of(c, read<std::uint64_t>(block + 16));
    d = round_of(d, read<std::uint64_t>(block + 24));
  };
  if (kept > 0) {
    const std::size_t count = std::min(block_.size() - kept, bytes.size());
    std::ranges::copy(bytes.first(count), block_.begin() + kept);
    bytes = bytes.subspan(count);
    if (kept + count < block_.size()) return;
    take_block(block_.data());
  }
  for (; bytes.size() >= block_.size(); bytes = bytes.subspan(block_.size()))
    take_block(bytes.data());
  std::ranges::copy(bytes, block_.begin());
  lanes_ = {a, b, c, d};
}

std::uint64_t Checksum::value() const {
  std::uint64_t hash = seed_ + kPrime5;
  if (length_ >= block_.size()) {
    const auto [a, b, c, d] = lanes_;
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const std::uint64_t lane : lanes_) hash = (hash ^ round_of(0, lane)) * kPrime1 + kPrime4;
  }
  hash += length_;
  std::span<const std::byte> rest = std::span(block_).first(length_ % block_.size());
  for (; rest.size() >= 8; rest = rest.subspan(8))
    hash = std::rotl(hash ^ round_of(0, read<std::uint64_t>(rest.data())), 27) * kPrime1 + kPrime4;
  for (; rest.size() >= 4; rest = rest.subspan(4))
    hash = std::rotl(hash ^ read<std::uint32_t>(rest.data()) * kPrime1, 23) * kPrime2 + kPrime3;
  for (const std::byte byte : rest)
    hash = std::rotl(hash ^ std::to_integer<std::uint64_t>(byte) * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

std::string checksum_digits(std::uint64_t checksum) {
  std::string digits(16, '0');
  for (std::size_t i = digits.size(); i-- > 0; checksum >>= 4)
    digits[i] = "0123456789abcdef"[checksum & 15];
  return digits;
}

}  // namespace rowgrad
