#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/output/word_vectors.hpp>

namespace {

TEST(VectorFiles, EscapeWhiteSpaceInWords) {
  const TemporaryFolder folder;
  const CharacterTokenizer tokenizer = CharacterTokenizer::from_text("\n \\a\v\xC2\xA0");
  const Tensor vectors{{1, -0.5}, {0.1F, 1e-20F}, {2, 3}, {4, 5}, {6, 7}, {8, 1e20F}};
  write_word_vectors(folder / "v.txt", tokenizer, vectors);
  EXPECT_EQ(read_file(folder / "v.txt"),
            "6 2\n\\n 1 -0.5\n<0x0B> 0.1 1e-20\n\\s 2 3\n\\\\ 4 5\na 6 7\n\xC2\xA0 8 1e+20\n");
  write_word_vectors(folder / "v.npy", tokenizer, vectors);
  EXPECT_EQ(read_file(folder / "v.words.txt"), "\\n\n<0x0B>\n\\s\n\\\\\na\n\xC2\xA0\n");
  EXPECT_EQ(std::filesystem::file_size(folder / "v.npy"), 128 + 12 * sizeof(real));
}

TEST(VectorFiles, ReplaceOnlyEarlierVectors) {
  const TemporaryFolder folder;
  const auto check = [&](const char* file) {
    check_outputs(outputs_of_vectors(folder / file), {}, false);
  };
  const auto expect_refused = [&](const char* file, const std::string& contents,
                                  const std::string& message) {
    write_file(folder / file, contents);
    EXPECT_ERROR_WITH(std::runtime_error, message, check(file));
  };
  const CharacterTokenizer tokenizer = CharacterTokenizer::from_text("ab");
  for (const char* file : {"v.txt", "v.npy"}) {
    check(file);
    write_word_vectors(folder / file, tokenizer, Tensor{{1, 2}, {3, 4}});
    check(file);
  }
  expect_refused("ids", "12 34\n", "exists and is not word vectors");
  expect_refused("digits", "12", "exists and is not word vectors");
  expect_refused("other.npy", "\x93NUMPY\x01v {'descr': '<f4', 'shape': (2, 2), }",
                 "exists and is not word vectors");
  write_file(folder / "w.words.txt", "mine");
  EXPECT_ERROR_WITH(std::runtime_error, "w.words.txt exists and is not the words of word vectors",
                    check("w.npy"));
}

}  // namespace
