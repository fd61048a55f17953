// Tests GPT-2 with 124 million parameters, if its weights are available. The expected losses and
// texts are from Raschka's "Build a Large Language Model (From Scratch)", chapter 5, and from the
// tests of Hugging Face's transformers.

#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/gpt2_folder.hpp>

namespace {

// Tests that are skipped unless the environment variables ROWGRAD_DATA and ROWGRAD_GPT2 are set.
// ROWGRAD_GPT2 names a folder with the model.safetensors of openai-community/gpt2.
class PublishedGpt2 : public PublishedData {
 protected:
  void SetUp() override {
    PublishedData::SetUp();
    if (IsSkipped()) return;
    const char* folder = std::getenv("ROWGRAD_GPT2");
    if (folder == nullptr) GTEST_SKIP() << "set ROWGRAD_GPT2 to a folder with GPT-2's weights";
    const StateDict weights = read_gpt2_weights(folder);
    model = std::make_unique<GptModel>(gpt2_options(weights), Random(123));
    load_gpt2_weights(*model, weights);
  }

  std::vector<std::int32_t> continued(const Ids& prompt, std::size_t count) {
    Random greedy(0);  // not drawn from at temperature 0
    const Ids ids = generate(*model, prompt, {.max_new_tokens = count, .temperature = 0}, greedy);
    return {ids.begin(), ids.end()};
  }

  double loss(const Ids& ids) {
    DataLoader loader(TokenWindows(ids, {.context = 256, .stride = 256}),
                      {.batch = 2, .drop_last = true});
    return evaluate(*model, loader)->loss;
  }

  std::unique_ptr<GptModel> model;
};

TEST_F(PublishedGpt2, LoadsItsWeights) {
  const Tensor& table = model->token.weight.value();
  ASSERT_EQ(table.shape(), Shape({50257, 768}));
  EXPECT_NEAR(table(0, 0), -0.11010301, 1e-7);
  EXPECT_NEAR(table(0, 767), 0.04531523, 1e-7);
  EXPECT_NEAR(table(50256, 767), 0.12067825, 1e-7);
  EXPECT_EQ(model->context(), 1024U);
  EXPECT_EQ(model->options().heads, 12U);
  EXPECT_EQ(model->parameter_count(), 124'439'808U);
}

TEST_F(PublishedGpt2, GeneratesThePublishedTexts) {
  EXPECT_EQ(continued(to_ids(std::vector<std::int32_t>{464, 3290}), 18),
            (std::vector<std::int32_t>{373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290,
                                       2688, 27262, 13, 198, 198, 464, 3290}));
  const auto tokenizer = gpt2();
  const auto expect_continued = [&](const std::string& prompt, const std::string& text) {
    const Ids ids = tokenizer.encode(text);
    EXPECT_EQ(continued(tokenizer.encode(prompt), ids.size()),
              std::vector<std::int32_t>(ids.begin(), ids.end()))
        << prompt;
  };
  expect_continued(
      "Every effort moves",
      " forward, but it's not enough.\n\n\"I'm not going to sit here and say, 'I'm not "
      "going to do this,'");
  expect_continued("Hello, my dog is a little", " bit of a mess. I'm not sure if he's going");
  expect_continued("Today, I", "'m going to be doing a lot of research on this. I");
}

TEST_F(PublishedGpt2, HasThePublishedLossOnTheVerdict) {
  const auto tokenizer = gpt2();
  const std::string text = verdict();
  const std::size_t split = text.size() * 9 / 10;
  EXPECT_NEAR(loss(tokenizer.encode(text.substr(0, split))), 3.754749, 1e-4);
  EXPECT_NEAR(loss(tokenizer.encode(text.substr(split))), 3.559618, 1e-4);
}

}  // namespace
