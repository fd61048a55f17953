#include "tests/test.hpp"

namespace {

// Returns encoder.json of a small vocabulary: the bytes in reverse order from id 0 on, then "Ġa",
// the end of text, and "Ġab".
json encoder() {
  json ids;
  for (int byte = 0; byte < 256; ++byte)
    ids[printable_from_bytes(std::string(1, static_cast<char>(byte)))] = 255 - byte;
  ids["Ġa"] = 256;
  ids["<|endoftext|>"] = 257;
  ids["Ġab"] = 258;
  return ids;
}
constexpr const char* kMerges = "#version: 0.2\nĠ a\nĠa b\n";

class Gpt2Files : public ::testing::Test {
 protected:
  BytePairTokenizer load(const std::string& merges, const std::string& ids,
                         const std::vector<std::string>& special = {std::string(kEndOfText)}) {
    write_file(folder_ / "vocab.bpe", merges);
    write_file(folder_ / "encoder.json", ids);
    return load_gpt2_tokenizer(folder_ / "vocab.bpe", folder_ / "encoder.json", special);
  }

  // Returns the error message without the folder's name.
  std::string refusal(const std::string& merges, const std::string& ids) {
    const std::string message = error_of<std::runtime_error>([&] { load(merges, ids); });
    const std::string folder = folder_.path().string() + "/";
    EXPECT_TRUE(message.starts_with(folder)) << message;
    return message.substr(std::min(folder.size(), message.size()));
  }

  TemporaryFolder folder_;
};

TEST_F(Gpt2Files, BuildTheTokenizerThatTheyDescribe) {
  const auto tokenizer = load(kMerges, encoder().dump());
  EXPECT_EQ(tokenizer.size(), 259);
  EXPECT_EQ(values(tokenizer.encode("a ab ac")), (Ids32{255 - 'a', 258, 256, 255 - 'c'}));
  EXPECT_EQ(values(tokenizer.encode(" a<|endoftext|>", {.allowed_special = {"<|endoftext|>"}})),
            (Ids32{256, 257}));
  EXPECT_EQ(tokenizer.decode(Ids{258, 257, 256}), " ab<|endoftext|> a");
  EXPECT_EQ(load("#version: 0.2\nĠ a\nĠa b", encoder().dump()).size(), 259);  // no final newline
}

TEST_F(Gpt2Files, NameTheLineOfAMalformedMerge) {
  for (const auto& [merges, message] : std::map<std::string, std::string>{
           {"", "vocab.bpe is empty"},
           {"Ġ a\nĠa b\n", "vocab.bpe, line 1: expected a line that begins with #version:"},
           {"#version: 0.2\nĠ a\nĠab\n",
            "vocab.bpe, line 3: \"Ġab\": expected two tokens with one space between them"},
           {"#version: 0.2\nĠ a\n\nĠa b\n",
            "vocab.bpe, line 3: \"\": expected two tokens with one space between them"},
           {"#version: 0.2\nĠ a b\n",
            "vocab.bpe, line 2: \"Ġ a b\": expected two tokens with one space between them"},
           {"#version: 0.2\r\nĠ a\r\n",
            "vocab.bpe, line 2: \"a\\x0d\" has a character that does not represent a byte"},
           {"#version: 0.2\nĠa b\nĠ a\n",
            "vocab.bpe, line 2: MergeTable: the merge uses \" a\", expected a byte or a token made "
            "by an earlier merge"},
           {"#version: 0.2\nĠ a\n",
            "encoder.json: BytePairTokenizer: token 258 is \" ab\", expected a special token, a "
            "byte, or a token made by a merge"},
       })
    EXPECT_EQ(refusal(merges, encoder().dump()), message);
}

TEST_F(Gpt2Files, RejectGapsDuplicateIdsAndForeignTokens) {
  struct Case {
    std::string token;
    json id;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"Ġab", 259,
       "encoder.json: \"Ġab\" has id 259, expected less than the number of tokens, 259"},
      {"Ġab", -1, "encoder.json, at \"Ġab\": expected a whole number below 2^64"},
      {"世", 259, "encoder.json: \"世\" has a character that does not represent a byte"},
      {"", 259, "encoder.json: the token with id 259 is empty"},
      {"bc", 259,
       "encoder.json: BytePairTokenizer: token 259 is \"bc\", expected a special token, a byte, or "
       "a token made by a merge"},
  };
  for (const Case& c : cases) {
    json ids = encoder();
    ids[c.token] = c.id;
    EXPECT_EQ(refusal(kMerges, ids.dump()), c.message);
  }

  json twice = encoder();
  twice["Ġab"] = 256;
  EXPECT_HAS(refusal(kMerges, twice.dump()), "has id 256, which another token also has");

  json no_end = encoder();
  no_end.erase("<|endoftext|>");
  no_end["Ġab"] = 257;
  EXPECT_EQ(refusal(kMerges, no_end.dump()),
            "encoder.json: the special token \"<|endoftext|>\" is missing");
  EXPECT_EQ(load(kMerges, no_end.dump(), {}).size(), 258);
  EXPECT_EQ(refusal(kMerges, "[]"), "encoder.json: expected an object");
}

class PublishedGpt2Files : public PublishedData {};

// The texts are The Verdict (Edith Wharton, 1908) and 200 other texts.
TEST_F(PublishedGpt2Files, EncodeToThePublishedIds) {
  const auto tokenizer = gpt2();
  EXPECT_EQ(tokenizer.size(), 50257);
  EXPECT_EQ(values(tokenizer.encode(verdict())), verdict_ids());
  const auto cases = golden("gpt2_bpe_cases.json");
  ASSERT_EQ(cases.size(), 200U);
  for (const auto& item : cases) {
    const auto text = item["text"].get<std::string>();
    EXPECT_EQ(values(tokenizer.encode(text)), item["ids"].get<Ids32>()) << item["text"];
    EXPECT_EQ(tokenizer.decode(item["ids"].get<Ids32>()), text);
  }
}

}  // namespace
