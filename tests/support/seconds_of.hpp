#pragma once

#include <ctime>

namespace rowgrad::testing {

/// Returns the processor time of the action, which does not depend on other load. For tests that
/// detect quadratic time. Their limits are generous for slow builds, because quadratic time would
/// exceed them many times over.
template <class Action>
double seconds_of(Action&& action) {
  const std::clock_t start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace rowgrad::testing
