#include "tests/test.hpp"

namespace {

TEST(Samples, RequireAPrompt) {
  std::vector<Sample> samples;
  const auto letters = CharacterTokenizer::from_text("ab");
  EXPECT_INVALID("Samples: the prompt has no tokens, expected at least one",
                 Samples(samples, letters, {.prompt = {}, .every = 5}));
  EXPECT_NO_THROW(Samples(samples, letters, {.prompt = {}, .generate = {.max_new_tokens = 0}}));
  EXPECT_NO_THROW(Samples(samples, letters, {.prompt = Ids{1}, .every = 5}));
}

}  // namespace
