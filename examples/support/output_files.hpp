#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rowgrad {

/// Checks, before any work, that the files `written` can be written after it: their folders exist
/// and are writable, and they are not folders themselves. Also refuses files that are read or
/// written elsewhere, under whatever path: `read`, in folders of labelled texts, The Verdict and
/// GPT-2's files where programs look for them, each other, and standard input, output and error.
/// Devices and pipes may be shared. Empty paths stand for options that were not given. Throws
/// std::runtime_error.
void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read);

/// A file that this program rewrites many times, and that no other program may write meanwhile.
class OwnFile {
 public:
  explicit OwnFile(std::filesystem::path path);

  /// Calls write(). Throws std::runtime_error instead if another program has written the file since
  /// the last call or, before that, since construction. Files are compared by their beginnings. A
  /// pipe without a reader is waited for until the user stops the program, which is then an error.
  void rewrite(const std::function<void()>& write);

 private:
  std::optional<std::string> beginning() const;  // nullopt if there is no such file

  std::filesystem::path path_;
  std::optional<std::string> last_;
};

}  // namespace rowgrad
