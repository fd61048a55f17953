// A table larger than memory: a GPT that knows each run of up to six characters by a row of its
// own, among 100 million. The table is in a file, of which only touched rows take space, and a
// second start goes on where the first one ended, however that was.

#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>

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

void train(Options options) {
  const std::string text = read_file(options.corpus);
  const auto tokenizer = CharacterTokenizer::from_text(text);
  GptOptions gpt{.vocabulary = tokenizer.size(),
                 .context = 32,
                 .width = options.width,
                 .heads = 1,
                 .layers = 1,
                 .memories = {.blocks = {0},
                              .ngrams = {.orders = {1, 2, 3, 4, 5, 6}, .heads = 1},
                              .memory = {.head_width = options.width}}};
  gpt.memories.ngrams.rows = options.rows / 6;
  options.rows = NgramHash(gpt.vocabulary, gpt.memories.ngrams, {0}, 0).table_rows();
  const bool resumed = file_exists(options.state());
  const auto file = open_or_make(options.table, options);
  gpt.memories.files = {file.get()};
  Random random(123);
  GptModel model(gpt, random);
  Adagrad adagrad(model.parameters(), {.learning_rate = 0.03});
  DataLoader loader(TokenWindows(tokenizer.encode(text), {.context = 32, .stride = 1}),
                    {.batch = 32, .shuffle = true, .seed = 123});
  TrainingRun run({.model = model,
                   .optimizer = adagrad,
                   .loader = loader,
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
    std::cout << "Step " << run.steps() << ": " << file->rows_stored() << " rows\n" << std::flush;
    save();
  }
  const Ids more =
      generate(model, tokenizer.encode("I had always"), {.count = 200, .temperature = 0.8}, random);
  std::cout << "Sample I had always" << tokenizer.decode(more) << '\n';
  loader.rewind();
  std::cout << "Loss " << std::setprecision(17) << evaluate(model, loader, {.batches = 4})->loss
            << '\n';
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
         {"--rows", &options.rows, "of a new table", whole_number(6)},
         {"--steps", &options.steps, "to train, those of earlier starts included", whole_number(1)},
         {"--save-every", &options.save_every, "steps", whole_number(1)},
         {"--corpus", &options.corpus, "text to train on", file_name()},
         {"--verify", &options.verify, "whether the rows are still those that were written"}});
    line.parse(argc, argv);
    options.verify ? verify(options.table) : train(options);
    return 0;
  });
}
