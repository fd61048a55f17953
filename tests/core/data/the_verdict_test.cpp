// The published numbers of The Verdict (Edith Wharton, 1908): characters, words, GPT-2's byte
// pairs, windows and the first batch.

#include "tests/test.hpp"

namespace {

using Numbers = std::vector<std::int32_t>;

class TheVerdict : public PublishedData {};
class Gpt2 : public PublishedData {};

TEST_F(TheVerdict, Has62Characters) {
  const std::string text = verdict();
  const auto tokenizer = CharacterTokenizer::from_text(text);
  EXPECT_EQ(tokenizer.size(), 62);
  EXPECT_EQ(tokenizer.encode(text).size(), 20479U);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST_F(TheVerdict, Has4690WordsOf1130Types) {
  const std::string text = verdict();
  const auto tokenizer = WordTokenizer::from_text(text);
  EXPECT_EQ(tokenizer.size(), 1132);
  EXPECT_EQ(tokenizer.vocabulary().find_special("<|endoftext|>"), 1130);
  EXPECT_EQ(tokenizer.vocabulary().find_special("<|unk|>"), 1131);
  const Numbers ids = values(tokenizer.encode(text));
  EXPECT_EQ(ids.size(), 4690U);
  EXPECT_EQ(Numbers(ids.begin(), ids.begin() + 12),
            (Numbers{53, 44, 149, 1003, 57, 38, 818, 115, 256, 486, 6, 1002}));
  EXPECT_EQ(
      values(tokenizer.encode("rowgrad <|endoftext|> the", {.allowed_special = {"<|endoftext|>"}})),
      (Numbers{1131, 1130, tokenizer.vocabulary().find("the").value()}));
}

TEST_F(TheVerdict, HasThePublishedGpt2Ids) {
  const std::string text = verdict();
  const auto tokenizer = gpt2();
  EXPECT_EQ(tokenizer.size(), 50257);
  const Numbers ids = values(tokenizer.encode(text));
  EXPECT_EQ(ids.size(), 5145U);
  EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()).size(), 1416U);
  EXPECT_EQ(ids, verdict_ids());
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST_F(TheVerdict, GivesThePublishedFirstBatch) {
  DataLoader loader(TokenWindows(to_ids(verdict_ids()), {.context = 4, .stride = 4}));
  EXPECT_EQ(loader.size(), 161);
  const Batch batch = *loader.begin();
  EXPECT_EQ(batch.inputs()(7, 0), 284);
  EXPECT_EQ(values(batch.rows(std::vector<std::int64_t>{7}).targets()),
            (Numbers{3285, 326, 11, 287}));
}

TEST_F(Gpt2, EncodesTheGoldenTextsExactly) {
  const auto tokenizer = gpt2();
  const auto cases = golden("gpt2_bpe_cases.json");
  ASSERT_EQ(cases.size(), 200U);
  for (const auto& item : cases) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ(values(tokenizer.encode(text)), item["ids"].get<Numbers>()) << item["text"];
    EXPECT_EQ(tokenizer.decode(item["ids"].get<Numbers>()), text);
  }
}

}  // namespace
