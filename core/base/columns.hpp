#pragma once

// Encodes columns of numbers as short strings, for large JSON files. Each string is the base64
// encoding (RFC 4648) of integers in LEB128, or of two little-endian bytes per floating-point
// number.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rowgrad {

/// Encodes bytes in base64.
std::string base64(std::string_view bytes);

/// Rounds a number to three significant digits.
double rounded(double number);

/// Encodes a column of integers.
std::string pack_counts(std::span<const std::uint64_t> numbers);

/// Decodes a column of pack_counts(). Throws std::runtime_error for invalid strings.
std::vector<std::uint64_t> unpack_counts(std::string_view column);

/// Encodes a column of numbers with three significant digits. The number d.dd · 10^e, with e from
/// −32 to 31, has code 1 + 900 · (e + 32) + (ddd − 100). Smaller and negative numbers have code 0,
/// larger numbers the code of 10^32, NaN and infinity 65535.
std::string pack_numbers(std::span<const double> numbers);

/// Decodes a column of pack_numbers(); 65535 becomes NaN. Throws like unpack_counts().
std::vector<double> unpack_numbers(std::string_view column);

}  // namespace rowgrad
