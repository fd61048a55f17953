// Measures how fast tokenizers are created, encode and decode, and prints medians. Arguments are
// files to measure in addition to two built-in texts.

#include <cstdio>
#include <string>

#include "tests/bench/measure.hpp"
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad {
namespace {

constexpr std::size_t kTrainedIds = 1024;

std::string repeated_story() {
  const DataFile story = find_corpus();
  std::string text;
  for (int i = 0; i < 200; ++i) text += story.contents;
  return text;
}

// Returns random words. Hardly any word occurs twice, so a cache of words does not help.
std::string random_words() {
  Random random(1);
  std::string text;
  while (text.size() < 4'000'000) {
    for (std::uint32_t letters = 4 + random.bits() % 8; letters > 0; --letters)
      text += "eeetttaaooiinnsshhrrddlucmfwgypbvk"[random.bits() % 34];
    text += random.bits() % 10 == 0 ? ", " : " ";
  }
  return text;
}

void measure_tokenizer(const std::string& name, const std::string& text) {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<std::int32_t> ids;
  std::string decoded;
  const auto make = [&] { tokenizer = make_tokenizer(name, text, kTrainedIds); };
  const auto encode = [&] { ids = tokenizer->encode(text); };
  const auto decode = [&] { decoded = tokenizer->decode(ids); };
  const bench::Pace few{.warm_up = 1, .repeats = 3}, many{.warm_up = 1, .repeats = 9};
  const double made = bench::time_runs(make, few).median_seconds;
  const double first = bench::time_runs(encode, few, make).median_seconds;
  const double again = bench::time_runs(encode, many).median_seconds;
  const double back = bench::time_runs(decode, many).median_seconds;
  const double megabytes = static_cast<double>(text.size()) / 1e6;
  std::printf("  %-6s %9.1f %9zu %9zu %12.0f %8.0f %8.0f\n", name.c_str(), 1e3 * made,
              tokenizer->size(), ids.size(), megabytes / first, megabytes / again,
              static_cast<double>(decoded.size()) / 1e6 / back);
}

void measure(const std::string& name, const std::string& text) {
  std::printf("%s, %.1f MB\n", name.c_str(), static_cast<double>(text.size()) / 1e6);
  std::printf("                                              encode MB/s     decode\n");
  std::printf("  tokenizer create ms ids    tokens   first time    again     MB/s\n");
  for (const std::string& tokenizer : kTokenizerNames) {
    try {
      measure_tokenizer(tokenizer, text);
    } catch (const Unavailable& error) {
      std::printf("  %s: %s\n", tokenizer.c_str(), error.what());
    }
  }
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("bench_tokenizers", [&] {
    rowgrad::measure("a story, 200 times", rowgrad::repeated_story());
    rowgrad::measure("random words", rowgrad::random_words());
    for (int i = 1; i < argc; ++i) rowgrad::measure(argv[i], rowgrad::read_file(argv[i]));
    return 0;
  });
}
