// A table larger than memory: a language model that knows each run of up to n tokens by a row of
// its own, among 100 million. The table is in a file, of which only touched rows take space, and a
// second start goes on where the first one ended.

#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <limits>
#include <memory>
#include <sys/stat.h>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string table = "ngrams.table";
  std::size_t rows = 100'000'000;
  std::size_t width = 32;
  std::size_t longest = 6;  // tokens that a row stands for
  std::size_t steps = 100;
  std::size_t save_every = 25;
  std::vector<std::string> corpus;
  bool verify = false;

  std::filesystem::path state() const { return table + ".run"; }
};

constexpr std::size_t kContext = 32;
constexpr std::size_t kBatch = 32;
constexpr double kLearningRate = 0.03;

// The last 1, 2, … tokens at each place are hashed to rows, whose sum the head reads. Two runs of
// tokens may share a row: with 100 million rows, few do. (Weinberger et al. 2009, "Feature hashing
// for large scale multitask learning".)
class NgramModel : public LanguageModel {
 public:
  NgramModel(TableFile& file, std::size_t longest, std::size_t vocabulary, Random& random)
      : longest_(longest),
        vocabulary_(vocabulary),
        ngrams(*this, "ngrams", file),
        head(*this, "head", file.width(), vocabulary, random) {}

  Variable before_head(Tape& tape, const Ids& ids) override {
    const Variable rows = ngrams.forward(tape, hashed(ids));  // [..., length, longest, width]
    return sum(rows, {-2});
  }
  Linear* output() override { return &head; }

  std::size_t context() const override { return kContext; }
  std::size_t vocabulary() const override { return vocabulary_; }

 private:
  Ids hashed(const Ids& ids) const {
    Shape shape = ids.shape();
    const std::size_t length = shape.back();
    shape.push_back(longest_);
    Ids rows = Ids::from_shape(shape);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::uint64_t hash = 0;
      for (std::size_t n = 0; n < longest_; ++n) {
        const bool before_begin = n > i % length;
        hash = splitmix64(hash +
                          (before_begin ? 0 : static_cast<std::uint64_t>(ids.data()[i - n]) + 1));
        rows.data()[i * longest_ + n] = static_cast<std::int32_t>(hash % ngrams.weight.shape()[0]);
      }
    }
    return rows;
  }

  std::size_t longest_, vocabulary_;

 public:
  Part<Embedding> ngrams;
  Part<Linear> head;
};

double space_taken(const std::filesystem::path& path) {
  struct stat status {};
  ::stat(path.c_str(), &status);
  return 512.0 * static_cast<double>(status.st_blocks);
}

// Opens the table, or makes it if there is none.
std::unique_ptr<TableFile> open_table(const Options& options, bool resumed) {
  const std::filesystem::path table = options.table;
  if (!file_exists(table))
    check_argument(!resumed, table.string(), " is missing, but ", options.state().string(),
                   " is there; remove that to start again");
  // [table]
  auto file = file_exists(table)
                  ? std::make_unique<TableFile>(table)
                  : std::make_unique<TableFile>(table, TableFileOptions{.rows = options.rows,
                                                                        .width = options.width,
                                                                        .states = 1,
                                                                        .seed = 123,
                                                                        .deviation = 0.01});
  // [table]
  check_argument(resumed || file->rows_stored() == 0, table.string(), " has been trained, but ",
                 options.state().string(), " is missing; remove the table to start again");
  check_argument(file->shape() == Shape({options.rows, options.width}), table.string(),
                 " has shape ", bracketed(file->shape()), ", but --rows and --width say [",
                 options.rows, ", ", options.width, "]");
  return file;
}

void verify(const Options& options) {
  check_runtime(file_exists(options.table), "there is no ", options.table);
  const TableFile file(options.table);
  const std::uint64_t rows = file.verify();
  std::cout << options.table << ": " << rows << " rows, as they were written\n";
}

// Says how the run goes, and saves it, every few steps and at its end.
class Saves : public RunObserver {
 public:
  Saves(const Options& options, const TableFile& table, DataLoader& validation,
        std::function<void()> save)
      : options_(options), table_(table), validation_(validation), save_(std::move(save)) {}

  void after_step(const TrainingRun& run, double loss) override {
    if (run.makes_more_steps() && run.steps() % options_.save_every != 0) return;
    std::cout << "step " << std::setw(6) << run.steps() << "  training loss "
              << std::setprecision(3) << loss << "  validation loss "
              << evaluate(run.parts().model, validation_)->loss << "  " << table_.rows_stored()
              << " rows stored" << std::endl;
    save_();
  }

 private:
  const Options& options_;
  const TableFile& table_;
  DataLoader& validation_;
  std::function<void()> save_;
};

void train(const Options& options) {
  const Corpus corpus = Corpus::find(options.corpus);
  const auto tokenizer = corpus.make_tokenizer("char", 0);
  const Split split = corpus.split(*tokenizer, 0.1);
  const auto loader = [](TokenSequence ids, std::size_t stride) {
    return DataLoader(TokenWindows(std::move(ids), {.context = kContext, .stride = stride}),
                      {.batch = kBatch, .shuffle = stride == 1, .seed = 123});
  };
  DataLoader training = loader(split.train, 1), validation = loader(split.validation, kContext);
  const bool resumed = file_exists(options.state());
  const auto file = open_table(options, resumed);
  Random random(123);
  NgramModel model(*file, options.longest, tokenizer->size(), random);
  Adagrad adagrad(model.parameters(), {.learning_rate = kLearningRate});
  TrainingRun run({.model = model,
                   .optimizer = adagrad,
                   .loader = training,
                   .random = random,
                   .steps = options.steps});
  if (resumed) {
    const Checkpoint saved = read_safetensors(options.state());
    check_argument(saved.text("text") == corpus.hash(), "the table was trained on another text; ",
                   "give that with --corpus");
    check_argument(saved.count("longest") == options.longest,
                   "the table was trained with --longest ", saved.count("longest"), ", got ",
                   options.longest);
    run.load_state_dict(saved.part("run"));
  }

  std::cout << "Text   " << corpus.source() << '\n'
            << "Table  " << options.table << ", " << bracketed(file->shape()) << ", " << std::fixed
            << std::setprecision(1)
            << static_cast<double>(std::filesystem::file_size(options.table)) / 1e9
            << " GB if it were full"
            << (resumed ? concat("; goes on after step ", run.steps()) : "") << "\n\n";
  const auto save = [&] {
    Checkpoint all;
    all.put("text", corpus.hash());
    all.put("longest", options.longest);
    // [checkpoint]
    file->checkpoint();
    all.put("run", run.state_dict());
    write_safetensors(options.state(), all);
    // [checkpoint]
  };
  // Before the table changes, as it can go back to its last checkpoint but one, but not to none.
  if (!resumed) save();
  const HeldInterrupts held;
  StopsOnInterrupts interrupts;
  Saves saves(options, *file, validation, save);
  run.observe(interrupts);
  run.observe(saves);
  run.train();
  std::cout << "\nOn the disk  " << std::setprecision(1) << space_taken(options.table) / 1e6
            << " MB; more --steps go on from here\nSample       ";
  const Ids text = generate(model, tokenizer->encode("I had always"),
                            {.count = 200, .temperature = 0.8}, random);
  std::cout << "I had always" << tokenizer->decode(text) << '\n';
}

OptionTable option_table_of(Options& o) {
  return {
      {"--table", &o.table, "file of the table; what else is saved goes to FILE.run", file_name()},
      {"--rows", &o.rows, "of a new table",
       whole_number(1, std::numeric_limits<std::int32_t>::max())},
      {"--width", &o.width, "numbers in a row of a new table", whole_number(1, 65536)},
      {"--longest", &o.longest, "tokens that a row may stand for", whole_number(1, kContext)},
      {"--steps", &o.steps, "to train, those of earlier starts included", whole_number(1)},
      {"--save-every", &o.save_every, "steps", whole_number(1)},
      {"--corpus", &o.corpus, "text to train on", file_name()},
      {"--verify",
       &o.verify,
       "whether the rows of --table are still those that were written; nothing is trained",
       {},
       {.excludes = {"--rows", "--width", "--longest", "--steps", "--save-every", "--corpus"}}}};
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("ngram_table", [&] {
    Options options;
    CommandLine line("Trains a table of n-grams that is larger than memory.",
                     option_table_of(options));
    line.parse(argc, argv);
    options.verify ? verify(options) : train(options);
    return 0;
  });
}
