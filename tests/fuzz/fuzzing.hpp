#pragma once

// What every fuzz target checks. A target defines run(); libFuzzer calls it with one input after
// another, and saves inputs for which the process aborts.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rowgrad::fuzzing {

/// Defined by each target.
void run(std::string_view input);

/// Aborts the process with this message unless the condition holds.
void expect(bool condition, std::string_view message);

/// Calls `read` for an untrusted input. It may refuse the input with a std::runtime_error or a
/// std::invalid_argument whose message, which is then returned, is short and our own. Any other
/// exception is a finding, and so is memory beyond a small multiple of the input.
std::optional<std::string> refusal_of(std::string_view input, const std::function<void()>& read);

/// Writes a file in memory, always the same one, and returns its path.
std::string memory_file(std::string_view contents);

}  // namespace rowgrad::fuzzing
