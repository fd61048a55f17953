#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const fs::path& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), concat(what, ' ', path.string()));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  bool close() { return ::close(release()) == 0; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

// The same file under a number that is none of standard input, output and errors.
int above_standard(int number) {
  if (number < 0 || number > STDERR_FILENO) return number;
  const Descriptor low(number);
  return ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int open_file(const char* path, int flags) {
  return above_standard(TEMP_FAILURE_RETRY(::open(path, flags | O_CLOEXEC, 0666)));
}

int open_for_reading(const fs::path& path) {
  const int number = open_file(path.c_str(), O_RDONLY);
  if (number < 0) fail("cannot read", path);
  return number;
}

std::string read_to_end(int descriptor, const fs::path& path) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail("cannot read", path);

  constexpr std::size_t kLeast = 4096;  // pipes and files in /proc report 0 bytes
  std::string contents(static_cast<std::size_t>(status.st_size) + kLeast, '\0');
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

void write_all(int descriptor, std::span<const std::string_view> pieces, const fs::path& path) {
  for (std::string_view rest : pieces) {
    while (!rest.empty()) {
      const ssize_t written = TEMP_FAILURE_RETRY(::write(descriptor, rest.data(), rest.size()));
      if (written < 0) fail("cannot write", path);
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

// The file that is to be replaced, if there is one. A rename needs rights on the
// folder only, but a write-protected file is not to be replaced.
std::optional<struct stat> replaced_file(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  if (S_ISDIR(status.st_mode)) fail("cannot write", path, EISDIR);
  if (::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0) fail("cannot write", path);
  return status;
}

void read_at(int descriptor, std::uint64_t offset, std::span<std::byte> bytes,
             const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t count = TEMP_FAILURE_RETRY(
        ::pread(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    if (count < 0) fail("cannot read", path);
    check_runtime(count > 0, "cannot read ", path.string(), ": it ends at byte ", offset);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::int64_t changed_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// Files beside `target` that are to get its name. They are locked as long as their writers live:
// one without a lock was left behind by a process that was killed.
class TemporaryNames {
 public:
  explicit TemporaryNames(const fs::path& target)
      : target_(target), prefix_(target.filename().string().substr(0, kLongestPrefix) + '.') {}

  // Creates and locks one.
  std::pair<fs::path, Descriptor> create() const {
    static std::atomic<unsigned> count = 0;
    for (;;) {
      fs::path path = target_.parent_path() / concat(prefix_, ::getpid(), '-', count++, kSuffix);
      Descriptor file(open_file(path.c_str(), O_RDWR | O_CREAT | O_EXCL));
      if (file.number() < 0) {
        if (errno != EEXIST) fail("cannot write", target_);
        continue;
      }
      // Another writer may have removed it as abandoned before it was locked. On a file system
      // without locks, no writer gets a lock, and abandoned files are not removed.
      TEMP_FAILURE_RETRY(::flock(file.number(), LOCK_EX));
      struct stat status {};
      if (::fstat(file.number(), &status) == 0 && status.st_nlink > 0)
        return {std::move(path), std::move(file)};
    }
  }

  // Files that cannot be removed only take up space. (No directory_iterator: it ends the process if
  // there is no memory.)
  void remove_abandoned() const {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_of(target_).c_str()),
                                                     ::closedir);
    while (const dirent* entry = folder ? ::readdir(folder.get()) : nullptr) {
      if (!has(entry->d_name)) continue;
      const int within = ::dirfd(folder.get());
      const Descriptor file(above_standard(
          ::openat(within, entry->d_name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC)));
      if (file.number() >= 0 && ::flock(file.number(), LOCK_EX | LOCK_NB) == 0)
        ::unlinkat(within, entry->d_name, 0);
    }
  }

 private:
  bool has(std::string_view name) const {
    if (!name.starts_with(prefix_) || !name.ends_with(kSuffix)) return false;
    if (name.size() <= prefix_.size() + kSuffix.size()) return false;
    name.remove_prefix(prefix_.size());
    name.remove_suffix(kSuffix.size());
    return name.find_first_not_of("0123456789-") == std::string_view::npos;
  }

  static constexpr std::string_view kSuffix = ".tmp";
  static constexpr std::size_t kLongestPrefix = 200;  // of the 255 bytes that a name may have

  const fs::path& target_;
  std::string prefix_;
};

std::pair<fs::path, Descriptor> create_beside(const fs::path& target) {
  const TemporaryNames names(target);
  names.remove_abandoned();
  return names.create();
}

// A new file beside `target`, which replaces the target or is removed.
class Replacement {
 public:
  explicit Replacement(fs::path target)
      : target_(std::move(target)), file_(create_beside(target_)) {}
  ~Replacement() {
    if (!file_.first.empty()) ::unlink(file_.first.c_str());
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::span<const std::string_view> pieces) {
    write_all(file_.second.number(), pieces, target_);
  }

  void commit(std::optional<mode_t> permissions) {
    const int number = file_.second.number();
    if (permissions && ::fchmod(number, *permissions) != 0) fail("cannot write", target_);
    // Without this, a crash soon after the rename could leave an empty file in the target's place.
    if (::fsync(number) != 0) fail("cannot write", target_);
    if (::rename(file_.first.c_str(), target_.c_str()) != 0) fail("cannot write", target_);
    file_.first.clear();
  }

 private:
  fs::path target_;
  std::pair<fs::path, Descriptor> file_;
};

}  // namespace

// A rename is on the disk once its folder is synced. Some file systems cannot sync a folder; the
// new file is in place by then, so that is not a failure.
void sync_folder(const fs::path& folder) {
  const Descriptor opened(open_file(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY));
  if (opened.number() >= 0) ::fsync(opened.number());
}

bool file_exists(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) fail("cannot read", path);
  return false;
}

std::string read_file(const fs::path& path) {
  const Descriptor file(open_for_reading(path));
  return read_to_end(file.number(), path);
}

std::string read_standard_input() { return read_to_end(STDIN_FILENO, "standard input"); }

fs::path without_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  fs::path target = path;
  std::error_code none;
  for (int links = 0; fs::is_symlink(target, none); ++links) {
    if (links == kMostLinks) fail("cannot write", path, ELOOP);
    target = target.parent_path() / fs::read_symlink(target);
  }
  return target;
}

void write_file(const fs::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

void write_file(const fs::path& path, std::span<const std::string_view> pieces) {
  const auto replaced = replaced_file(path);
  if (replaced && !S_ISREG(replaced->st_mode)) {
    Descriptor device(open_file(path.c_str(), O_WRONLY));
    if (device.number() < 0) fail("cannot write", path);
    write_all(device.number(), pieces, path);
    if (!device.close()) fail("cannot write", path);
    return;
  }

  const fs::path target = without_links(path);
  const fs::path folder = target.parent_path();
  Replacement replacement(target);
  replacement.write(pieces);
  replacement.commit(replaced ? std::optional<mode_t>(replaced->st_mode & 07777) : std::nullopt);
  sync_folder(folder);  // allocates nothing: after commit() nothing may fail
}

InputFile::InputFile(fs::path path) : path_(std::move(path)), descriptor_(open_for_reading(path_)) {
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  const int error = !known                     ? errno
                    : S_ISDIR(status.st_mode)  ? EISDIR
                    : !S_ISREG(status.st_mode) ? ESPIPE
                                               : 0;
  if (error != 0) {
    ::close(descriptor_);
    fail("cannot read", path_, error);
  }
  size_bytes_ = static_cast<std::uint64_t>(status.st_size);
  changed_ns_ = rowgrad::changed_ns(status);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  read_at(descriptor_, offset, bytes, path_);
}

void InputFile::check_unchanged() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot read", path_);
  check_runtime(static_cast<std::uint64_t>(status.st_size) == size_bytes_ &&
                    rowgrad::changed_ns(status) == changed_ns_,
                path_.string(), ": was changed after it was opened");
}

LockedFile::LockedFile(fs::path path, Open how) : path_(std::move(path)) {
  if (how == Open::kNew) {
    auto [temporary, made] = create_beside(path_);
    temporary_ = std::move(temporary);
    descriptor_ = made.release();
    return;
  }
  Descriptor file(open_file(path_.c_str(), O_RDWR | (how == Open::kEither ? O_CREAT : 0)));
  if (file.number() < 0) fail("cannot write", path_);
  // On a file system without locks, no writer gets one, and all go on.
  const bool locked = TEMP_FAILURE_RETRY(::flock(file.number(), LOCK_EX | LOCK_NB)) == 0;
  check_runtime(locked || errno != EWOULDBLOCK, path_.string(),
                ": is open already, here or in another program");
  descriptor_ = file.release();
}

LockedFile::~LockedFile() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void LockedFile::publish() {
  const char *from = temporary_.c_str(), *to = path_.c_str();
  int result = ::renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS))  // the file system cannot do that
    result = file_exists(path_) ? (errno = EEXIST, -1) : ::rename(from, to);
  if (result != 0) fail("cannot write", path_);
  temporary_.clear();
  sync_folder(path_.parent_path());
}

void LockedFile::check_ours(const std::array<char, 8>& magic, std::size_t head_bytes,
                            std::string_view kind) const {
  const std::uint64_t size = size_bytes();
  std::vector<char> begin(std::min<std::uint64_t>(size, head_bytes));
  read(0, std::as_writable_bytes(std::span(begin)));
  const bool unwritten =
      size <= head_bytes && std::ranges::all_of(begin, [](char byte) { return byte == 0; });
  const bool ours =
      begin.size() >= magic.size() && std::equal(magic.begin(), magic.end(), begin.begin());
  check_runtime(unwritten || ours, path_.string(), ": is no ", kind,
                ", but in the place of one; move it away");
}

auto LockedFile::stored_from(std::uint64_t offset) const -> Extent {
  const std::uint64_t size = size_bytes();
  const ::off_t begin = ::lseek(descriptor_, static_cast<::off_t>(offset), SEEK_DATA);
  if (begin < 0) return errno == ENXIO ? Extent{size, size} : Extent{offset, size};
  const ::off_t end = ::lseek(descriptor_, begin, SEEK_HOLE);
  return {static_cast<std::uint64_t>(begin), end < 0 ? size : static_cast<std::uint64_t>(end)};
}

std::uint64_t LockedFile::size_bytes() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail("cannot read", path_);
  return static_cast<std::uint64_t>(status.st_size);
}

void LockedFile::read(std::uint64_t offset, std::span<std::byte> bytes) const {
  read_at(descriptor_, offset, bytes, path_);
}

void LockedFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = TEMP_FAILURE_RETRY(
        ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset)));
    if (count < 0) fail("cannot write", path_);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

void LockedFile::truncate(std::uint64_t size_bytes) {
  if (TEMP_FAILURE_RETRY(::ftruncate(descriptor_, static_cast<off_t>(size_bytes))) != 0)
    fail("cannot write", path_);
}

void LockedFile::sync() {
  if (::fsync(descriptor_) != 0) fail("cannot write", path_);
}

std::span<std::byte> LockedFile::map() {
  const std::size_t size = size_bytes();
  void* start = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  if (start == MAP_FAILED) fail("cannot map", path_);
  mapped_ = {static_cast<std::byte*>(start), size};
  ::madvise(start, size, MADV_RANDOM);  // otherwise, each page brings its neighbours along
  return mapped_;
}

void LockedFile::fetch(std::uint64_t offset, std::size_t bytes) const {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page;
  ::madvise(mapped_.data() + begin, offset + bytes - begin, MADV_WILLNEED);
}

fs::path PartialFile::name_for(const fs::path& path) {
  const auto replaced = replaced_file(path);
  if (replaced && !S_ISREG(replaced->st_mode)) fail("cannot write", path, ESPIPE);
  return without_links(path) += ".partial";
}

PartialFile::PartialFile(const fs::path& path)
    : LockedFile(name_for(path), Open::kEither), target_(without_links(path)) {
  if (const auto replaced = replaced_file(path))
    permissions_ = static_cast<fs::perms>(replaced->st_mode & 07777);
}

void PartialFile::commit() {
  if (permissions_ && ::fchmod(descriptor(), static_cast<mode_t>(*permissions_)) != 0)
    fail("cannot write", target_);
  sync();
  if (::rename(path().c_str(), target_.c_str()) != 0) fail("cannot write", target_);
  sync_folder(target_.parent_path());
}

}  // namespace rowgrad
