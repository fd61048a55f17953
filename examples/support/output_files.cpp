#include <fstream>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <system_error>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/tensor/check.hpp>
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

// What a path leads to, links followed though they lead to nothing yet.
fs::path followed(fs::path path) {
  constexpr int kMostLinks = 40;  // as the system has it
  std::error_code closed;         // a folder that we may not look into
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, closed); ++i)
    path = path.parent_path() / fs::read_symlink(path);
  return path;
}

// The same for every path to one file: its device and number; before it exists, those of its folder
// and its name there. Nothing for devices and pipes, and where there is no such folder.
using Identity = std::optional<std::tuple<dev_t, ino_t, std::string>>;
Identity identity_of(const fs::path& path) {
  if (const auto status = status_of(path)) {
    if (!S_ISREG(status->st_mode)) return std::nullopt;
    return Identity({status->st_dev, status->st_ino, ""});
  }
  const fs::path target = fs::absolute(followed(path));
  const auto folder = status_of(target.parent_path());
  if (!folder) return std::nullopt;
  return Identity({folder->st_dev, folder->st_ino, target.filename().string()});
}

}  // namespace

void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read) {
  std::set<Identity> taken{identity_of("/dev/stdin"), identity_of("/dev/stdout"),
                           identity_of("/dev/stderr")};
  for (const std::string& path : read)
    if (!path.empty()) taken.insert(identity_of(path));
  for (const fs::path& path : published_places()) taken.insert(identity_of(path));
  for (const std::string& path : written) {
    if (path.empty()) continue;
    const fs::path folder = fs::absolute(followed(path)).parent_path();
    std::error_code closed;
    check_runtime(fs::is_directory(folder, closed), path, ": there is no folder ", folder.string());
    check_runtime(!fs::is_directory(path, closed), path, ": is a folder");
    const Identity identity = identity_of(path);
    if (!identity) continue;
    check_runtime(access(folder.c_str(), W_OK) == 0, path, ": nothing can be written in ",
                  folder.string());
    check_runtime(taken.insert(identity).second, path,
                  ": is written here and also read, or written by another option");
  }
}

OwnFile::OwnFile(fs::path path) : path_(std::move(path)), last_(beginning()) {}

// Not its number or time, which some network file systems change of themselves.
std::optional<std::string> OwnFile::beginning() const {
  constexpr std::size_t kBytes = std::size_t{1} << 16;
  const auto status = status_of(path_);
  if (!status || !S_ISREG(status->st_mode)) return std::nullopt;
  std::string bytes(kBytes, '\0');
  std::ifstream file(path_, std::ios::binary);
  file.read(bytes.data(), kBytes);
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

void OwnFile::rewrite(const std::function<void()>& write) {
  const auto present = beginning();
  check_runtime(!present || present == last_, path_.string(),
                ": another program has written it meanwhile; nothing was saved there");
  write();
  last_ = beginning();
}

}  // namespace rowgrad
