#include <algorithm>
#include <cmath>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include <rowgrad/core/base/cpu_quota.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

// Returns the contents of a file, or "" if it cannot be read.
std::string text_of(const fs::path& path) {
  try {
    return read_file(path);
  } catch (const std::exception&) {
    return "";
  }
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::ranges::find(all, one) != all.end();
}

// A mounted hierarchy of control groups: its folder, and the group at the root of the mount.
struct Mount {
  fs::path folder, group;
  bool is_version_2;
};

// Returns the hierarchies that can limit CPU time. The lines of mountinfo have this format (see
// proc(5)):
//   36 35 98:0 GROUP FOLDER rw,noatime [optional …] - TYPE source rw,cpu,cpuacct
std::vector<Mount> mounts(const fs::path& root) {
  std::vector<Mount> found;
  for (const std::string& line : split_at(text_of(root / "proc/self/mountinfo"), '\n')) {
    const std::vector<std::string> fields = split_at(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 5 || fields.end() - dash < 4) continue;
    const bool is_version_2 = dash[1] == "cgroup2";
    if (is_version_2 || (dash[1] == "cgroup" && has(split_at(dash[3], ','), "cpu")))
      found.push_back({root / fs::path(fields[4]).relative_path(), fields[3], is_version_2});
  }
  return found;
}

// Returns the control group of this process in a hierarchy. The lines of proc/self/cgroup have the
// format NUMBER:CONTROLLERS:GROUP. In version 2, CONTROLLERS is empty.
std::optional<fs::path> group_in(const Mount& mount, const std::string& groups) {
  for (const std::string& line : split_at(groups, '\n')) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (mount.is_version_2 ? controllers.empty() : has(split_at(controllers, ','), "cpu"))
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// Returns the number of CPUs that one group grants, or infinity without a limit.
double limit_of(const fs::path& folder, bool is_version_2) {
  std::istringstream numbers(is_version_2 ? text_of(folder / "cpu.max")
                                          : text_of(folder / "cpu.cfs_quota_us") + ' ' +
                                                text_of(folder / "cpu.cfs_period_us"));
  double quota = 0, period = 0;  // a quota of "max" or -1 means no limit
  return numbers >> quota >> period && quota > 0 && period > 0 ? quota / period : HUGE_VAL;
}

}  // namespace

std::optional<int> cpu_quota(const fs::path& root) {
  double limit = HUGE_VAL;
  const std::string groups = text_of(root / "proc/self/cgroup");
  for (const Mount& mount : mounts(root)) {
    const std::optional<fs::path> group = group_in(mount, groups);
    if (!group) continue;
    // In some containers, the group is outside the mount. The group of the mount is used instead.
    fs::path within = group->lexically_relative(mount.group);
    if (within.empty() || *within.begin() == "..") within = ".";
    fs::path folder = mount.folder;
    limit = std::min(limit, limit_of(folder, mount.is_version_2));
    for (const fs::path& name : within)
      limit = std::min(limit, limit_of(folder /= name, mount.is_version_2));
  }
  if (limit > 1e6) return std::nullopt;
  return static_cast<int>(std::ceil(limit));
}

}  // namespace rowgrad
