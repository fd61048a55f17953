// Measures how fast tokenizers encode and decode, and how long it takes to train byte pairs: median
// processor time on one thread. Arguments: files to measure besides the two texts here.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/merge_table.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>

namespace rowgrad {
namespace {

constexpr int kRuns = 9;
constexpr std::size_t kTrainedIds = 1024;

struct Text {
  std::string name;
  std::string contents;
};

Text repeated_story() {
  const DataFile story = find_corpus();
  Text text{story.title + " × 200", ""};
  for (int i = 0; i < 200; ++i) text.contents += story.contents;
  return text;
}

// Hardly any word occurs twice, so a tokenizer cannot profit from a cache of earlier words.
Text made_up_words() {
  Random random(1);
  Text text{"made-up words", ""};
  while (text.contents.size() < 4'000'000) {
    for (std::uint32_t letters = 4 + random.bits() % 8; letters > 0; --letters)
      text.contents += "eeetttaaooiinnsshhrrddlucmfwgypbvk"[random.bits() % 34];
    text.contents += random.bits() % 10 == 0 ? ", " : " ";
  }
  return text;
}

double median_seconds(
    int runs, const std::function<void()>& measured, const std::function<void()>& prepare = [] {}) {
  std::vector<double> seconds;
  for (int run = 0; run < runs; ++run) {
    prepare();
    const std::clock_t begin = std::clock();
    measured();
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
  return seconds[static_cast<std::size_t>(runs) / 2];
}

void measure_tokenizer(const std::string& name, const Text& text) {
  const std::string& contents = text.contents;
  const double megabytes = static_cast<double>(contents.size()) / 1e6;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::int32_t> ids;
  std::string decoded;
  const auto make = [&] { tokenizer = make_tokenizer(name, contents, kTrainedIds); };
  const auto encode = [&] { ids = tokenizer->encode(contents); };
  const auto decode = [&] { decoded = tokenizer->decode(ids); };
  try {
    make();
  } catch (const Unavailable& error) {
    std::cout << "  " << name << ": " << error.what() << '\n';
    return;
  }
  encode();  // so that memory is allocated
  const double first = median_seconds(3, encode, make);
  const double again = median_seconds(kRuns, encode);
  const double back = median_seconds(kRuns, decode);
  std::printf("  %-6s %9zu %9zu %12.0f %8.0f %8.0f\n", name.c_str(), tokenizer->size(), ids.size(),
              megabytes / first, megabytes / again,
              static_cast<double>(decoded.size()) / 1e6 / back);
}

void measure(const Text& text) {
  std::printf("%s, %.1f MB\n", text.name.c_str(), static_cast<double>(text.contents.size()) / 1e6);
  std::printf("                                    encode MB/s     decode\n");
  std::printf("  tokenizer  ids    tokens   first time    again     MB/s\n");
  for (const std::string& name : kTokenizerNames) measure_tokenizer(name, text);
  for (const std::size_t merges : {1000, 5000})
    std::printf("  %zu merges trained in %.2f s\n", merges,
                median_seconds(3, [&] { learn_merges({text.contents}, merges); }));
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_tokenizers", [&] {
    rowgrad::measure(rowgrad::repeated_story());
    rowgrad::measure(rowgrad::made_up_words());
    for (int i = 1; i < argc; ++i) {
      const rowgrad::DataFile file = rowgrad::find_corpus(argv[i]);
      rowgrad::measure({file.source, file.contents});
    }
    return 0;
  });
}
