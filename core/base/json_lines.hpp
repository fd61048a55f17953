#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <rowgrad/core/base/file.hpp>

namespace rowgrad {

/// Returns true if a line, without its end, is as JsonLines wrote it: its checksum says so.
bool is_whole_line(std::string_view line);

/// A file that grows by JSON objects, one on each line. The last member of each is `sum`, the
/// checksum (Checksum, 16 hexadecimal digits) of the line up to the comma in front of it. The file
/// is locked: only one program at a time writes it.
class JsonLines {
 public:
  /// Opens a file, or creates it. Throws std::system_error or std::runtime_error if it is open
  /// elsewhere or cannot be written.
  explicit JsonLines(const std::filesystem::path& path);

  /// The first line of the file that was opened, "" if it was empty; and the bytes of its lines up
  /// to the last whole one. A program that was killed may have left a part of a line.
  const std::string& first_line() const { return first_line_; }
  std::uint64_t whole_bytes() const { return whole_bytes_; }

  const std::filesystem::path& path() const { return file_.path(); }  // as it was given

  /// Keeps these first bytes, and drops the others.
  void truncate(std::uint64_t bytes);

  /// Appends an object, `{…}`. Throws std::system_error or std::runtime_error if it cannot be
  /// written or if somebody has removed the file, which is then as it was before.
  void append(std::string object);

  void sync() { file_.sync(); }  // returns when all that was written is on the disk

 private:
  LockedFile file_;
  std::string first_line_;
  std::uint64_t whole_bytes_ = 0, bytes_ = 0;
};

}  // namespace rowgrad
