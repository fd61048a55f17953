// Trains a GPT on Edith Wharton's The Verdict, or any other text. With --book, it is the run of
// chapter 5 of Raschka's "Build a Large Language Model (From Scratch)", number by number.

#include <cmath>
#include <iomanip>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>

#include <rowgrad/core/blas/openblas.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/progress.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/layers/gpt_model.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/training/training_run.hpp>

namespace rowgrad {
namespace {

const std::map<std::string, Positions> kPositions{
    {"none", Positions::kNone},     {"learned", Positions::kLearned},
    {"rotary", Positions::kRotary}, {"sinusoidal", Positions::kSinusoidal},
    {"alibi", Positions::kAlibi},   {"t5", Positions::kT5}};

// The defaults are nanoGPT's for a CPU, on characters.
struct Options {
  std::string corpus;
  std::string tokenizer = "char";
  std::size_t vocabulary = 512;
  std::string positions = "learned";
  GptOptions model = {.context = 64, .width = 128, .heads = 4, .layers = 4};
  std::size_t batch = 12;
  std::size_t stride = 16;
  std::size_t epochs = 10;
  std::size_t max_steps = 0;
  double learning_rate = 1e-3;
  double weight_decay = 0.1;
  double clip = 1;
  double validation = 0.1;
  std::size_t evaluate_every = 100;
  std::size_t evaluate_batches = 20;
  std::string prompt = "Every effort moves you";
  std::size_t sample = 200;
  std::uint64_t seed = 123;
  bool book = false;
};

// Chapter 5's settings; what was given on the command line stays.
void set_book(const CLI::App& app, Options& options) {
  const auto set = [&app](const char* name, auto& value, auto book) {
    if (app.count(name) == 0) value = book;
  };
  set("--tokenizer", options.tokenizer, "gpt2");
  set("--context", options.model.context, 256);
  set("--stride", options.stride, 256);
  set("--batch", options.batch, 2);
  set("--width", options.model.width, 768);
  set("--heads", options.model.heads, 12);
  set("--layers", options.model.layers, 12);
  set("--dropout", options.model.dropout, 0.1);
  set("--learning-rate", options.learning_rate, 4e-4);
  set("--clip", options.clip, 0);
  set("--evaluate-every", options.evaluate_every, 5);
  set("--evaluate-batches", options.evaluate_batches, 5);
  set("--sample", options.sample, 50);
}

// The text before and after a place; not within a character.
std::pair<std::string, std::string> split_text(const std::string& text, double validation) {
  auto place = static_cast<std::size_t>((1 - validation) * static_cast<double>(text.size()));
  while (place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80) ++place;
  return {text.substr(0, place), text.substr(place)};
}

// The mean loss of the first batches, in evaluation mode.
double mean_loss(GptModel& model, DataLoader& loader, std::size_t batches) {
  model.eval();
  double sum = 0;
  std::size_t count = 0;
  for (const Batch& batch : loader) {
    Tape tape(Tape::inference);
    sum += model.loss(tape, batch.inputs, batch.targets).item();
    if (++count == batches) break;
  }
  model.train();
  return sum / static_cast<double>(count);
}

std::string losses(const std::string& where, double training, double validation) {
  std::ostringstream line;
  line << where << std::fixed << std::setprecision(3) << "  training loss " << training
       << "  validation loss " << validation;
  return line.str();
}

void train(const Options& options) {
  const DataFile text = find_corpus(options.corpus);
  const auto tokenizer = make_tokenizer(options.tokenizer, text.contents, options.vocabulary);
  const auto [beginning, end] = split_text(text.contents, options.validation);
  const Ids training_ids = tokenizer->encode(beginning);
  const Ids validation_ids = tokenizer->encode(end);
  const Ids prompt = tokenizer->encode(options.prompt);

  Random random(options.seed);
  GptOptions sizes = options.model;
  sizes.vocabulary = tokenizer->size();
  sizes.positions = kPositions.at(options.positions);
  GptModel model(sizes, random);

  const WindowOptions cut{.context = sizes.context, .stride = options.stride};
  const TokenWindows windows(training_ids, cut);
  const DataLoaderOptions shuffled{.batch = options.batch,
                                   .shuffle = true,
                                   .seed = options.seed,
                                   .drop_last = true,
                                   .generator = &random};
  DataLoader loader(windows, shuffled);
  DataLoader for_evaluation(windows, shuffled);
  DataLoader validation(TokenWindows(validation_ids, cut),
                        {.batch = options.batch, .generator = &random});
  AdamW optimizer(model.parameters(),
                  {.learning_rate = options.learning_rate, .weight_decay = options.weight_decay});
  TrainingRun run({.model = model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .clip_norm = options.clip});

  std::cout << "Text       " << text.source << ", " << text.contents.size() << " bytes\n"
            << "Tokens     " << options.tokenizer << ", " << tokenizer->size() << " ids; "
            << training_ids.size() << " tokens to train on, " << validation_ids.size()
            << " for validation\n"
            << "Model      " << model.parameter_count() << " parameters, " << sizes.layers
            << " blocks of " << sizes.heads << " heads, width " << sizes.width << ", context "
            << sizes.context << '\n'
            << "Batches    " << loader.size() << " an epoch, each of " << options.batch
            << " windows\n"
            << "Computing  " << blas::describe() << "\n\n";

  Progress progress;
  const auto stops = [&] {
    return interrupted() || (options.max_steps > 0 && run.steps() >= options.max_steps);
  };
  const auto after_step = [&](double loss) {
    check_runtime(std::isfinite(loss), "the loss became ", loss, " at step ", run.steps(),
                  "; try a smaller --learning-rate");
    const std::size_t step = run.steps() - 1;
    const std::string where =
        concat("epoch ", run.history().size() + 1, "  step ", std::setw(4), step);
    if (step % options.evaluate_every == 0) {
      const double training = mean_loss(model, for_evaluation, options.evaluate_batches);
      const double held_back = mean_loss(model, validation, options.evaluate_batches);
      progress.clear();
      std::cout << losses(where, training, held_back) << std::endl;
    } else {
      progress.show(concat(where, "  loss ", loss, "  ", readable_count(run.tokens_per_second()),
                           " tokens/s"));
    }
    return !stops();
  };
  const auto show_sample = [&] {
    if (options.sample == 0) return;
    Random greedy(0);  // of which nothing is drawn
    const Ids ids = generate(model, prompt, {.count = options.sample, .temperature = 0}, greedy);
    progress.clear();
    std::cout << options.prompt << tokenizer->decode(ids) << '\n' << std::endl;
  };
  const HeldInterrupts held;
  while (run.history().size() < options.epochs && !stops()) {
    const bool whole = run.run_epoch(after_step);
    if (whole || !interrupted()) show_sample();
  }
  progress.clear();
}

int run_with(int argc, char** argv) {
  CLI::App app("Trains a GPT, by default a small one on the characters of The Verdict.");
  app.option_defaults()->always_capture_default();
  Options options;
  app.add_flag("--book", options.book,
               "chapter 5 of Raschka's book: GPT-2's tokens, 12 layers, 10 epochs, its numbers");
  app.add_option("--corpus", options.corpus, "text file to train on instead of The Verdict")
      ->check(file_name());
  app.add_option("--tokenizer", options.tokenizer, "what a token is")
      ->check(CLI::IsMember(kTokenizerNames));
  app.add_option("--vocabulary", options.vocabulary, "number of ids that bpe trains")
      ->check(whole_number(1));
  app.add_option("--positions", options.positions, "what tells positions apart")
      ->check(CLI::IsMember(kPositions));
  app.add_option("--context", options.model.context, "tokens in a window")->check(whole_number(1));
  app.add_option("--stride", options.stride, "tokens from one window to the next")
      ->check(whole_number(1));
  app.add_option("--batch", options.batch, "windows a step")->check(whole_number(1));
  app.add_option("--width", options.model.width, "numbers in an embedding")->check(whole_number(1));
  app.add_option("--heads", options.model.heads, "of attention")->check(whole_number(1));
  app.add_option("--layers", options.model.layers, "transformer blocks")->check(whole_number(1));
  app.add_option("--dropout", options.model.dropout, "share of numbers dropped in training")
      ->check(finite_number(0, 0.99));
  app.add_flag("--qkv-bias", options.model.qkv_bias, "query, key and value have a bias");
  app.add_flag("--tie", options.model.tie_weights, "the token table is the head's weight too");
  app.add_option("--epochs", options.epochs, "passes over the text")->check(whole_number(1));
  app.add_option("--max-steps", options.max_steps, "stop after so many steps; 0 for no limit")
      ->check(whole_number(0));
  app.add_option("--learning-rate", options.learning_rate, "of AdamW")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--weight-decay", options.weight_decay, "of AdamW, on all parameters")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--clip", options.clip, "largest norm of all gradients; 0 for no limit")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--validation", options.validation, "share of the text, at its end, held back")
      ->check(finite_number(0.001, 0.99));
  app.add_option("--evaluate-every", options.evaluate_every, "steps between two evaluations")
      ->check(whole_number(1));
  app.add_option("--evaluate-batches", options.evaluate_batches, "batches in an evaluation")
      ->check(whole_number(1));
  app.add_option("--prompt", options.prompt, "text that samples continue");
  app.add_option("--sample", options.sample,
                 "tokens after each epoch, each the likeliest; 0 for none")
      ->check(whole_number(0));
  app.add_option("--seed", options.seed, "of weights, order and dropout")
      ->check(whole_number(0, kAnyWhole));
  CLI11_PARSE(app, argc, argv);
  if (options.book) set_book(app, options);
  train(options);
  return 0;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("train_gpt", [&] { return rowgrad::run_with(argc, argv); });
}
