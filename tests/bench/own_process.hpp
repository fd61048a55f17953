#pragma once

#include <functional>

#include <nlohmann/json.hpp>

namespace rowgrad::bench {

/// Runs `work` in a process of its own and returns its result, with `peak_bytes`, the most memory
/// that the process had at any time, and `start_bytes`, what it had before `work` began. The
/// operating system never lowers the peak of a process, so in a single process a small workload
/// would get the peak of a larger one before it.
///
/// Throws std::runtime_error with the message of what `work` threw, or if the process was killed
/// (by Linux, if memory runs out).
nlohmann::json in_own_process(const std::function<nlohmann::json()>& work);

}  // namespace rowgrad::bench
