#pragma once

#include <string>

namespace rowgrad {

/// A new temporary folder. The destructor removes it with all its contents.
class ScratchFolder {
 public:
  ScratchFolder();  // throws std::runtime_error on failure
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rowgrad
