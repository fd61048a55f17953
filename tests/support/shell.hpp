#pragma once

// Runs programs in a shell.

#include <array>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <stdexcept>
#include <string>
#include <sys/wait.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>

namespace rowgrad::testing {

struct Outcome {
  int status = 0;
  std::string output;  // standard output and standard error
};

// Runs a command in bash, with rowgrad's programs in its PATH and without the user's files. The
// command ends when a part of it fails, even in a pipe. If any program is not found, bash is
// killed.
inline Outcome shell(const std::string& command) {
  const std::string whole =
      concat("exec 2>&1; set -e -o pipefail\n",
             "command_not_found_handle() { echo \"$1: command not found\"; kill -KILL $$; }\n",
             "unset ROWGRAD_DATA XDG_CACHE_HOME HOME; PATH=", ROWGRAD_PROGRAMS,
             ":$PATH; export PATH; ", command);
  const std::string quoted = std::regex_replace(whole, std::regex("'"), R"('\'')");
  FILE* const pipe = popen(concat("exec bash -c '", quoted, "'").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start a shell");
  Outcome outcome;
  std::array<char, 4096> block;
  while (const std::size_t length = std::fread(block.data(), 1, block.size(), pipe))
    outcome.output.append(block.data(), length);
  const int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  return outcome;
}

/// A folder with two text files: corpus, with 3,440 characters, and story, a built-in text of
/// rowgrad.
class CommandFolder : public TemporaryFolder {
 public:
  CommandFolder() {
    std::string text;
    for (int i = 0; i < 40; ++i)
      text +=
          "a dog and a cat sat on the mat, and the cat and the dog looked at the man on the mat. ";
    write_file(*this / "corpus", text);
    std::filesystem::copy_file(kSources / "examples/data/the-slow-clock.txt", *this / "story");
  }

  Outcome shell(const std::string& command) const {
    return testing::shell(
        concat("cd ", path().string(), "; sources=", kSources.string(), "; ", command));
  }

 private:
  const std::filesystem::path kSources =
      std::filesystem::path(ROWGRAD_TEST_DATA).parent_path().parent_path();
};

}  // namespace rowgrad::testing
