#pragma once

#include <filesystem>
#include <optional>

namespace rowgrad {

/// The number of CPUs whose time the control groups of this process grant it, or nullopt without a
/// limit: the smallest quota / period, rounded up, of its group and of all groups around it, as far
/// as they are mounted. Reads cpu.max (version 2) and cpu.cfs_quota_us (version 1); see cgroups(7).
/// Tests pass another folder than `/`.
std::optional<int> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace rowgrad
