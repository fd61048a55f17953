#include "tests/test.hpp"

namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int32_t>;

const std::vector<std::string> kSpecial = {"<|endoftext|>", "<|a b|>", "a'"};

// Merges that would join what a wrong cut keeps apart.
const BytePairTokenizer& byte_pairs() {
  static const auto tokenizer = BytePairTokenizer::train(
      "we're you'll it's  don't   I've 's 'll ''s naïve été 世界 世界\n\n\n  a  b \t \n x12 123 "
      "... '' !! "
      "we're you'll it's  don't   I've 's 'll ''s naïve été 世界 世界\n\n\n  a  b \t \n x12 123 "
      "... '' !!",
      {.size = 400, .special_tokens = kSpecial});
  return tokenizer;
}

// Texts out of pieces whose borders matter.
std::vector<std::string> hostile_texts() {
  const std::vector<std::string> pieces = {" ",       "  ",     "\n",
                                           "\n\n",    "\t",     "\r\n",
                                           "'",       "''",     "'s",
                                           "'ll",     "'re",    "'r",
                                           "l",       "re",     "a",
                                           "é",       "世",     "界",
                                           "1",       "²",      ".",
                                           "!",       "\u00A0", "\u3000",
                                           "\u2028",  "\u0301", "🙂",
                                           "\xFF",    "\xC3",   "\xE4\xB8",
                                           "\xA9",    "\x80",   "<|endoftext|>",
                                           "<|endof", "text|>", "<|a b|>",
                                           "<|a ",    "a'",     std::string(1, '\0')};
  std::vector<std::string> texts = {"", " ", "we're  here\n\n\nit's 'll", "\xE4\xB8\x96\xE4\xB8"};
  Random random(1);
  for (int i = 0; i < 600; ++i) {
    std::string text;
    for (int length = 0; length < 12; ++length) text += pieces[random.bits() % pieces.size()];
    texts.push_back(text);
  }
  return texts;
}

// Every place that is allowed as a cut, for a reader who sees any beginning of the text.
template <class Check>
void for_each_cut(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options,
                  const Check& check) {
  for (std::size_t seen = 1; seen <= text.size(); ++seen) {
    const std::size_t cut = tokenizer.last_cut(std::string_view(text).substr(0, seen), options);
    if (cut > 0) check(cut);
  }
}

TEST(LastCut, NeverChangesTheIds) {
  std::size_t cuts = 0;
  for (const std::string& text : hostile_texts())
    for (const EncodeOptions& options :
         {EncodeOptions(), EncodeOptions{.allowed_special = kSpecial}}) {
      const Numbers whole = values(byte_pairs().encode(text, options));
      for_each_cut(byte_pairs(), text, options, [&](std::size_t cut) {
        Numbers joined = values(byte_pairs().encode(text.substr(0, cut), options));
        const Numbers rest = values(byte_pairs().encode(text.substr(cut), options));
        joined.insert(joined.end(), rest.begin(), rest.end());
        ASSERT_EQ(joined, whole) << in_quotes(text) << " cut at " << cut;
        ++cuts;
      });
    }
  EXPECT_GT(cuts, 5000U);
}

TEST(LastCut, FindsWhereOrdinaryTextCanBeCut) {
  struct Case {
    std::string text;
    std::size_t cut;
  };
  const std::vector<Case> cases = {
      {"one two", 3}, {"one two ", 7}, {"one two  ", 7},     {"one, two", 4}, {"abc", 0},
      {"it's", 2},    {"x1", 1},       {"世界。", 6},        {"世界。\n", 9}, {"\n\na", 0},
      {"a\xC3", 0},   {"a<|a b|", 6},  {"a <|endoftext", 4}, {"ab <|x", 5}};
  for (const Case& c : cases) EXPECT_EQ(byte_pairs().last_cut(c.text), c.cut) << in_quotes(c.text);
  const EncodeOptions special{.allowed_special = {"<|a b|>"}};
  EXPECT_EQ(byte_pairs().last_cut("a<|a b|", special), 1U);
  EXPECT_EQ(byte_pairs().last_cut("a<|a", special), 1U);
  EXPECT_EQ(byte_pairs().last_cut("a<|a b|>.1", special), 9U);
  EXPECT_EQ(byte_pairs().last_cut("a<|a b|>1", special), 8U);
}

TEST(LastCut, SuitsCharactersAndWords) {
  const std::string text = "né -- a, 'b' 世界\n<|x y|> --c";
  const std::vector<std::string> special = {"<|x y|>"};
  const auto characters = CharacterTokenizer::from_text(text, {.special_tokens = special});
  const auto words = WordTokenizer::from_text(text, {.special_tokens = special});
  for (const Tokenizer* tokenizer :
       {static_cast<const Tokenizer*>(&characters), static_cast<const Tokenizer*>(&words)})
    for (const EncodeOptions& options :
         {EncodeOptions(), EncodeOptions{.allowed_special = special}}) {
      if (tokenizer == &words && options.allowed_special.empty()) continue;  // <|x is no word
      const Numbers whole = values(tokenizer->encode(text, options));
      std::size_t cuts = 0;
      for_each_cut(*tokenizer, text, options, [&](std::size_t cut) {
        Numbers joined = values(tokenizer->encode(text.substr(0, cut), options));
        const Numbers rest = values(tokenizer->encode(text.substr(cut), options));
        joined.insert(joined.end(), rest.begin(), rest.end());
        EXPECT_EQ(joined, whole) << cut;
        ++cuts;
      });
      EXPECT_GT(cuts, 5U);
    }
}

class EncodeFiles : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& contents) {
    write_file(folder_ / name, contents);
    return folder_ / name;
  }

  Numbers encoded(const std::vector<fs::path>& files, const EncodeFilesOptions& options) {
    TokenFileWriter writer(folder_ / "out.bin", byte_pairs().vocabulary());
    encode_files(byte_pairs(), files, writer, options);
    writer.finish();
    const TokenFile out(folder_ / "out.bin", {.vocabulary = &byte_pairs().vocabulary()});
    out.verify();
    Numbers ids(out.size());
    out.read(0, ids);
    return ids;
  }

  TemporaryFolder folder_;
};

TEST_F(EncodeFiles, GivesTheIdsOfWholeTextsForAnySizeOfBlocks) {
  const std::vector<std::string> texts = hostile_texts();
  std::vector<fs::path> files;
  Numbers expected;
  const EncodeOptions special{.allowed_special = kSpecial};
  for (std::size_t i = 0; i < 3; ++i) {
    std::string text = "x";
    for (std::size_t j = i; j < texts.size(); j += 3) text += texts[j];
    files.push_back(file("text" + std::to_string(i), text));
    if (i > 0) expected.push_back(*byte_pairs().vocabulary().find_special(kEndOfText));
    const Numbers ids = values(byte_pairs().encode(text, special));
    expected.insert(expected.end(), ids.begin(), ids.end());
  }
  for (const std::size_t block : {1, 7, 100, 1'000'000})
    for (const std::size_t threads : {1, 3})
      EXPECT_EQ(encoded(files, {.allowed_special = kSpecial,
                                .separator = std::string(kEndOfText),
                                .block_bytes = block,
                                .threads = threads}),
                expected)
          << block;
}

TEST_F(EncodeFiles, GoesOnWhereItWasStopped) {
  const std::vector<fs::path> files = {file("a", "one two three, four five."), file("b", "six"),
                                       file("c", "it's seven eight  nine\n\n ten")};
  EncodeFilesOptions options{
      .separator = std::string(kEndOfText), .block_bytes = 4, .threads = 2, .save_bytes = 1};
  const Numbers expected = encoded(files, options);
  const std::uint64_t job = encode_files_job(byte_pairs(), files, options);
  for (int stopped_after = 1; stopped_after < 12; ++stopped_after) {
    for (int runs = 0;; ++runs) {
      TokenFileWriter writer(folder_ / "out.bin", byte_pairs().vocabulary(), job);
      EXPECT_EQ(writer.position() > 0, runs > 0);
      options.after_block = [left = stopped_after](std::uint64_t) mutable {
        if (left-- == 0) throw std::runtime_error("stopped");
      };
      try {
        encode_files(byte_pairs(), files, writer, options);
        writer.finish();
        break;
      } catch (const std::runtime_error& error) {
        EXPECT_STREQ(error.what(), "stopped");
      }
    }
    const TokenFile out(folder_ / "out.bin");
    Numbers ids(out.size());
    out.read(0, ids);
    EXPECT_EQ(ids, expected) << stopped_after;
    out.verify();
  }
}

TEST_F(EncodeFiles, IsAnotherJobForOtherTokenizersFilesAndOptions) {
  const std::vector<fs::path> files = {file("a", "one"), file("b", "two")};
  const auto words = WordTokenizer::from_text("one two");
  const auto job_of = [&](const std::vector<fs::path>& texts,
                          const EncodeFilesOptions& options = {}) {
    return encode_files_job(words, texts, options);
  };
  const std::uint64_t job = job_of(files);
  EXPECT_EQ(job_of(files, {.block_bytes = 9, .threads = 2}), job);
  EXPECT_NE(job_of({files[0]}), job);
  EXPECT_NE(job_of({files[1], files[0]}), job);
  EXPECT_NE(job_of(files, {.separator = "a"}), job);
  EXPECT_NE(job_of(files, {.allowed_special = {"a"}}), job);
  const auto lower = WordTokenizer::from_text("one two", {.lower = true});  // with the same tokens
  EXPECT_NE(encode_files_job(lower, files, {}), job);
  file("b", "tw");
  EXPECT_NE(job_of(files), job);
}

TEST_F(EncodeFiles, SaysWhatIsWrongWithAText) {
  const auto letters = CharacterTokenizer::from_text("ab\n");
  const auto refusal = [&](const fs::path& path, const EncodeFilesOptions& options) {
    TokenFileWriter writer(folder_ / "out.bin", letters.vocabulary());
    return error_of<std::runtime_error>([&] { encode_files(letters, {path}, writer, options); });
  };
  const fs::path other = file("other", std::string(100, 'a') + "c");
  EXPECT_EQ(refusal(other, {.block_bytes = 10}),
            other.string() +
                ": encode: the character \"c\" at byte 100 of the text has no id in "
                "the vocabulary of 3 tokens");
  const auto words = WordTokenizer::from_text("a b");
  const fs::path broken = file("broken", "a b a b a b \xFF");
  TokenFileWriter of_words(folder_ / "words.bin", words.vocabulary());
  EXPECT_ERROR(std::runtime_error,
               broken.string() +
                   ": encode: the byte \"\\xff\" at byte 12 of the text is not part of valid UTF-8",
               encode_files(words, {broken}, of_words, {.block_bytes = 4}));
  const fs::path empty = file("empty", "");
  EXPECT_EQ(refusal(empty, {}), empty.string() + " is empty");
  // Before there is a writer.
  EXPECT_THROW(encode_files_job(letters, {empty}, {}), std::runtime_error);
  TokenFileWriter writer(folder_ / "out.bin", letters.vocabulary());
  EXPECT_INVALID("encode_files: the separator <|x|> is no special token of this tokenizer",
                 encode_files(letters, {other}, writer, {.separator = "<|x|>"}));
  EXPECT_INVALID("encode_files: block_bytes is 0, expected at least 1",
                 encode_files(letters, {other}, writer, {.block_bytes = 0}));
}

}  // namespace
