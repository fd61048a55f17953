// Runs each fuzz target with the inputs in corpus/, and with several hundred random variants of
// them. Unlike run.sh, this test does not need libFuzzer, so it is part of all tests, including
// tests with sanitizers.

#include "tests/fuzz/fuzzing.hpp"
#include "tests/test.hpp"

namespace {

// Returns one of the inputs with a few bytes erased, replaced, or taken from another input.
std::string changed(const std::vector<std::string>& inputs, Random& random) {
  const auto below = [&](std::size_t count) {
    return random.bits() % std::max<std::size_t>(count, 1);
  };
  std::string input = inputs[below(inputs.size())];
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::string& other = inputs[below(inputs.size())];
    const std::string pieces[]{"", std::string(1, static_cast<char>(random.bits())),
                               other.substr(below(other.size()), below(12))};
    const std::size_t place = below(input.size() + 1);
    input.replace(place, below(4), pieces[below(3)]);
  }
  return input;
}

void expect_no_finding(const std::string& name, void (*target)(std::string_view)) {
  const std::filesystem::path corpus = ROWGRAD_TEST_DATA "/../fuzz/corpus/" + name;
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(corpus), {});
  std::ranges::sort(files);
  std::vector<std::string> inputs;
  for (const auto& file : files) inputs.push_back(read_file(file));
  Random random(1);
  for (const std::vector<std::string> first = inputs; inputs.size() < 400;)
    inputs.push_back(changed(first, random));
  for (const std::string& input : inputs) {
    try {
      target(input);
    } catch (const fuzzing::Finding& finding) {
      ADD_FAILURE() << finding.message << ", with the input " << in_quotes(input);
    }
  }
}

TEST(FuzzTargets, BytePairs) { expect_no_finding("byte_pairs", fuzzing::fuzz_byte_pairs); }
TEST(FuzzTargets, Gpt2Files) { expect_no_finding("gpt2_files", fuzzing::fuzz_gpt2_files); }
TEST(FuzzTargets, Json) { expect_no_finding("json", fuzzing::fuzz_json); }
TEST(FuzzTargets, Safetensors) { expect_no_finding("safetensors", fuzzing::fuzz_safetensors); }
TEST(FuzzTargets, Tokenizers) { expect_no_finding("tokenizer_json", fuzzing::fuzz_tokenizer_json); }
#ifdef ROWGRAD_PROGRAMS
TEST(FuzzTargets, Checkpoints) { expect_no_finding("checkpoint", fuzzing::fuzz_checkpoint); }
#endif

}  // namespace
