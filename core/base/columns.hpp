#pragma once

// Columns of numbers as short strings, for JSON files with many of them. The strings are base64
// (RFC 4648) of whole numbers in LEB128, or of two bytes for each number, the lower one first.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

/// Returns bytes as text.
std::string base64(std::string_view bytes);

/// Returns the number with three significant digits, which keeps texts short.
double rounded(double number);

/// Returns a column of whole numbers.
std::string pack_counts(std::span<const std::uint64_t> numbers);

/// Returns the numbers of a column. Throws std::runtime_error for any other string.
std::vector<std::uint64_t> unpack_counts(std::string_view column);

/// Returns a column of numbers with three significant digits, d.dd · 10^e with e from −32 to 31.
/// The code of a number is 1 + 900 · (e + 32) + (ddd − 100). It is 0 for smaller and for negative
/// numbers, and 65535 for NaN and infinity.
std::string pack_numbers(std::span<const double> numbers);

/// Returns the numbers of a column, where 65535 becomes NaN. Throws like unpack_counts().
std::vector<double> unpack_numbers(std::string_view column);

}  // namespace rowgrad
