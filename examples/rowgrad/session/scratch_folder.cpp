#include <filesystem>
#include <stdlib.h>
#include <system_error>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/rowgrad/session/scratch_folder.hpp>

namespace rowgrad {

ScratchFolder::ScratchFolder() : path_(std::filesystem::temp_directory_path() / "rowgrad.XXXXXX") {
  check_runtime(::mkdtemp(path_.data()) != nullptr, "cannot create a folder ", path_);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace rowgrad
