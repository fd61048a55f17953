#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace rowgrad {

/// A hash of texts with a secret per process, so that no file can contain texts that all collide in
/// a hash table. (std::hash has no secret, and such texts are easy to construct.)
struct TextHash {
  std::size_t operator()(std::string_view text) const {
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

}  // namespace rowgrad
