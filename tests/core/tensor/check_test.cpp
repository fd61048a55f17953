#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/failing_allocations.hpp"
#include <rowgrad/core/tensor/check.hpp>

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

}  // namespace
}  // namespace rowgrad
