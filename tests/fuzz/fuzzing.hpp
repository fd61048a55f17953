#pragma once

// What every fuzz target checks. A target defines run(); libFuzzer calls it with one input after
// another, and keeps an input at which the process ends.

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rowgrad::fuzzing {

/// Defined by each target.
void run(std::string_view input);

/// Ends the process with this message, unless the condition holds.
void expect(bool condition, std::string_view message);

/// Reads what nobody vouches for. `read` may refuse it, with a std::runtime_error or a
/// std::invalid_argument whose message is short and in words of ours, which is then returned; any
/// other exception is a finding. So is memory beyond a small multiple of the input.
std::optional<std::string> refusal_of(std::string_view input, const std::function<void()>& read);

/// A file in memory with these contents, one at a time. Returns its path.
std::string memory_file(std::string_view contents);

}  // namespace rowgrad::fuzzing
