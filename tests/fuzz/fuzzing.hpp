#pragma once

// Checks for all fuzz targets. replay_test.cpp and libFuzzer call a target with one input after
// another. libFuzzer saves the inputs that end the process.

#include <concepts>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rowgrad::fuzzing {

// The targets, one in each file of targets/.
void fuzz_byte_pairs(std::string_view input);
void fuzz_checkpoint(std::string_view input);
void fuzz_gpt2_files(std::string_view input);
void fuzz_json(std::string_view input);
void fuzz_safetensors(std::string_view input);
void fuzz_tokenizer_json(std::string_view input);

/// The exception that expect() throws. Not a std::exception, because targets catch those.
struct Finding {
  std::string message;
};

/// Throws a Finding with this message unless the condition holds.
void expect(bool condition, std::string_view message);

/// Calls `read`, which reads an untrusted input. If it rejects the input with a std::runtime_error
/// or std::invalid_argument, returns the message. Throws a Finding if the message is long or
/// another library's. Under AddressSanitizer, also limits memory use to a small multiple of the
/// input. Any other exception of `read` ends the test.
std::optional<std::string> refusal_of(std::string_view input, const std::function<void()>& read);

/// Writes a file in memory, which each call replaces, and returns its path.
std::string memory_file(std::string_view contents);

/// Splits an input into numbers, taken from its end, and strings, taken from its beginning, so that
/// changing one leaves the others unchanged. Once the input is used up, numbers are as small as
/// possible, and strings are empty.
class Pieces {
 public:
  explicit Pieces(std::string_view input) : rest_(input) {}

  /// Returns a number from `least` to `most`, from as few bytes as possible.
  template <std::integral T>
  T number(T least, T most) {
    const auto range = static_cast<std::uint64_t>(most) - static_cast<std::uint64_t>(least);
    std::uint64_t bits = 0;
    for (std::uint64_t left = range; left > 0 && !rest_.empty(); left >>= 8) {
      bits = bits << 8 | static_cast<unsigned char>(rest_.back());
      rest_.remove_suffix(1);
    }
    if (range != std::numeric_limits<std::uint64_t>::max()) bits %= range + 1;
    return static_cast<T>(static_cast<std::uint64_t>(least) + bits);
  }

  /// Returns any value of a type, including infinities and NaN.
  template <class T>
  T any() {
    T value{};
    const std::string_view bytes =
        rest_.substr(rest_.size() - std::min(rest_.size(), sizeof value));
    std::memcpy(&value, bytes.data(), bytes.size());
    rest_.remove_suffix(bytes.size());
    return value;
  }

  /// Returns the first bytes, at most `most`.
  std::string bytes(std::size_t most) {
    const std::string_view first = rest_.substr(0, most);
    rest_.remove_prefix(first.size());
    return std::string(first);
  }

  /// Returns at most `most` bytes, up to a backslash. A double backslash stands for one.
  std::string text(std::size_t most) {
    std::string result;
    while (result.size() < most && !rest_.empty()) {
      const char byte = bytes(1)[0];
      if (byte == '\\' && bytes(1) != "\\") break;
      result += byte;
    }
    return result;
  }

 private:
  std::string_view rest_;
};

}  // namespace rowgrad::fuzzing
