// Writes the files in tests/golden/frozen that are not there yet, of one number type. The files
// that are there stay as older versions wrote them: that is what they are for.
//
//   cmake --build build --target write_frozen_float write_frozen_double
//   build/tests/write_frozen_float tests/golden/frozen
//   build/tests/write_frozen_double tests/golden/frozen

#include <exception>
#include <iostream>

#include "tests/optim/frozen_checkpoints.hpp"

namespace {

using namespace rowgrad;

void write(const testing::FrozenCase& item, const std::filesystem::path& folder) {
  std::unique_ptr<TableFile> file;
  const auto make_mark = [&] {
    if (file) file->checkpoint();
  };
  if (item.file) file = std::make_unique<TableFile>(folder / item.file_name("table"), *item.file);
  const auto training = item.make(file.get());
  training->train(0, item.saved / 2);
  make_mark();  // so that the journal before the last one has rows
  training->train(item.saved / 2, item.saved);
  make_mark();
  Checkpoint all = training->state();
  all.put("now", training->values());
  const int middle = item.further ? item.saved + 2 : item.saved;
  std::vector<double> losses = training->train(item.saved, middle);
  if (item.further) make_mark();
  // These steps stay in the file and its journal: who opens it has to take them back.
  std::ranges::copy(training->train(middle, item.end), std::back_inserter(losses));
  all.put("later", training->values());
  if (!losses.empty()) all.put("later.losses", losses);
  write_safetensors(folder / item.file_name("safetensors"), all);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw std::invalid_argument("usage: write_frozen_checkpoints FOLDER");
  const std::filesystem::path folder = argv[1];
  for (const auto& item : rowgrad::testing::frozen_cases()) {
    const bool there = std::filesystem::exists(folder / item.file_name("safetensors"));
    if (!there) write(item, folder);
    std::cout << (there ? "is there: " : "written: ") << item.name << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
