#pragma once

// Hashes of numbers and texts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>

namespace rowgrad {

/// A checksum of numbers and texts that is the same on every machine; TextHash is not. It finds
/// accidental damage; it is no protection against somebody who wants two texts to agree. The state
/// is the value, so a sum can be continued later.
/// Source: Fowler, Noll & Vo, FNV-1a of 64 bits (RFC 9923), here with a number in the place of an
/// octet: each step is a bijection of the number, so a single changed one is always noticed.
class Checksum {
 public:
  /// Continues from the checksum of what came before, or begins.
  explicit Checksum(std::uint64_t value = 0xCBF29CE484222325) : value_(value) {}

  /// Adds a number, as eight bytes at once.
  void add(std::uint64_t number) { value_ = (value_ ^ number) * 0x00000100000001B3; }

  /// The length and the bytes.
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (const char byte : text) add(std::uint64_t{static_cast<unsigned char>(byte)});
  }

  /// The bytes as numbers of eight each, the last one filled up with zeros.
  void add_words(std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, std::min(sizeof word, bytes.size() - i));
      add(word);
    }
  }

  std::uint64_t value() const { return value_; }  // of all that was added

 private:
  std::uint64_t value_;
};

/// A hash of texts with a secret per process, so that no file can contain texts that all collide in
/// a hash table. (std::hash has no secret, and such texts are easy to construct.)
struct TextHash {
  std::size_t operator()(std::string_view text) const {  // the hash, equal for equal texts
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

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014): each bit of the input changes about half
/// of the bits of the output.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

}  // namespace rowgrad
