#pragma once

#include <chrono>

namespace rowgrad::testing {

/// How long the action takes, for tests of what must not grow with the square of its input. Their
/// limits leave room for a slow machine: what they are to catch takes many times as long.
template <class Action>
double seconds_of(Action&& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace rowgrad::testing
