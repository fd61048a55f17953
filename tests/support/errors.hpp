#pragma once

// Expectations of exceptions and their messages.

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace rowgrad::testing {

/// Returns the message of the thrown Error, "another error: …" or "no error".
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

inline ::testing::AssertionResult has(std::string_view text, std::string_view part) {
  if (text.find(part) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << '"' << part << "\" is not in \"" << text << '"';
}

}  // namespace rowgrad::testing

/// Expects a statement to throw an Error with exactly this message. The statement is last, as it
/// may contain commas.
#define EXPECT_ERROR(Error, message, ...) \
  EXPECT_EQ(::rowgrad::testing::error_of<Error>([&] { __VA_ARGS__; }), message)

#define EXPECT_INVALID(message, ...) EXPECT_ERROR(std::invalid_argument, message, __VA_ARGS__)

/// Expects a statement to throw an Error whose message contains `part`.
#define EXPECT_ERROR_WITH(Error, part, ...) \
  EXPECT_HAS(::rowgrad::testing::error_of<Error>([&] { __VA_ARGS__; }), part)

#define EXPECT_HAS(text, part) EXPECT_TRUE(::rowgrad::testing::has(text, part))
