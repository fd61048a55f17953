#pragma once

#include <ctime>

namespace rowgrad::testing {

/// How long this process computes for the action, whatever else the machine does, for tests of what
/// must not grow with the square of its input. Their limits leave room for slow builds: what they
/// are to catch takes many times as long.
template <class Action>
double seconds_of(Action&& action) {
  const std::clock_t start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace rowgrad::testing
