#include "tests/test.hpp"
#include <rowgrad/core/base/hash.hpp>

namespace {

std::uint64_t checksum_of(std::string_view text, std::uint64_t seed = 0) {
  Checksum sum(seed);
  sum.add_bytes(std::as_bytes(std::span(text)));
  return sum.value();
}

// Test vectors from xxHash's self-test (xxhsum) and specification.
TEST(Checksum, IsXxh64) {
  constexpr std::uint64_t kSeed = 2654435761;
  std::string bytes;
  for (std::uint64_t number = kSeed; bytes.size() < 222; number *= 11400714785074694797ULL)
    bytes += static_cast<char>(number >> 56);
  struct Vector {
    std::size_t length;
    std::uint64_t seed, expected;
  };
  for (const Vector& item : {Vector{0, 0, 0xEF46DB3751D8E999},
                             {0, kSeed, 0xAC75FDA2929B17EF},
                             {1, 0, 0xE934A84ADB052768},
                             {1, kSeed, 0x5014607643A9B4C3},
                             {4, 0, 0x9136A0DCA57457EE},
                             {14, 0, 0x8282DCC4994E35C8},
                             {14, kSeed, 0xC3BD6BF63DEB6DF0},
                             {222, 0, 0xB641AE8CB691C174},
                             {222, kSeed, 0x20CB8AB7AE10C14A}})
    EXPECT_EQ(checksum_of(std::string_view(bytes).substr(0, item.length), item.seed), item.expected)
        << item.length;
  EXPECT_EQ(checksum_of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1);
  EXPECT_EQ(checksum_digits(0x0BCEA83C8A378BF1), "0bcea83c8a378bf1");
}

TEST(Checksum, DoesNotDependOnThePieces) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length = 0; length < text.size(); length += 13)
    for (std::size_t piece = 1; piece < 70; ++piece) {
      const std::string_view all = std::string_view(text).substr(0, length);
      Checksum sum;
      for (std::size_t i = 0; i < length; i += piece)
        sum.add_bytes(std::as_bytes(std::span(all.substr(i, piece))));
      EXPECT_EQ(sum.value(), checksum_of(all));
    }
}

TEST(Checksum, DetectsNegatedValues) {
  for (const std::size_t count : {2, 4, 16, 1000}) {
    std::vector<double> doubles(count, 1);
    std::vector<float> floats(count, 1);
    std::set<std::uint64_t> sums;
    const auto add = [&](const auto& values) {
      Checksum sum;
      sum.add_bytes(std::as_bytes(std::span(values)));
      return sums.insert(sum.value()).second;
    };
    add(doubles);
    add(floats);
    doubles[0] = doubles[1] = floats[0] = floats[1] = -1;
    EXPECT_TRUE(add(doubles) && add(floats)) << count;
  }
}

}  // namespace
