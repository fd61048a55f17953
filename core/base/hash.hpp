#pragma once

// Checksums and hashes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>

namespace rowgrad {

/// A checksum of integers, strings and bytes: XXH64 of the xxHash library. Gives the same value on
/// every machine, unlike StringHash. Detects accidental damage, but not deliberate changes.
class Checksum {
 public:
  explicit Checksum(std::uint64_t seed = 0);  // different seeds give different checksums

  /// Adds an integer (eight bytes), a string (its length and its bytes), or bytes.
  void add(std::uint64_t number) { add_bytes(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text);
  void add_bytes(std::span<const std::byte> bytes);

  /// Returns the checksum of everything added.
  std::uint64_t value() const;

 private:
  alignas(8) std::array<std::byte, 88> state_;  // an XXH64_state_t
};

/// The checksum in files of version 0.2.0: FNV-1a (RFC 9923) over 64-bit integers instead of bytes.
/// Flipping the highest bits of two integers may go unnoticed, so new files use Checksum.
class LegacyChecksum {
 public:
  /// Adds an integer, or the length of a string and then each of its bytes as an integer.
  void add(std::uint64_t number) { value_ = (value_ ^ number) * 0x00000100000001B3; }
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char byte : text) add(std::uint64_t{static_cast<unsigned char>(byte)});
  }

  /// Adds bytes as integers of eight bytes each; the last integer is padded with zeros.
  void add_bytes(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
      add(word);
    }
  }

  std::uint64_t value() const { return value_; }  // returns the checksum of everything added

 private:
  std::uint64_t value_ = 0xCBF29CE484222325;
};

/// Formats a checksum as 16 hexadecimal digits.
std::string checksum_digits(std::uint64_t checksum);

/// A hash function for strings. It has a secret per process, so that nobody can craft a file whose
/// strings all collide in a hash table.
struct StringHash {
  std::size_t operator()(std::string_view text) const {  // returns the hash of a string
    __extension__ using Product = unsigned __int128;
    static const std::uint64_t secret = [] {
      std::random_device device;
      return std::uint64_t{device()} << 32 | device() | 1;
    }();
    std::uint64_t hash = secret ^ text.size();
    while (!text.empty()) {
      std::uint64_t word = 0;
      const std::size_t bytes = text.size() < sizeof word ? text.size() : sizeof word;
      std::memcpy(&word, text.data(), bytes);
      text.remove_prefix(bytes);
      const Product product = Product{hash ^ word} * secret;
      hash = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    }
    return hash;
  }
};

/// Mixes the bits of x by SplitMix64 (Steele, Lea & Flood 2014). Flipping one input bit flips about
/// half of the output bits.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

}  // namespace rowgrad
