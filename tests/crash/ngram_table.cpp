// A table larger than memory: a language model that knows each run of up to six characters by a row
// of its own, among 100 million. The table is in a file, of which only touched rows take space, and
// a second start goes on where the first one ended, however that was.

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <sys/stat.h>

#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string table = "ngrams.table";
  std::size_t rows = 100'000'000;
  std::size_t width = 32;
  std::size_t steps = 100;
  std::size_t save_every = 25;
  std::string corpus;
  bool verify = false;

  std::filesystem::path state() const { return table + ".run"; }
};

constexpr std::size_t kContext = 32;
constexpr std::size_t kBatch = 32;
constexpr std::size_t kLongest = 6;  // tokens that a row stands for

// The last 1, 2, … tokens at each place are hashed to rows, whose sum the head reads. Two runs of
// tokens may share a row: with 100 million rows, few do. (Weinberger et al. 2009, "Feature hashing
// for large scale multitask learning".)
class NgramModel : public LanguageModel {
 public:
  NgramModel(TableFile& file, std::size_t vocabulary, Random& random)
      : vocabulary_(vocabulary),
        ngrams(*this, "ngrams", file),
        head(*this, "head", file.width(), vocabulary, random) {}

  Variable before_head(Tape& tape, const Ids& ids) override {
    return sum(ngrams.forward(tape, hashed(ids)), {-2});  // of [..., length, kLongest, width]
  }
  Linear* output() override { return &head; }
  std::size_t context() const override { return kContext; }
  std::size_t vocabulary() const override { return vocabulary_; }

 private:
  Ids hashed(const Ids& ids) const {
    Shape shape = ids.shape();
    const std::size_t length = shape.back();
    shape.push_back(kLongest);
    Ids rows = Ids::from_shape(shape);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::uint64_t hash = 0;
      for (std::size_t n = 0; n < kLongest; ++n) {
        const bool before_begin = n > i % length;
        hash = splitmix64(hash +
                          (before_begin ? 0 : static_cast<std::uint64_t>(ids.data()[i - n]) + 1));
        rows.data()[i * kLongest + n] = static_cast<std::int32_t>(hash % ngrams.weight.shape()[0]);
      }
    }
    return rows;
  }

  std::size_t vocabulary_;

 public:
  Part<Embedding> ngrams;
  Part<Linear> head;
};

std::unique_ptr<TableFile> open_or_make(const std::filesystem::path& table,
                                        const Options& options) {
  // [table]
  auto file = file_exists(table)
                  ? std::make_unique<TableFile>(table)
                  : std::make_unique<TableFile>(table, TableFileOptions{.rows = options.rows,
                                                                        .width = options.width,
                                                                        .states = 1,
                                                                        .seed = 123,
                                                                        .deviation = 0.01});
  // [table]
  return file;
}

void train(const Options& options) {
  const std::string text = read_file(options.corpus);
  const auto tokenizer = CharacterTokenizer::from_text(text);
  const Split split = rowgrad::split(tokenizer.encode(text), 0.1);
  const auto loader = [](TokenSequence ids, std::size_t stride) {
    return DataLoader(TokenWindows(std::move(ids), {.context = kContext, .stride = stride}),
                      {.batch = kBatch, .shuffle = stride == 1, .seed = 123});
  };
  DataLoader training = loader(split.train, 1), validation = loader(split.validation, kContext);
  const bool resumed = file_exists(options.state());
  const auto file = open_or_make(options.table, options);
  Random random(123);
  NgramModel model(*file, tokenizer.size(), random);
  Adagrad adagrad(model.parameters(), {.learning_rate = 0.03});
  TrainingRun run({.model = model,
                   .optimizer = adagrad,
                   .loader = training,
                   .random = random,
                   .steps = options.steps});
  if (resumed) run.load_state_dict(read_safetensors(options.state()).part("run"));
  const auto save = [&] {
    Checkpoint all;
    // [checkpoint]
    file->checkpoint();
    all.put("run", run.state_dict());
    write_safetensors(options.state(), all);
    // [checkpoint]
  };
  // Before the table changes, as it can go back to its last checkpoint but one, but not to none.
  if (!resumed) save();
  for (bool has_ended = false; !has_ended;) {
    has_ended = run.train(run.steps() + options.save_every);
    validation.rewind();
    std::cout << "step " << std::setw(6) << run.steps() << "  validation loss " << std::fixed
              << std::setprecision(3) << evaluate(model, validation)->loss << "  "
              << file->rows_stored() << " rows stored" << std::endl;
    save();
  }
  struct stat status {};
  ::stat(options.table.c_str(), &status);
  std::cout << "\nOn the disk  " << static_cast<double>(status.st_blocks) * 512 / 1e6
            << " MB; more --steps go on from here\nSample       ";
  const Ids more =
      generate(model, tokenizer.encode("I had always"), {.count = 200, .temperature = 0.8}, random);
  std::cout << "I had always" << tokenizer.decode(more) << '\n';
}

void verify(const std::string& table) {
  check_runtime(file_exists(table), "there is no ", table);
  std::cout << table << ": " << TableFile(table).verify() << " rows, as they were written\n";
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("ngram_table", [&] {
    Options options;
    CommandLine line(
        "Trains a table of n-grams that is larger than memory.",
        {{"--table", &options.table, "its file; what else is saved goes to FILE.run", file_name()},
         {"--rows", &options.rows, "of a new table",
          whole_number(1, std::numeric_limits<std::int32_t>::max())},
         {"--steps", &options.steps, "to train, those of earlier starts included", whole_number(1)},
         {"--save-every", &options.save_every, "steps", whole_number(1)},
         {"--corpus", &options.corpus, "text to train on", file_name()},
         {"--verify", &options.verify, "whether the rows are still those that were written"}});
    line.parse(argc, argv);
    options.verify ? verify(options.table) : train(options);
    return 0;
  });
}
