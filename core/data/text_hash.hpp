#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace rowgrad {

/// A hash of texts with a secret of its process, so that no file can hold texts which all fall into
/// one place of a table. (std::hash has none: such texts are cheap to make.)
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
