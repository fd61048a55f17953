// Learns word vectors from a text with skip-gram and negative sampling, prints the words nearest to
// a word, and writes all vectors in word2vec's text format.
//   word_vectors TEXT VECTORS WORD

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

#include <rowgrad/rowgrad.hpp>

using namespace rowgrad;

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: word_vectors TEXT VECTORS WORD\n";
    return EXIT_FAILURE;
  }
  const std::string text = read_file(argv[1]);
  // [wordvectors]
  const auto tokenizer = WordTokenizer::from_text(text, {.min_count = 2, .lower = true});
  const std::size_t words = tokenizer.size();
  const WordPairs pairs(tokenizer.encode(text), {.vocabulary = words,
                                                 .window = 5,
                                                 .subsample = 1e-3,
                                                 .negatives = 5,
                                                 .left_out = tokenizer.vocabulary().special_ids()});
  Random random(123);
  WordVectors model({.vocabulary = words, .width = 50}, random);
  SGD optimizer(model.parameters(), {.learning_rate = 50});
  DataLoader loader(pairs, {.batch = 4, .shuffle = true});
  LearningRateSchedule schedule(optimizer, Schedule::cosine({.steps = 20 * loader.batches()}));
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .schedule = &schedule,
                   .epochs = 20});
  run.train();
  // [wordvectors]
  for (const TrainingRecord& record : run.history())
    std::cout << "epoch " << record.epoch << "  loss " << record.training_loss << '\n';
  const std::string word = argv[3];
  const auto id = tokenizer.vocabulary().find(word);
  if (!id) {
    std::cerr << "the text has no word \"" << word << "\"\n";
    return EXIT_FAILURE;
  }
  std::cout << "Nearest to " << word << ":\n";
  // [nearest]
  for (const auto [row, cosine] : nearest(model.input.weight, *id, 10))
    std::cout << tokenizer.token(row) << ' ' << cosine << '\n';
  // [nearest]
  std::ofstream file(argv[2]);
  const Tensor& vectors = model.input.weight.value();
  file << vectors.shape(0) << ' ' << vectors.shape(1) << '\n';
  for (std::size_t row = 0; row < words; ++row) {
    file << tokenizer.token(static_cast<std::int32_t>(row));
    for (std::size_t i = 0; i < vectors.shape(1); ++i) file << ' ' << vectors(row, i);
    file << '\n';
  }
  return file.flush() ? EXIT_SUCCESS : EXIT_FAILURE;
}
