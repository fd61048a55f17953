#pragma once

#include <string_view>

namespace rowgrad {

constexpr std::string_view kBuiltinStoryTitle = "The Slow Clock";

/// The text of examples/data/the-slow-clock.txt when the program was built.
extern const std::string_view kBuiltinStory;

}  // namespace rowgrad
