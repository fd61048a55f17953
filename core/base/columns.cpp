#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/columns.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::uint32_t kNotFinite = 65535;

std::string from_base64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t buffer = 0;
  int bits = 0;
  for (const char digit : text.substr(0, text.find('='))) {
    buffer = buffer << 6 | static_cast<std::uint32_t>(kDigits.find(digit) & 63U);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(buffer >> bits & 255U);
  }
  check_runtime(base64(bytes) == text, "a column of numbers is not valid base64");
  return bytes;
}

std::uint32_t code_of(double number) {
  if (!std::isfinite(number)) return kNotFinite;
  if (!(number > 0)) return 0;
  const double exponent = std::clamp(std::floor(std::log10(number)), -32.0, 31.0);
  const double digits = std::min(std::round(number * std::pow(10, 2 - exponent)), 1000.0);
  return digits < 100 ? 0 : static_cast<std::uint32_t>((exponent + 32) * 900 + digits - 99);
}

}  // namespace

double rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return std::strtod(text, nullptr);
}

std::string base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t three = 0;
    for (std::size_t i = at; i < at + 3; ++i)
      three = three << 8 | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63U];
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - padding, padding, padding, '=');
}

std::string pack_counts(std::span<const std::uint64_t> numbers) {
  std::string bytes;
  for (std::uint64_t number : numbers) {
    for (; number >= 128; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
    bytes += static_cast<char>(number);
  }
  return base64(bytes);
}

std::vector<std::uint64_t> unpack_counts(std::string_view column) {
  std::vector<std::uint64_t> numbers;
  std::uint64_t number = 0;
  int shift = 0;
  for (const char one : from_base64(column)) {
    const auto byte = static_cast<unsigned char>(one);
    check_runtime(shift < 63 || (shift == 63 && byte < 2),
                  "a column of numbers has an integer above 2^64 - 1");
    number |= std::uint64_t{byte & 127U} << shift;
    shift += 7;
    if (byte >= 128) continue;
    numbers.push_back(number);
    number = 0;
    shift = 0;
  }
  check_runtime(shift == 0, "a column of numbers is truncated");
  return numbers;
}

std::string pack_numbers(std::span<const double> numbers) {
  std::string bytes;
  for (const double number : numbers) {
    const std::uint32_t code = code_of(number);
    bytes += static_cast<char>(code & 255U);
    bytes += static_cast<char>(code >> 8);
  }
  return base64(bytes);
}

std::vector<double> unpack_numbers(std::string_view column) {
  const std::string bytes = from_base64(column);
  check_runtime(bytes.size() % 2 == 0, "a column of numbers is truncated");
  std::vector<double> numbers;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::uint32_t code = static_cast<unsigned char>(bytes[i]) |
                               std::uint32_t{static_cast<unsigned char>(bytes[i + 1])} << 8;
    const int digits = static_cast<int>((code - 1) % 900) + 100;
    const int exponent = static_cast<int>((code - 1) / 900) - 34;  // exponent of the last digit
    // Powers up to 10^22 are exact, so most results are correctly rounded.
    numbers.push_back(code == 0            ? 0
                      : code == kNotFinite ? std::numeric_limits<double>::quiet_NaN()
                      : exponent < 0       ? digits / std::pow(10, -exponent)
                                           : digits * std::pow(10, exponent));
  }
  return numbers;
}

}  // namespace rowgrad
