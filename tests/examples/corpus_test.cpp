#include <string>

#include <gtest/gtest.h>

#include "tests/support/checkpoints.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"
#include <rowgrad/core/data/encode_files.hpp>
#include <rowgrad/examples/support/builtin_story.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/training.hpp>

namespace rowgrad {
namespace {

using testing::error_of;

std::string text() { return std::string(kBuiltinStory).substr(0, 2500); }

std::unique_ptr<Tokenizer> characters() { return make_tokenizer("char", text(), 0); }

TrainOptions small() {
  TrainOptions options;
  options.context = 16;
  options.width = 8;
  options.shape = NextTokenShape{.look_back = 3, .hidden = {16}};
  options.evaluate_every = 3;
  return options;
}

void write_ids(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path source = path;
  source += ".txt";
  write_file(source, text);
  const auto tokenizer = characters();
  TokenFileWriter writer(path, tokenizer->vocabulary());
  encode_files(*tokenizer, {source}, writer);
  writer.finish();
}

void run(Training& training, std::size_t steps) {
  training.run.run_epoch([&](double) {
    training.evaluate_if_due();
    return training.run.steps() < steps;
  });
}

std::string bits(const Training& training) {
  return testing::bits_of(testing::without(training.run.state_dict(), "history.tokens_per_second"));
}

// With characters, a text and its ids are split at the same place.
TEST(Corpus, OfIdsTrainsLikeItsText) {
  const testing::TemporaryFolder folder;
  write_ids(folder / "ids.bin", text());
  const Corpus ids = Corpus::find(folder / "ids.bin");
  EXPECT_EQ(ids.bytes(), std::filesystem::file_size(folder / "ids.bin"));
  Training of_text(small(), characters(), text());
  Training of_ids(small(), characters(), ids);
  EXPECT_EQ(of_ids.validation_ids()->size(), of_text.validation_ids()->size());
  run(of_text, 10);
  run(of_ids, 5);
  of_ids.save(folder / "checkpoint");
  const auto resumed = Training::resume(folder / "checkpoint", ids);
  run(*resumed, 10);
  EXPECT_TRUE(bits(*resumed) == bits(of_text));
  EXPECT_EQ(*resumed->validation_loss(), *of_text.validation_loss());
  EXPECT_EQ(unigram_loss(resumed->training_ids(), *resumed->validation_ids(), 100),
            unigram_loss(of_text.training_ids(), *of_text.validation_ids(), 100));

  write_ids(folder / "other.bin", text() + "e");
  EXPECT_NE(error_of<std::runtime_error>([&] {
              Training::resume(folder / "checkpoint", Corpus::find(folder / "other.bin"));
            }).find("the run was on another text"),
            std::string::npos);
}

TEST(Corpus, OfIdsNeedsTheirTokenizer) {
  const testing::TemporaryFolder folder;
  write_ids(folder / "ids.bin", text());
  EXPECT_NE(error_of<std::runtime_error>([&] {
              Training(small(), make_tokenizer("word", text(), 0),
                       Corpus::find(folder / "ids.bin"));
            }).find("of another vocabulary"),
            std::string::npos);
}

}  // namespace
}  // namespace rowgrad
