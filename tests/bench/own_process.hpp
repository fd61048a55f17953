#pragma once

#include <functional>

#include <nlohmann/json.hpp>

namespace rowgrad::bench {

/// What `work` returns, computed in a process of its own, with `peak_bytes`, the most memory that
/// process had at any time, and `start_bytes`, what it had before `work` began. The operating
/// system keeps that number for a whole process and never lowers it, so in one process a small
/// workload would be given the memory of a larger one before it. The caller must not have used
/// OpenMP or OpenBLAS: their threads do not come along into the new process, which would wait for
/// them forever.
///
/// Throws std::runtime_error with the message of what `work` threw, or if the process was ended
/// (by Linux, where memory runs out).
nlohmann::json in_own_process(const std::function<nlohmann::json()>& work);

}  // namespace rowgrad::bench
