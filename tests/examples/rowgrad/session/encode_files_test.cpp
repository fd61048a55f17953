#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/encode_files.hpp>

namespace {

namespace fs = std::filesystem;
using Numbers = std::vector<std::int32_t>;
using namespace std::string_literals;

const std::vector<std::string> kSpecial = {"<|endoftext|>", "<|a b|>", "a'"};

// Returns a tokenizer with merges that would span a wrong cut.
const BytePairTokenizer& byte_pairs() {
  static const auto tokenizer = BytePairTokenizer::train(
      "we're you'll it's  don't   I've 's 'll ''s naïve été 世界 世界\n\n\n  a  b \t \n x12 123 "
      "... '' !!",
      {.size = 400, .special_tokens = kSpecial});
  return tokenizer;
}

// Returns texts of random pieces, whose ids could change if the texts were cut in wrong places.
std::vector<std::string> hostile_texts() {
  const std::vector<std::string> pieces = {" ",       "  ",     "\n",
                                           "\n\n",    "\t",     "\r\n",
                                           "'",       "''",     "'s",
                                           "'ll",     "'re",    "'r",
                                           "l",       "re",     "a",
                                           ".",       "!",      "1",
                                           "²",       "é",      "世",
                                           "界",      "🙂",   "\0"s,
                                           "\u0301",  "\u00A0", "\u3000",
                                           "\u2028",  "\xFF",   "\xC3",
                                           "\xA9",    "\x80",   "\xE4\xB8",
                                           "<|a b|>", "<|a ",   "a'",
                                           "<|endof", "text|>", "<|endoftext|>"};
  std::vector<std::string> texts = {"", " ", "we're  here\n\n\nit's 'll", "\xE4\xB8\x96\xE4\xB8"};
  Random random(1);
  for (int i = 0; i < 600; ++i) {
    std::string text;
    for (int length = 0; length < 12; ++length) text += pieces[random.bits() % pieces.size()];
    texts.push_back(text);
  }
  return texts;
}

class EncodeFiles : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& contents) {
    write_file(folder_ / name, contents);
    return folder_ / name;
  }

  Numbers encoded(const std::vector<fs::path>& files, EncodeFilesOptions options,
                  const Tokenizer& tokenizer = byte_pairs()) {
    options.after_block = [&](std::uint64_t) { ++blocks_; };
    TokenFileWriter writer(folder_ / "out.bin", tokenizer.vocabulary());
    encode_files(tokenizer, files, writer, options);
    writer.finish();
    const TokenFile out(folder_ / "out.bin", {.vocabulary = &tokenizer.vocabulary()});
    out.verify();
    Numbers ids(out.size());
    out.read(0, ids);
    return ids;
  }

  TemporaryFolder folder_;
  std::size_t blocks_ = 0;  // encoded so far, in all files
};

TEST_F(EncodeFiles, IdsDoNotDependOnTheBlockSize) {
  const std::vector<std::string> texts = hostile_texts();
  for (const std::vector<std::string>& special : {std::vector<std::string>(), kSpecial}) {
    std::vector<fs::path> files;
    Numbers expected;
    for (std::size_t i = 0; i < 3; ++i) {
      std::string text = "x";
      for (std::size_t j = i; j < texts.size(); j += 3) text += texts[j];
      files.push_back(file("text" + std::to_string(i), text));
      if (i > 0) expected.push_back(*byte_pairs().vocabulary().find_special(kEndOfText));
      const Numbers ids = values(byte_pairs().encode(text, {.allowed_special = special}));
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    for (const std::size_t block : {1, 7, 100, 1'000'000})
      for (const std::size_t threads : {1, 3})
        EXPECT_EQ(encoded(files, {.allowed_special = special,
                                  .separator = std::string(kEndOfText),
                                  .block_bytes = block,
                                  .threads = threads}),
                  expected)
            << block;
  }
  EXPECT_GT(blocks_, 1000U) << "too few cuts to test";
  // Texts are cut before each blank that follows a non-blank, unless a special token may contain
  // the blank.
  const auto blocks = [&](const std::string& text, const std::vector<std::string>& special) {
    blocks_ = 0;
    encoded({file("lines", text)}, {.allowed_special = special, .block_bytes = 1});
    return blocks_;
  };
  EXPECT_EQ(blocks("one two\tthree\r\nfour\nfive", {}), 5U);
  EXPECT_EQ(blocks("<|a b|> <|a b|>\none", kSpecial), 2U);
}

TEST_F(EncodeFiles, WorksWithCharactersAndWords) {
  const std::string text = "né -- a, 'b' 世界\n<|x y|> --c\td";
  const std::vector<std::string> special = {"<|x y|>"};
  const auto characters = CharacterTokenizer::from_text(text, {.special_tokens = special});
  const auto words = WordTokenizer::from_text(text, {.special_tokens = special});
  for (const Tokenizer* tokenizer : std::initializer_list<const Tokenizer*>{&characters, &words})
    for (std::size_t bytes = 1; bytes <= text.size(); ++bytes)
      EXPECT_EQ(encoded({file("text", text)}, {.allowed_special = special, .block_bytes = bytes},
                        *tokenizer),
                values(tokenizer->encode(text, {.allowed_special = special})))
          << bytes;
}

TEST_F(EncodeFiles, SkipsByteOrderMarksOnlyAtTheStartOfFiles) {
  const std::string mark = "\xEF\xBB\xBF", text = "né 世界" + mark + " b";
  const auto letters = CharacterTokenizer::from_text(text);
  Numbers twice = values(letters.encode(text + text));
  for (const std::size_t block : {1, 4, 1000}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(
        encoded({file("a", mark + text), file("b", mark + text)}, {.block_bytes = block}, letters),
        twice);
    const std::string notes = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(notes, concat((folder_ / "a").string(), ": skipped the byte order mark\n",
                            (folder_ / "b").string(), ": skipped the byte order mark\n"));
  }
  const fs::path marked = file("a", mark);
  EXPECT_ERROR(std::runtime_error, marked.string() + " is empty", encoded({marked}, {}, letters));
}

TEST_F(EncodeFiles, RejectsInvalidArgumentsAndFiles) {
  const auto letters = CharacterTokenizer::from_text("ab ");
  const fs::path other = file("other", "a b a b a c"), empty = file("empty", "");
  const auto encode = [&](const fs::path& path, const EncodeFilesOptions& options) {
    TokenFileWriter writer(folder_ / "out.bin", letters.vocabulary());
    encode_files(letters, {path}, writer, options);
  };
  EXPECT_ERROR(std::runtime_error,
               other.string() +
                   ": encode: the character \"c\" at byte 10 of the text has no id in the "
                   "vocabulary of 3 tokens",
               encode(other, {.block_bytes = 4, .threads = 3}));
  EXPECT_ERROR(std::runtime_error, empty.string() + " is empty", encode(empty, {}));
  EXPECT_INVALID("encode_files: the separator <|x|> is not a special token of this tokenizer",
                 encode(other, {.separator = "<|x|>"}));
  EXPECT_INVALID("encode_files: block_bytes is 0, expected at least 1",
                 encode(other, {.block_bytes = 0}));
}

}  // namespace
