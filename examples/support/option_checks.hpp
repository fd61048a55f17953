#pragma once

// Checks of option values. Those of CLI11 accept NaN and print limits of 300 digits.

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <system_error>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace rowgrad {

constexpr double kAnyNumber = std::numeric_limits<double>::max();
constexpr std::uint64_t kAnyWhole = std::numeric_limits<std::uint64_t>::max();

/// A whole number in [least, most], written in digits only, by default at most twelve.
inline CLI::Validator whole_number(std::uint64_t least, std::uint64_t most = 999'999'999'999) {
  return {[least, most](const std::string& text) -> std::string {
            std::uint64_t number = 0;
            const char* end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, number);
            const bool octal = text.size() > 1 && text.front() == '0';  // CLI11 takes 010 for 8
            if (error == std::errc() && rest == end && !octal && number >= least && number <= most)
              return {};
            return concat("got ", in_quotes(text), ", expected a whole number from ", least, " to ",
                          most);
          },
          concat("N >= ", least)};
}

/// A finite number in [low, high].
inline CLI::Validator finite_number(double low, double high) {
  const std::string range = high == kAnyNumber ? concat("a finite number from ", low, " on")
                                               : concat("a number from ", low, " to ", high);
  return {[low, high, range](const std::string& text) -> std::string {
            char* end = nullptr;
            const double number = std::strtod(text.c_str(), &end);
            const bool whole = !text.empty() && *end == '\0';
            if (whole && std::isfinite(number) && number >= low && number <= high) return {};
            return concat("got ", in_quotes(text), ", expected ", range);
          },
          "X"};
}

/// Refuses "", which a shell passes for a variable that is not set.
inline CLI::Validator file_name() {
  return {[](const std::string& text) -> std::string {
            return text.empty() ? "got an empty text, expected the name of a file" : "";
          },
          "FILE"};
}

/// A value of --tokenizer.
inline CLI::Validator tokenizer_choice() {
  return CLI::IsMember(kTokenizerNames) | CLI::ExistingFile;
}

}  // namespace rowgrad
