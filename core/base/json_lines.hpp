#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <rowgrad/core/base/file.hpp>

namespace rowgrad {

/// Returns true if the checksum of a line (without its newline) is correct.
bool is_whole_line(std::string_view line);

/// Returns the length of `text` without incomplete or damaged lines at its end, which a killed
/// program may have left.
std::size_t whole_bytes(std::string_view text);

/// An append-only file with one JSON object per line. The last member of each object is `sum`, the
/// checksum (Checksum, 16 hexadecimal digits) of the line up to the comma before `sum`. The file is
/// locked, so only one program at a time can write it.
class JsonLines {
 public:
  /// Opens or creates a file. Throws std::system_error or std::runtime_error if it is already open
  /// or cannot be written.
  explicit JsonLines(const std::filesystem::path& path);

  /// Returns the first line that was in the opened file, including any newline; "" if the file was
  /// empty.
  const std::string& first_line() const { return first_line_; }

  /// Returns whole_bytes() of the file.
  std::uint64_t bytes() const { return bytes_; }

  const std::filesystem::path& path() const { return file_.path(); }  // returns the file's path

  /// Truncates the file to its first `bytes` bytes. Throws std::system_error on failure.
  void truncate(std::uint64_t bytes);

  /// Appends an object such as `{"a":1}` after the last intact line. Throws std::invalid_argument
  /// if `object` is not an object with a member. Throws std::system_error or std::runtime_error,
  /// and keeps the intact lines, if `object` cannot be written or the file was deleted.
  void append(std::string object);

  void sync() { file_.sync(); }  // waits until everything written is on the disk

 private:
  LockedFile file_;
  std::string first_line_;
  std::uint64_t bytes_;
  bool has_tail_;  // true if something follows the intact lines
};

}  // namespace rowgrad
