#pragma once

// What every fuzz target checks. A target takes one input after another, of replay_test.cpp or of
// libFuzzer, which saves those for which the process ends.

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

// The targets, one a file of targets/.
void fuzz_byte_pairs(std::string_view input);
void fuzz_checkpoint(std::string_view input);
void fuzz_gpt2_files(std::string_view input);
void fuzz_json(std::string_view input);
void fuzz_safetensors(std::string_view input);
void fuzz_tokenizer_json(std::string_view input);

/// What expect() throws: no std::exception, as targets catch those.
struct Finding {
  std::string message;
};

/// Throws a Finding with this message unless the condition holds.
void expect(bool condition, std::string_view message);

/// Calls `read` for an untrusted input. It may refuse the input with a std::runtime_error or a
/// std::invalid_argument whose message, which is then returned, is short and our own. Any other
/// exception is a finding, and so is, under AddressSanitizer, memory beyond a small multiple of the
/// input.
std::optional<std::string> refusal_of(std::string_view input, const std::function<void()>& read);

/// Writes a file in memory, always the same one, and returns its path.
std::string memory_file(std::string_view contents);

/// Numbers and texts that an input stands for: numbers are taken from its end and texts from its
/// beginning, so that a change of one leaves the others as they are. Of an input that is used up,
/// they are the least ones and empty.
class Pieces {
 public:
  explicit Pieces(std::string_view input) : rest_(input) {}

  /// One from least to most, of no more bytes than these take.
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

  /// Any one of its type: of floating-point types infinities and NaNs, too.
  template <class T>
  T any() {
    T value{};
    const std::string_view bytes =
        rest_.substr(rest_.size() - std::min(rest_.size(), sizeof value));
    std::memcpy(&value, bytes.data(), bytes.size());
    rest_.remove_suffix(bytes.size());
    return value;
  }

  /// The first bytes, at most this many.
  std::string bytes(std::size_t most) {
    const std::string_view first = rest_.substr(0, most);
    rest_.remove_prefix(first.size());
    return std::string(first);
  }

  /// At most this many bytes: up to a backslash before any other byte, but a double one is one.
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
