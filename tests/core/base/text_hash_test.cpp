#include "tests/test.hpp"

namespace {

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
