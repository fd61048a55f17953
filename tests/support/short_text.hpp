#pragma once

#include <string>

#include <rowgrad/examples/support/data_files.hpp>

namespace rowgrad::testing {

/// Long enough for a few dozen steps, short enough for a test.
inline std::string short_text() { return std::string(kBuiltinStory).substr(0, 2500); }

}  // namespace rowgrad::testing
