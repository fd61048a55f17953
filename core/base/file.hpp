#pragma once

// Reading and writing files. Every failure throws std::system_error with the path and the system's
// reason (`cannot write runs/a.csv: Permission denied`), or std::runtime_error with the path if the
// system gives no reason. No file gets descriptor 0, 1 or 2, even if the program was started
// without standard streams. Otherwise, the program's output could end up in the file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace rowgrad {

/// Returns true if a file, folder or device exists. Throws if the system cannot tell.
bool file_exists(const std::filesystem::path& path);

/// Reads a file or a pipe to its end.
std::string read_file(const std::filesystem::path& path);

/// Reads standard input to its end.
std::string read_standard_input();

/// Replaces the contents of a file atomically. Writes `contents`, or the concatenated `pieces`, to
/// a new file in the same folder, syncs it to the disk, and renames it to `path`. (If syncing the
/// folder then fails, write_file() throws although the new contents are in place.) The file keeps
/// its permissions. A symbolic link stays a link, and its target is replaced. A device or a pipe
/// (/dev/stdout) is written to directly.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

/// Returns the path that write_file(path) replaces. Follows symbolic links at the end of the path,
/// even if their target does not exist.
std::filesystem::path resolve_symlinks(const std::filesystem::path& path);

/// An open file, closed by the destructor. Movable.
class OpenFile {
 public:
  /// Takes ownership of a file descriptor. A negative descriptor means no file.
  OpenFile(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  OpenFile(OpenFile&& other) noexcept
      : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~OpenFile();

  const std::filesystem::path& path() const { return path_; }  // returns the file's path
  int descriptor() const { return descriptor_; }               // negative: no file

  /// Reads bytes.size() bytes at `offset`. Throws if the file is too short.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
};

/// A file open for reading at any offset. Useful for files that should not be read into memory at
/// once. Movable.
class InputFile : public OpenFile {
 public:
  /// Opens a file for reading. Throws std::system_error on failure.
  explicit InputFile(const std::filesystem::path& path);

  std::uint64_t size_bytes() const { return size_bytes_; }  // returns the length when opened

  /// Throws if the file was modified after it was opened. Replacing it by renaming another file to
  /// its path is harmless: the old file is still read.
  void check_unchanged() const;

 private:
  std::uint64_t size_bytes_ = 0;
  std::int64_t changed_ns_ = 0;  // modification time, in nanoseconds since 1970
};

/// A file open for writing, and locked, so only one program at a time can open it.
class LockedFile : public OpenFile {
 public:
  /// Modes of opening a file.
  enum class Open {
    kCreateNew,     // create; publish() fails if the file exists
    kReplace,       // create; publish() replaces an existing file
    kOpenExisting,  // open an existing file
    kOpenOrCreate   // open an existing file, or create one
  };

  /// Opens the file. kOpenExisting and kOpenOrCreate throw if the file is already open.
  /// kOpenExisting throws if the file is missing. kReplace follows symbolic links, and throws for a
  /// folder, a device or a write-protected file. With kCreateNew and kReplace, the file has a
  /// temporary name in the same folder until publish(). If the program ends first, the temporary
  /// file is removed, at the latest by the next program that creates `path`.
  LockedFile(const std::filesystem::path& path, Open how);
  ~LockedFile();
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  std::uint64_t size_bytes() const;  // returns the length

  /// Writes bytes at an offset.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);

  /// Sets the length of the file.
  void truncate(std::uint64_t size_bytes);

  /// Waits until everything written is on the disk.
  void sync();

  /// Syncs a new file, and gives it its name and the permissions of the file that it replaces.
  /// Throws if the file exists already (kCreateNew).
  void publish();

  /// A range of bytes of the file.
  struct Extent {
    std::uint64_t begin, end;  // offsets; end is past the last byte
  };
  /// Returns the first range of stored bytes, as opposed to holes, at or after `offset`, or
  /// [size, size] if there is none. If the file system cannot tell, all bytes count as stored.
  Extent stored_from(std::uint64_t offset) const;

  /// Maps the whole file into memory, until this object is destroyed. A page is read on first
  /// access, without its neighbours, and written back at any time, at the latest by sync(). Call
  /// this once, and do not change the file's size afterwards.
  std::span<std::byte> map();

  /// Asks the kernel to read these bytes of the mapping from the disk, without waiting for them.
  void fetch(std::uint64_t offset, std::size_t bytes) const;

  /// Returns true if reading this byte of the mapping needs no disk access.
  bool is_in_memory(std::uint64_t offset) const;

 private:
  explicit LockedFile(std::pair<std::filesystem::path, OpenFile> opened);

  std::filesystem::path temporary_;  // path of a new file until publish(); otherwise empty
  bool replaces_ = false;
  std::span<std::byte> mapped_;
};

/// Waits until the creation, renaming and removal of files in a folder are on the disk. Throws
/// std::system_error on failure, except on a file system that cannot sync folders.
void sync_folder(const std::filesystem::path& folder);

}  // namespace rowgrad
