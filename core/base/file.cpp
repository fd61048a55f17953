#include <atomic>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), concat(what, ' ', path.string()));
}

// Returns true for the errors of file systems that cannot lock, sync a folder or rename without
// replacing.
bool is_unsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK;
}

// Returns a descriptor of the same file that is not 0, 1 or 2 (the standard streams).
int above_standard(int number) {
  if (number < 0 || number > STDERR_FILENO) return number;
  const OpenFile low({}, number);
  return ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

// Opens or creates the file `name`. `path` is passed by value, so that nothing can throw between
// opening the file and constructing its owner.
OpenFile open_file(fs::path path, const char* name, int flags) {
  return OpenFile(std::move(path),
                  above_standard(TEMP_FAILURE_RETRY(::open(name, flags | O_CLOEXEC, 0666))));
}

OpenFile open_for_reading(const fs::path& path) {
  OpenFile file = open_file(path, path.c_str(), O_RDONLY);
  if (file.descriptor() < 0) fail("cannot read", path);
  return file;
}

struct stat status_of(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("cannot read", path);
  return status;
}

std::string read_to_end(int descriptor, const fs::path& path) {
  constexpr std::size_t kMin = 4096;  // pipes and files in /proc report a size of 0
  std::string contents(static_cast<std::size_t>(status_of(descriptor, path).st_size) + kMin, '\0');
  std::size_t length = 0;
  for (;;) {
    if (length == contents.size()) contents.resize(2 * length);
    const ssize_t count =
        TEMP_FAILURE_RETRY(::read(descriptor, contents.data() + length, contents.size() - length));
    if (count < 0) fail("cannot read", path);
    if (count == 0) break;
    length += static_cast<std::size_t>(count);
  }
  contents.resize(length);
  return contents;
}

void write_to_device(const fs::path& path, std::span<const std::string_view> pieces) {
  const OpenFile device = open_file(path, path.c_str(), O_WRONLY);
  if (device.descriptor() < 0) fail("cannot write", path);
  for (std::string_view rest : pieces) {
    while (!rest.empty()) {
      const ssize_t written =
          TEMP_FAILURE_RETRY(::write(device.descriptor(), rest.data(), rest.size()));
      if (written < 0) fail("cannot write", path);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

// Returns the file that a path names, after following symbolic links. Throws if the file must not
// be replaced. Renaming alone would also replace write-protected files, because renaming needs
// write permission only for the folder.
fs::path replaceable(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) fail("cannot write", path, EISDIR);
    if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail("cannot write", path);
    if (!S_ISREG(status.st_mode)) fail("cannot write", path, ESPIPE);
  }
  return resolve_symlinks(path);
}

std::int64_t changed_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// A new file that will become `target` is called TARGET.NUMBERS.rowgrad.tmp, in the same folder. It
// stays locked while its writer runs, so an unlocked file is left over from a killed process.
constexpr std::string_view kTemporary = ".rowgrad.tmp";

std::string temporary_prefix(const fs::path& target) {
  constexpr std::size_t kLongest = 200;  // file names have at most 255 bytes
  return target.filename().string().substr(0, kLongest) + '.';
}

// Removes the temporary files of killed processes. Ignores errors, as these files only take up
// space. Does not use a directory_iterator, which terminates the process if memory runs out.
void remove_abandoned(const fs::path& target, std::string_view prefix) {
  const fs::path parent = target.has_parent_path() ? target.parent_path() : ".";
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(parent.c_str()), ::closedir);
  while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(prefix) || !name.ends_with(kTemporary)) continue;
    name.remove_prefix(prefix.size());
    if (name.find_first_not_of("0123456789-") != name.size() - kTemporary.size()) continue;
    const int within = ::dirfd(folder.get());
    const OpenFile file(
        {}, above_standard(
                ::openat(within, entry->d_name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)));
    if (file.descriptor() >= 0 && ::flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0)
      ::unlinkat(within, entry->d_name, 0);
  }
}

// The temporary path of a new file (empty for an existing file), and the file.
using Opened = std::pair<fs::path, OpenFile>;

Opened create_temporary(const fs::path& target) {
  static std::atomic<unsigned> count = 0;
  const std::string prefix = temporary_prefix(target);
  remove_abandoned(target, prefix);
  for (;;) {
    fs::path path = target.parent_path() / concat(prefix, ::getpid(), '-', count++, kTemporary);
    OpenFile file = open_file(target, path.c_str(), O_RDWR | O_CREAT | O_EXCL);
    if (file.descriptor() < 0) {
      if (errno != EEXIST) fail("cannot write", target);
      continue;
    }
    // Another writer may have removed the file as abandoned before it was locked. On file systems
    // without locks, abandoned files stay.
    if (TEMP_FAILURE_RETRY(::flock(file.descriptor(), LOCK_EX)) != 0 && !is_unsupported(errno))
      fail("cannot lock", path);
    struct stat status {};
    if (::fstat(file.descriptor(), &status) == 0 && status.st_nlink > 0)
      return {std::move(path), std::move(file)};
  }
}

Opened open_locked(const fs::path& path, int flags) {
  OpenFile file = open_file(path, path.c_str(), O_RDWR | flags);
  if (file.descriptor() < 0) fail("cannot write", path);
  // On file systems without locks, all writers continue.
  const bool locked = TEMP_FAILURE_RETRY(::flock(file.descriptor(), LOCK_EX | LOCK_NB)) == 0;
  check_runtime(locked || errno != EWOULDBLOCK, path.string(),
                ": is already open, in this or another program");
  if (!locked && !is_unsupported(errno)) fail("cannot lock", path);
  return {fs::path(), std::move(file)};
}

}  // namespace

OpenFile::~OpenFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void sync_folder(const fs::path& folder) {
  const char* const name = folder.empty() ? "." : folder.c_str();
  const OpenFile opened = open_file({}, name, O_RDONLY | O_DIRECTORY);
  if (opened.descriptor() < 0) fail("cannot sync", name);
  if (TEMP_FAILURE_RETRY(::fsync(opened.descriptor())) != 0 && !is_unsupported(errno))
    fail("cannot sync", name);
}

bool file_exists(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail("cannot read", path);
  return false;
}

std::string read_file(const fs::path& path) {
  return read_to_end(open_for_reading(path).descriptor(), path);
}

std::string read_standard_input() { return read_to_end(STDIN_FILENO, "standard input"); }

fs::path resolve_symlinks(const fs::path& path) {
  constexpr int kMaxLinks = 40;  // as in Linux
  fs::path target = path;
  std::error_code none;
  for (int links = 0; fs::is_symlink(target, none); ++links) {
    if (links == kMaxLinks) fail("cannot write", path, ELOOP);
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

void write_file(const fs::path& path, std::span<const std::string_view> pieces) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return write_to_device(path, pieces);
  LockedFile file(path, LockedFile::Open::kReplace);
  std::uint64_t offset = 0;
  for (const std::string_view piece : pieces) {
    file.write(offset, std::as_bytes(std::span(piece)));
    offset += piece.size();
  }
  file.publish();
}

void OpenFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = TEMP_FAILURE_RETRY(
        ::pread(descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    if (count < 0) fail("cannot read", path_);
    check_runtime(count > 0, "cannot read ", path_.string(), ": it ends at byte ", offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

InputFile::InputFile(const fs::path& path) : OpenFile(open_for_reading(path)) {
  const struct stat status = status_of(descriptor(), path);
  if (S_ISDIR(status.st_mode)) fail("cannot read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) fail("cannot read", path, ESPIPE);
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  changed_ns_ = rowgrad::changed_ns(status);
}

void InputFile::check_unchanged() const {
  const struct stat status = status_of(descriptor(), path());
  check_runtime(static_cast<std::uint64_t>(status.st_size) == size_bytes_ &&
                    rowgrad::changed_ns(status) == changed_ns_,
                path().string(), ": was changed after it was opened");
}

LockedFile::LockedFile(const fs::path& path, Open how)
    : LockedFile(how == Open::kCreateNew ? create_temporary(path)
                 : how == Open::kReplace
                     ? create_temporary(replaceable(path))
                     : open_locked(path, how == Open::kOpenOrCreate ? O_CREAT : 0)) {
  replaces_ = how == Open::kReplace;
}

LockedFile::LockedFile(std::pair<fs::path, OpenFile> opened)
    : OpenFile(std::move(opened.second)), temporary_(std::move(opened.first)) {}

LockedFile::~LockedFile() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void LockedFile::publish() {
  struct stat replaced {};
  if (replaces_ && ::stat(path().c_str(), &replaced) == 0 &&
      ::fchmod(descriptor(), replaced.st_mode & 07777) != 0)
    fail("cannot write", path());
  // Without sync(), a crash soon after the rename could leave an empty file.
  sync();
  fs::path name = path();
  // Copied before rename(), after which only disk errors may throw.
  const fs::path folder = name.parent_path();
  const char *from = temporary_.c_str(), *to = name.c_str();
  int result =
      replaces_ ? ::rename(from, to) : ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  if (result != 0 && !replaces_ && is_unsupported(errno))
    result = file_exists(name) ? (errno = EEXIST, -1) : ::rename(from, to);
  if (result != 0) fail("cannot write", path());
  // If the folder cannot be synced, the destructor removes a new file under its final name.
  replaces_ ? temporary_.clear() : temporary_.swap(name);
  sync_folder(folder);
  temporary_.clear();
}

auto LockedFile::stored_from(std::uint64_t offset) const -> Extent {
  const std::uint64_t size = size_bytes();
  const ::off_t begin = ::lseek(descriptor(), static_cast<::off_t>(offset), SEEK_DATA);
  if (begin < 0) return errno == ENXIO ? Extent{size, size} : Extent{offset, size};
  const ::off_t end = ::lseek(descriptor(), begin, SEEK_HOLE);
  return {static_cast<std::uint64_t>(begin), end < 0 ? size : static_cast<std::uint64_t>(end)};
}

std::uint64_t LockedFile::size_bytes() const {
  return static_cast<std::uint64_t>(status_of(descriptor(), path()).st_size);
}

void LockedFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = TEMP_FAILURE_RETRY(
        ::pwrite(descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    if (count < 0) fail("cannot write", path());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void LockedFile::truncate(std::uint64_t size_bytes) {
  if (TEMP_FAILURE_RETRY(::ftruncate(descriptor(), static_cast<off_t>(size_bytes))) != 0)
    fail("cannot write", path());
}

void LockedFile::sync() {
  if (::fsync(descriptor()) != 0) fail("cannot write", path());
}

std::span<std::byte> LockedFile::map() {
  const std::size_t size = size_bytes();
  void* start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor(), 0);
  if (start == MAP_FAILED) fail("cannot map", path());
  mapped_ = {static_cast<std::byte*>(start), size};
  ::madvise(start, size, MADV_RANDOM);  // otherwise, the kernel reads neighbouring pages too
  return mapped_;
}

void LockedFile::fetch(std::uint64_t offset, std::size_t bytes) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  ::madvise(mapped_.data() + begin, offset + bytes - begin, MADV_WILLNEED);
}

bool LockedFile::is_in_memory(std::uint64_t offset) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  unsigned char present = 0;
  return ::mincore(mapped_.data() + offset / page * page, page, &present) != 0 ||
         (present & 1) != 0;
}

}  // namespace rowgrad
