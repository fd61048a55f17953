#include "tests/test.hpp"

namespace {

TEST(StringHash, DependsOnEveryByteAndTheLength) {
  std::set<std::size_t> hashes;
  std::size_t count = 0;
  for (const std::size_t length : {0U, 1U, 7U, 8U, 9U, 20U})
    // If `changed` is `length`, no byte of the hashed string is 1.
    for (std::size_t changed = 0; changed <= length; ++changed, ++count) {
      std::string text(length + 1, '\0');
      text[changed] = 1;
      hashes.insert(StringHash()(text.substr(0, length)));
    }
  EXPECT_EQ(hashes.size(), count);
}

}  // namespace
