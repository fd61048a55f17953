#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <rowgrad/core/base/file.hpp>

namespace rowgrad {

/// Returns true if the checksum of a line, without its end, is right.
bool is_whole_line(std::string_view line);

/// Returns the length of a text without what a killed program may have left at its end: a line
/// without an end, or damaged lines.
std::size_t whole_bytes(std::string_view text);

/// A file that grows by JSON objects, one on each line. The last member of each is `sum`, the
/// checksum (Checksum, 16 hexadecimal digits) of the line up to the comma in front of it. The file
/// is locked: only one program at a time writes it.
class JsonLines {
 public:
  /// Opens a file, or creates it. Throws std::system_error or std::runtime_error if it is open
  /// elsewhere or cannot be written.
  explicit JsonLines(const std::filesystem::path& path);

  /// Returns the first line of the file that was opened, with its end if it has one; "" if the file
  /// was empty.
  const std::string& first_line() const { return first_line_; }

  /// Returns the length of all lines: see whole_bytes().
  std::uint64_t bytes() const { return bytes_; }

  const std::filesystem::path& path() const { return file_.path(); }  // as it was given

  /// Drops the lines behind the first `bytes` bytes. Throws std::system_error if that fails.
  void truncate(std::uint64_t bytes);

  /// Appends an object, `{"a":1}`, in place of what may follow the lines. Throws
  /// std::invalid_argument if it is not an object with a member. Throws std::system_error or
  /// std::runtime_error if it cannot be written or if somebody has removed the file, which then has
  /// the same lines as before.
  void append(std::string object);

  void sync() { file_.sync(); }  // returns when all that was written is on the disk

 private:
  LockedFile file_;
  std::string first_line_;
  std::uint64_t bytes_;
  bool has_tail_;  // true if something follows the lines
};

}  // namespace rowgrad
