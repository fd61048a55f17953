#pragma once

#include <filesystem>
#include <optional>

namespace rowgrad {

/// Returns the number of CPUs that this process may use according to its control groups, or nullopt
/// without a limit: the smallest quota / period, rounded up, of its group and all mounted parent
/// groups. Reads cpu.max (version 2) and cpu.cfs_quota_us (version 1); see cgroups(7). Tests pass
/// another `root`.
std::optional<int> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace rowgrad
