#include "tests/support/short_text.hpp"
#include "tests/test.hpp"
#include <rowgrad/examples/rowgrad/session/corpus.hpp>
#include <rowgrad/examples/rowgrad/session/encode_files.hpp>

namespace {

std::unique_ptr<Tokenizer> characters() { return make_tokenizer("char", short_text(), 0); }

void write_ids(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::path source = path;
  source += ".txt";
  write_file(source, text);
  const auto tokenizer = characters();
  TokenFileWriter writer(path, tokenizer->vocabulary());
  encode_files(*tokenizer, {source}, writer);
  writer.finish();
}

// With the character tokenizer, a text and its ids are split at the same position.
TEST(Corpus, TokenIdsTrainLikeTheirText) {
  const TemporaryFolder folder;
  write_ids(folder / "ids.bin", short_text());
  const Corpus ids = Corpus::find({folder / "ids.bin"});
  EXPECT_EQ(ids.bytes(), std::filesystem::file_size(folder / "ids.bin"));
  TrainOptions options = small_run();
  options.evaluation.every = 3;
  const auto of_text = start(options);
  const auto of_ids = Session::create(options, characters(), ids);
  EXPECT_EQ(of_ids->validation_ids()->size(), of_text->validation_ids()->size());
  of_text->run().train(10);
  of_ids->run().train(5);
  of_ids->save(folder / "checkpoint");
  const auto resumed = resume_from(folder / "checkpoint", ids);
  resumed->run().train(10);
  EXPECT_TRUE(fingerprint(*resumed) == fingerprint(*of_text));
  EXPECT_EQ(*resumed->validation_loss(), *of_text->validation_loss());
  EXPECT_EQ(unigram_loss(resumed->training_ids(), *resumed->validation_ids(), 100),
            unigram_loss(of_text->training_ids(), *of_text->validation_ids(), 100));

  write_ids(folder / "other.bin", short_text() + "e");
  EXPECT_ERROR_WITH(std::runtime_error, "the run was trained on a different corpus",
                    resume_from(folder / "checkpoint", Corpus::find({folder / "other.bin"})));
}

TEST(Corpus, SeveralFilesAreConcatenatedInOrder) {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole.bin", first = folder / "1.bin", rest = folder / "2.bin";
  write_ids(whole, short_text());
  write_ids(first, short_text().substr(0, 700));
  write_ids(rest, short_text().substr(700));
  const Corpus corpus = Corpus::find({first, rest});
  EXPECT_EQ(corpus.source(), first + " and 1 more");
  // The second file adds a header, a block checksum and a trailer.
  EXPECT_EQ(corpus.bytes(), Corpus::find({whole}).bytes() + sizeof(TokenFileHeader) + 8 + 8);
  const auto ids_of = [](const Corpus& some) {
    return values(some.split(*characters(), 0.1).validation.ids());
  };
  EXPECT_EQ(ids_of(corpus), ids_of(Corpus::find({whole})));
  EXPECT_EQ(corpus.hash(), Corpus::find({first, rest}).hash());
  EXPECT_NE(corpus.hash(), Corpus::find({rest, first}).hash());
  EXPECT_INVALID("--corpus: got 2 files, but " + first +
                     ".txt is text; expected one text file, or only .bin files of token ids",
                 Corpus::find({first, first + ".txt"}));
}

TEST(Corpus, DamagedIdsAreRejected) {
  const TemporaryFolder folder;
  write_ids(folder / "good.bin", short_text());
  std::string contents = read_file(folder / "good.bin");
  contents[1000] ^= 1;
  write_file(folder / "bad.bin", contents);
  const Corpus corpus = Corpus::find({folder / "good.bin", folder / "bad.bin"});
  EXPECT_TRUE(corpus.has_checksums() && corpus.is_verified());
  EXPECT_ERROR(std::runtime_error,
               (folder / "bad.bin").string() + ": the block of ids from index 0 on is damaged",
               corpus.split(*characters(), 0.1));

  const std::string raw = folder / "raw.bin";
  write_file(raw, "ab");
  EXPECT_FALSE(Corpus::find({folder / "good.bin", raw}).has_checksums());
  std::filesystem::resize_file(raw, (std::uintmax_t{1} << 30) + 2);
  EXPECT_FALSE(Corpus::find({raw}).is_verified());
}

}  // namespace
