#pragma once

#include <string>

namespace rowgrad {

/// A new empty folder, which the destructor removes with everything in it.
class ScratchFolder {
 public:
  ScratchFolder();  // throws std::runtime_error if it cannot be made
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rowgrad
