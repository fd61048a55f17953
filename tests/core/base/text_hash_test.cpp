#include "tests/test.hpp"

namespace {

constexpr std::uint64_t kFactor = 0xC6A4A7935BD1E995;  // of MurmurHash64A, which libstdc++ has

std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;
  for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
  return x;
}

std::uint64_t mixed(std::uint64_t block) {
  block *= kFactor;
  return (block ^ block >> 47) * kFactor;
}

// Texts of sixteen printable characters with the same std::hash: for any first half, inverting the
// hash gives a second half, which now and then is printable too.
std::vector<std::string> colliding_texts(std::size_t count) {
  const std::uint64_t back = inverse(kFactor);
  std::set<std::string> texts;
  for (std::uint64_t i = 0; texts.size() < count; ++i) {
    std::string text(16, 'a');
    std::uint64_t rest = i;
    for (int k = 0; k < 8; ++k, rest /= 26)
      text[static_cast<std::size_t>(k)] = static_cast<char>('a' + rest % 26);
    std::uint64_t first = 0;
    std::memcpy(&first, text.data(), 8);
    const std::uint64_t seed = 0xC70F6907 ^ (16 * kFactor);
    const std::uint64_t after_first = (seed ^ mixed(first)) * kFactor;
    std::uint64_t second = (0x123456789ABCDEF0 ^ after_first) * back;
    second = (second ^ second >> 47) * back;
    std::memcpy(text.data() + 8, &second, 8);
    bool printable = true;
    for (const char byte : text)
      printable &= byte > ' ' && byte < 127 && byte != '"' && byte != '\\';
    if (printable) texts.insert(text);
  }
  return {texts.begin(), texts.end()};
}

TEST(TextHash, TellsApartWhatTheStandardLibrarysDoesNot) {
  const auto texts = colliding_texts(200);
  std::set<std::size_t> standard;
  std::set<std::size_t> own;
  for (const std::string& text : texts) {
    standard.insert(std::hash<std::string_view>()(text));
    own.insert(TextHash()(text));
  }
#ifdef __GLIBCXX__
  EXPECT_EQ(standard.size(), 1U);
#endif
  EXPECT_EQ(own.size(), texts.size());
}

TEST(TextHash, LooksAtEveryByteAndTheLength) {
  std::set<std::size_t> hashes{TextHash()("")};
  std::size_t count = 1;
  for (const std::size_t length : {1U, 7U, 8U, 9U, 20U}) {
    std::string text(length, '\0');
    hashes.insert(TextHash()(text));
    ++count;
    for (char& byte : text) {
      byte = 1;
      hashes.insert(TextHash()(text));
      ++count;
      byte = 0;
    }
  }
  EXPECT_EQ(hashes.size(), count);
  EXPECT_EQ(TextHash()("word"), TextHash()(std::string("word")));
}

}  // namespace
