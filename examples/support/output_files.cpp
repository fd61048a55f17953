#include <filesystem>
#include <iostream>
#include <set>
#include <unistd.h>

#include <rowgrad/core/tensor/check.hpp>
#include <rowgrad/examples/support/output_files.hpp>

namespace rowgrad {

namespace fs = std::filesystem;

void check_outputs(const std::vector<std::string>& written, const std::vector<std::string>& read) {
  std::set<fs::path> taken;
  for (const std::string& path : read)
    if (!path.empty()) taken.insert(fs::weakly_canonical(path));
  for (const std::string& path : written) {
    if (path.empty()) continue;
    const fs::path folder = fs::absolute(path).parent_path();
    check_runtime(fs::is_directory(folder), path, ": there is no folder ", folder.string());
    check_runtime(!fs::is_directory(path), path, ": is a folder");
    const bool special = fs::exists(path) && !fs::is_regular_file(path);  // /dev/stdout
    check_runtime(special || access(folder.c_str(), W_OK) == 0, path,
                  ": nothing can be written in ", folder.string());
    check_runtime(special || taken.insert(fs::weakly_canonical(path)).second, path,
                  ": is written here and also read, or written by another option");
  }
}

void check_standard_output() {
  std::cout.flush();
  check_runtime(std::cout.good(), "cannot write to standard output");
}

}  // namespace rowgrad
