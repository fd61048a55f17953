#pragma once

#include <ctime>

namespace rowgrad::testing {

/// Returns the processor time of the action, which does not depend on other load. Tests use it to
/// detect quadratic time. Their limits allow for slow builds, and quadratic time exceeds them many
/// times over.
template <class Action>
double seconds_of(Action&& action) {
  const std::clock_t start = std::clock();
  action();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace rowgrad::testing
