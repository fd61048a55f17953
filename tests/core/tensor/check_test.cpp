#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/failing_allocations.hpp"
#include <rowgrad/core/tensor/random.hpp>

namespace rowgrad {
namespace {

TEST(Concat, ThrowsRatherThanLeaveSomethingOut) {
  const std::string name(40, 'n');
  testing::for_every_failure([] { return std::make_unique<std::string>(); },
                             [&](std::string& text) { text = concat("late.", name, '.', 12); },
                             [&](const std::string& text, bool finished) {
                               EXPECT_EQ(text, finished ? "late." + name + ".12" : "");
                             });
}

// It too is put together by a stream, and read by one.
TEST(Random, HasItsStateWholeOrThrows) {
  Random drawn(1);
  drawn.normal({3});
  const std::string state = drawn.state();
  testing::for_every_failure(
      [] { return std::make_unique<std::string>(); },
      [&](std::string& text) { text = drawn.state(); },
      [&](const std::string& text, bool finished) { EXPECT_EQ(text, finished ? state : ""); });
  testing::for_every_failure([] { return std::make_unique<Random>(2); },
                             [&](Random& random) { random.restore(state); },
                             [&](const Random& random, bool finished) {
                               EXPECT_EQ(random.state(), finished ? state : Random(2).state());
                             });
}

}  // namespace
}  // namespace rowgrad
