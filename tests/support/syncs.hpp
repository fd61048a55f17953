#pragma once

#include <functional>

namespace rowgrad::testing {

/// What fsync() calls, if it is set: core/base/file_test.cpp defines fsync() for all tests.
inline std::function<int(int)> replacement_of_fsync;

}  // namespace rowgrad::testing
