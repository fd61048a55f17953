#pragma once

// What options may be. CLI11's own checks let NaN through and print limits of 300 digits.

#include <cmath>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {

constexpr double kLargest = std::numeric_limits<double>::max();

/// A whole number from 1 on, of at most twelve digits.
inline CLI::Validator at_least_one() {
  return {[](const std::string& text) -> std::string {
            const bool digits =
                !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
            if (digits && text.size() <= 12 && text.find_first_not_of('0') != std::string::npos)
              return {};
            return "got " + text + ", expected a whole number from 1 on";
          },
          "N >= 1"};
}

/// A whole number from 0 on, of at most twelve digits.
inline CLI::Validator at_least_zero() {
  return {[](const std::string& text) -> std::string {
            if (!text.empty() && text.size() <= 12 &&
                text.find_first_not_of("0123456789") == std::string::npos)
              return {};
            return "got " + text + ", expected a whole number from 0 on";
          },
          "N >= 0"};
}

/// A number in [low, high]; not NaN and not infinite.
inline CLI::Validator finite_number(double low, double high) {
  const std::string range = high == kLargest ? concat("a finite number from ", low, " on")
                                             : concat("a number from ", low, " to ", high);
  return {[low, high, range](const std::string& text) -> std::string {
            char* end = nullptr;
            const double number = std::strtod(text.c_str(), &end);
            const bool whole = !text.empty() && *end == '\0';
            if (whole && std::isfinite(number) && number >= low && number <= high) return {};
            return "got " + text + ", expected " + range;
          },
          "X"};
}

}  // namespace rowgrad
