#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>

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

// If the path is a pipe, waits until somebody reads it, and has it open for as long as this exists.
// A write would wait inside a system call, where a program that saves on the first signal does not
// notice it.
class PipeWithReader {
 public:
  explicit PipeWithReader(const fs::path& path) {
    const auto status = status_of(path);
    if (!status || !S_ISFIFO(status->st_mode)) return;
    while ((end_ = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO) {
      check_runtime(!interrupted(), path.string(),
                    ": nobody reads this pipe; nothing was saved there");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  ~PipeWithReader() {
    if (end_ >= 0) ::close(end_);
  }
  PipeWithReader(const PipeWithReader&) = delete;
  PipeWithReader& operator=(const PipeWithReader&) = delete;

 private:
  int end_ = -1;
};

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

OwnFile::OwnFile(fs::path path) : path_(std::move(path)), last_(beginning()) {}

// Inode number and time would not do: some network file systems change them on their own.
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
  const PipeWithReader pipe(path_);
  write();
  last_ = beginning();
}

}  // namespace rowgrad
