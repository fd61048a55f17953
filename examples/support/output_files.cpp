#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/output_files.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

// Whether the effective user, on whose rights writing depends, may write it.
bool can_write(const fs::path& path) {
  return ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

// Equal for all paths to one file: its device and inode number or, before it exists, those of its
// folder with its name.
using Identity = std::optional<std::tuple<dev_t, ino_t, std::string>>;
Identity identity_of(const fs::path& path) {
  if (const auto file = status_of(path)) return Identity({file->st_dev, file->st_ino, ""});
  const auto folder = status_of(path.parent_path());
  if (!folder) return std::nullopt;
  return Identity({folder->st_dev, folder->st_ino, path.filename().string()});
}

}  // namespace

void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read) {
  std::vector<fs::path> others = published_places();
  others.insert(others.end(), {"/dev/stdin", "/dev/stdout", "/dev/stderr"});
  others.insert(others.end(), read.begin(), read.end());
  std::set<Identity> taken;
  for (const fs::path& path : others) taken.insert(identity_of(path));
  std::set<Identity> labels;  // folders of labelled texts
  for (const std::string& path : read)
    if (fs::is_directory(path))
      for (const auto& label : fs::directory_iterator(path)) labels.insert(identity_of(label));

  for (const std::string& path : written) {
    if (path.empty()) continue;
    const fs::path target = fs::absolute(without_links(path));
    const fs::path folder = target.parent_path();
    const auto folder_status = status_of(folder);
    check_runtime(folder_status && S_ISDIR(folder_status->st_mode), path, ": there is no folder ",
                  folder.string());
    const long longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
    check_runtime(longest < 0 || std::cmp_less_equal(target.filename().string().size(), longest),
                  path, ": the name has more than ", longest, " bytes");
    const auto file = status_of(path);
    check_runtime(!file || !S_ISDIR(file->st_mode), path, ": is a folder");
    const bool regular = !file || S_ISREG(file->st_mode);
    check_runtime(!regular || can_write(folder), path, ": nothing can be written in ",
                  folder.string());
    check_runtime(!file || can_write(path), path, ": is write-protected");
    if (!regular) continue;
    check_runtime(!labels.contains(identity_of(folder)), path, ": is in a folder that is read");
    check_runtime(taken.insert(identity_of(target)).second, path,
                  ": is written here and also read, or written by another option");
  }
}

}  // namespace rowgrad
