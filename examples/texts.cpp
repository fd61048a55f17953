// Puts the texts that others publish, The Verdict and GPT-2's vocabulary, into a folder:
//   texts FOLDER
// It finds them as all programs do, in $ROWGRAD_DATA, in the cache or on the network.

#include <iostream>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>

namespace rowgrad {
namespace {

void put_texts(const std::string& folder) {
  std::vector<DataFile> files;
  for (const PublishedFile& file : published_files()) {
    files.push_back(find_published(file));
    check_runtime(files.back().title == file.title, files.back().source);  // a file of the user's
  }
  std::filesystem::create_directories(folder);
  for (std::size_t i = 0; i < files.size(); ++i) {
    write_file(std::filesystem::path(folder) / published_files()[i].name, files[i].contents);
    std::cout << files[i].source << '\n';
  }
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("texts", [&] {
    std::string folder;
    CommandLine line(
        "Puts The Verdict and GPT-2's vocab.bpe and encoder.json into a folder, from "
        "$ROWGRAD_DATA, the cache or the network.",
        {{"FOLDER", &folder, "made if need be", file_name(), {.required = true}}});
    line.parse(argc, argv);
    put_texts(folder);
    return 0;
  });
}
