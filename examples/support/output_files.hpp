#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace rowgrad {

/// Refuses, before any work, files that could not be written after it (in a folder that is not
/// there or closed, or folders themselves), and those that are also read or written otherwise, by
/// whatever name: `read`, The Verdict and GPT-2's files where programs look for them, standard
/// input; each other, standard output and error. Devices and pipes may be shared. Empty paths stand
/// for options that were not given. Throws std::runtime_error.
void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read);

/// A file that a program writes again and again, and nobody else meanwhile.
class OwnFile {
 public:
  explicit OwnFile(std::filesystem::path path);

  /// Calls write(), unless another program has written the file since this one last did, or since
  /// the start: then throws std::runtime_error. A file is known by how it begins.
  void rewrite(const std::function<void()>& write);

 private:
  std::optional<std::string> beginning() const;  // nothing if there is no such file

  std::filesystem::path path_;
  std::optional<std::string> last_;
};

}  // namespace rowgrad
