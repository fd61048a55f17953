#pragma once

// Whole files in and out. Every failure is a std::system_error (a std::runtime_error) that names
// the path and the system's reason: `cannot write runs/a.csv: No such file or directory`.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace rowgrad {

/// The bytes of a file or a pipe, to its end.
std::string read_file(const std::filesystem::path& path);

/// Makes `contents` the file's contents, or changes nothing at all: they are written to a new file
/// beside it, brought to the disk and renamed over it. The file keeps its permissions; a new one
/// gets the usual ones. A symbolic link stays a link and its target is replaced. A device or a pipe
/// (/dev/stdout) is written straight into.
void write_file(const std::filesystem::path& path, std::string_view contents);

/// The same for contents in pieces, so that large ones need not be joined in memory.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> pieces);

/// What write_file(path) writes: the links at its end followed, whether or not there is a file at
/// the end of them.
std::filesystem::path without_links(const std::filesystem::path& path);

/// A file open for reading at any place, for files too large to be held twice.
class InputFile {
 public:
  explicit InputFile(std::filesystem::path path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }

  /// Fills `bytes` from that place on. Also throws where the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  std::uint64_t size_bytes_ = 0;
};

}  // namespace rowgrad
