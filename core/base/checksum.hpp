#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
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
  explicit Checksum(std::uint64_t value = 0xCBF29CE484222325) : value_(value) {}

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

  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_;
};

}  // namespace rowgrad
