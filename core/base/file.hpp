#pragma once

// Reading and writing files. Every failure throws std::system_error with the path and the system's
// reason, `cannot write runs/a.csv: No such file or directory`, or std::runtime_error with the path
// where the system has none. No file is opened as descriptor 0, 1 or 2, which a program may have
// been started without: what it prints would go into the file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace rowgrad {

/// Whether there is a file, a folder or a device. Throws if the system cannot tell.
bool file_exists(const std::filesystem::path& path);

/// Reads a file or a pipe to its end.
std::string read_file(const std::filesystem::path& path);

/// Reads standard input to its end.
std::string read_standard_input();

/// Replaces the contents of a file, or changes nothing at all: `contents`, or all `pieces` one
/// after another, are written to a new file beside it, which is synced to the disk and renamed over
/// it. (If the folder then cannot be synced, this throws although the new contents are in place.)
/// The file keeps its permissions; a new one gets the usual ones. A symbolic link stays a link, and
/// its target is replaced. A device or a pipe (/dev/stdout) is written to directly.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

/// The path that write_file(path) replaces: symbolic links at its end are followed, whether or not
/// the file that they lead to exists.
std::filesystem::path resolve_symlinks(const std::filesystem::path& path);

/// An open file, which is closed with this object. Movable.
class OpenFile {
 public:
  /// Takes over the number of an open file; a negative one is none.
  OpenFile(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~OpenFile();

  const std::filesystem::path& path() const { return path_; }  // as it was given
  int descriptor() const { return descriptor_; }               // its number; negative for none

  /// Fills `bytes` from `offset` on. Throws if the file ends before that.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// A file open for reading at any offset, for files that are too large to be in memory twice.
/// Movable.
class InputFile : public OpenFile {
 public:
  /// Opens a file to read it. Throws std::system_error if that fails.
  explicit InputFile(const std::filesystem::path& path);

  std::uint64_t size_bytes() const { return size_bytes_; }  // when it was opened

  /// Throws if the file was changed after it was opened. Another file that was renamed to its path
  /// does not matter: this one is still read.
  void check_unchanged() const;

 private:
  std::uint64_t size_bytes_ = 0;
  std::int64_t changed_ns_ = 0;  // the time of change, since 1970
};

/// A file that is written. It is locked: only one program at a time has it open.
class LockedFile : public OpenFile {
 public:
  /// Whether the file may or must be there.
  enum class Open {
    kCreateNew,     // it is made, and it is not there until publish()
    kReplace,       // the same, but publish() replaces the one that may be there
    kOpenExisting,  // it is there
    kOpenOrCreate   // it is made if it is not there
  };

  /// Throws if the file is open already (kOpenExisting, kOpenOrCreate), missing (kOpenExisting), or
  /// a folder, a device or write-protected (kReplace, which follows symbolic links). One that is
  /// made has another name, beside its own, until publish(), and anybody else may make one
  /// meanwhile. If the program ends before that, it is removed, at the latest by the next program
  /// that makes it.
  LockedFile(const std::filesystem::path& path, Open how);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  std::uint64_t size_bytes() const;  // its length now
  /// Writes at an offset, or cuts or extends the file. Throw std::system_error if that fails.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  void truncate(std::uint64_t size_bytes);

  /// Returns when all that was written is on the disk.
  void sync();

  /// Gives a file that is made its name; it is whole and on the disk when this returns. It gets the
  /// permissions of the one that it replaces. Throws if there is a file of that name (kCreateNew).
  void publish();

  /// The next bytes from `offset` on that are stored on the disk, or [size, size] if there are
  /// none. A file system that cannot tell is taken to store all.
  struct Extent {
    std::uint64_t begin, end;  // offsets, the second behind the last byte
  };
  Extent stored_from(std::uint64_t offset) const;

  /// The whole file as memory, for as long as this object exists. A page is read from the disk when
  /// it is first touched, without its neighbours, and written back at any time, by sync() at the
  /// latest. The file must keep its size. To be called once.
  std::span<std::byte> map();

  /// Has the system read these bytes of the mapping from the disk, if they are not in memory, but
  /// does not wait for them, so that more can be asked for meanwhile.
  void fetch(std::uint64_t offset, std::size_t bytes) const;

  /// Whether this byte of the mapping can be had without waiting for the disk.
  bool is_in_memory(std::uint64_t offset) const;

 private:
  explicit LockedFile(std::pair<std::filesystem::path, OpenFile> opened);

  std::filesystem::path temporary_;  // the name of one that is made until it gets its own
  bool replaces_ = false;
  std::span<std::byte> mapped_;
};

/// Waits until the names of files that were created, renamed or removed in a folder are on the
/// disk. Throws std::system_error if this fails, except on a file system that cannot sync folders.
void sync_folder(const std::filesystem::path& folder);

}  // namespace rowgrad
