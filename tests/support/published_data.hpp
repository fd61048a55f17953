#pragma once

// Published files that are not part of the repository.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>

namespace rowgrad::testing {

/// A fixture for tests with the-verdict.txt, vocab.bpe and encoder.json in the folder ROWGRAD_DATA,
/// where examples/texts.sh stores them. Tests are skipped if ROWGRAD_DATA is not set, and fail if a
/// file is missing.
class PublishedData : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("ROWGRAD_DATA") == nullptr)
      GTEST_SKIP() << "set ROWGRAD_DATA to a folder with The Verdict and GPT-2's vocabulary";
  }

  static std::filesystem::path file(const std::string& name) {
    return std::filesystem::path(std::getenv("ROWGRAD_DATA")) / name;
  }

  static std::string verdict() { return read_file(file("the-verdict.txt")); }

  /// Returns GPT-2's ids of The Verdict, as encoded by tiktoken.
  static std::vector<std::int32_t> verdict_ids() {
    std::istringstream text(read_file(ROWGRAD_TEST_DATA "/the-verdict.gpt2.ids"));
    std::vector<std::int32_t> ids;
    for (std::int32_t id; text >> id;) ids.push_back(id);
    return ids;
  }

  static BytePairTokenizer gpt2() {
    return load_gpt2_tokenizer(file("vocab.bpe"), file("encoder.json"));
  }
};

}  // namespace rowgrad::testing
