#pragma once

#include <exception>
#include <string>

namespace rowgrad::testing {

/// The message of the Error that the action throws, for a test to compare or search.
template <class Error, class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
  return "no error";
}

}  // namespace rowgrad::testing
