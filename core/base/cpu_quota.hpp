#pragma once

#include <filesystem>
#include <optional>

namespace rowgrad {

/// Returns the number of CPUs that control groups grant this process, or nullopt without a limit.
/// The number is the smallest quota / period of the process's group and mounted parent groups,
/// rounded up. Reads cpu.max (version 2) and cpu.cfs_quota_us (version 1); see cgroups(7). Tests
/// pass `root`.
std::optional<int> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace rowgrad
