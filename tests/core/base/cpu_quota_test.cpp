#include "tests/test.hpp"

namespace {

using Files = std::map<std::string, std::string>;

// Mounts of control groups: version 2, version 1, and version 1 inside a container.
const std::string kMount2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
const std::string kMount1 =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n";
const std::string kContainer =
    "32 31 0:29 /docker/7 /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n";
const std::string kMounts = "proc/self/mountinfo", kGroups = "proc/self/cgroup";
const std::string kFolder2 = "sys/fs/cgroup/", kFolder1 = "sys/fs/cgroup/cpu,cpuacct/";

std::optional<int> quota_of(const Files& files) {
  const TemporaryFolder folder;
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = folder.path() / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  return cpu_quota(folder.path());
}

TEST(CpuQuota, IsTheSmallestQuotaOfAllParentGroups) {
  struct Case {
    std::string name;
    Files files;
    std::optional<int> quota;
  };
  for (const Case& c : std::vector<Case>{
           {"no proc", {}, {}},
           {"no limit",
            {{kMounts, kMount2}, {kGroups, "0::/a\n"}, {kFolder2 + "a/cpu.max", "max 100000\n"}},
            {}},
           {"rounded up",
            {{kMounts, kMount2}, {kGroups, "0::/a\n"}, {kFolder2 + "a/cpu.max", "150000 100000\n"}},
            2},
           {"less than one",
            {{kMounts, kMount2}, {kGroups, "0::/a\n"}, {kFolder2 + "a/cpu.max", "5000 100000\n"}},
            1},
           {"a group around it",
            {{kMounts, kMount2},
             {kGroups, "0::/a/b/c\n"},
             {kFolder2 + "a/cpu.max", "300000 100000\n"},
             {kFolder2 + "a/b/cpu.max", "max 100000\n"},
             {kFolder2 + "a/b/c/cpu.max", "800000 100000\n"}},
            3},
           {"the mounted group itself",
            {{kMounts, kMount2}, {kGroups, "0::/\n"}, {kFolder2 + "cpu.max", "400000 100000\n"}},
            4},
           {"another group",
            {{kMounts, kMount2}, {kGroups, "0::/a\n"}, {kFolder2 + "b/cpu.max", "100000 100000\n"}},
            {}},
           {"a group outside the mount",
            {{kMounts, kMount2},
             {kGroups, "0::/../../x\n"},
             {kFolder2 + "cpu.max", "200000 100000\n"}},
            2},
           {"version 1",
            {{kMounts, kMount1},
             {kGroups, "4:cpuset:/\n3:cpu,cpuacct:/a/b\n"},
             {kFolder1 + "a/cpu.cfs_quota_us", "250000\n"},
             {kFolder1 + "a/cpu.cfs_period_us", "100000\n"},
             {kFolder1 + "a/b/cpu.cfs_quota_us", "-1\n"},
             {kFolder1 + "a/b/cpu.cfs_period_us", "100000\n"}},
            3},
           {"version 1 in a container",
            {{kMounts, kContainer},
             {kGroups, "1:cpu:/docker/7/job\n"},
             {"sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n"},
             {"sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n"}},
            4},
           {"nonsense",
            {{kMounts, "a b\n" + kMount2 + "-\n"},
             {kGroups, "\n0\n0::/a\n"},
             {kFolder2 + "a/cpu.max", "few\n"}},
            {}},
       })
    EXPECT_EQ(quota_of(c.files), c.quota) << c.name;
}

}  // namespace
