// Trains a GPT on Edith Wharton's The Verdict, or any other text. With --book, it is the run of
// chapter 5 of Raschka's "Build a Large Language Model (From Scratch)", number by number.

#include <algorithm>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/train_program.hpp>

namespace rowgrad {
namespace {

// nanoGPT's configuration for a CPU (github.com/karpathy/nanoGPT, README), on characters.
TrainProgram defaults() {
  TrainProgram program;
  TrainOptions& train = program.train;
  train.context = 64;
  train.stride = 1;
  train.batch = 12;
  train.width = 128;
  train.dropout = 0;
  train.tie = true;
  train.steps = 2000;
  train.optimizer = "adamw";
  train.learning_rate = 1e-3;
  train.beta2 = 0.99;
  train.weight_decay = 0.1;
  train.decay = "matrices";
  train.schedule = "cosine";
  train.warmup = 100;
  train.floor = 0.1;
  train.clip = 1;
  train.evaluate_every = 250;
  train.evaluate_batches = 20;
  train.shape = GptShape{.bias = false, .start = "gpt2"};
  program.sample_every = 500;
  return program;
}

// Chapter 5's settings, where the command line has no others.
void set_book(const CLI::App& app, TrainProgram& program) {
  const auto set = [&app](const char* name, auto& value, auto book) {
    if (app.count(name) == 0) value = book;
  };
  TrainOptions& train = program.train;
  auto& shape = std::get<GptShape>(train.shape);
  set("--tokenizer", train.tokenizer, "gpt2");
  set("--context", train.context, 256);
  set("--stride", train.stride, 256);
  set("--batch", train.batch, 2);
  set("--one-generator", train.one_generator, true);
  set("--width", train.width, 768);
  set("--heads", shape.heads, 12);
  set("--layers", shape.layers, 12);
  set("--bias", shape.bias, true);
  set("--start", shape.start, "pytorch");
  set("--dropout", train.dropout, 0.1);
  set("--tie", train.tie, false);
  set("--steps", train.steps, 0);
  set("--epochs", train.epochs, 10);
  set("--learning-rate", train.learning_rate, 4e-4);
  set("--beta2", train.beta2, 0.999);
  set("--decay", train.decay, "all");
  set("--schedule", train.schedule, "constant");
  set("--warmup", train.warmup, 0);
  set("--floor", train.floor, 0);
  set("--clip", train.clip, 0);
  set("--evaluate-every", train.evaluate_every, 5);
  set("--evaluate-batches", train.evaluate_batches, 5);
  set("--untrained", program.untrained, true);
  set("--prompt", program.prompt, "Every effort moves you");
  set("--sample", program.sample, 50);
  set("--sample-every", program.sample_every, 0);
  set("--sample-epochs", program.sample_epochs, true);
  set("--temperature", program.temperature, 0);
}

// For a model that can already write; where the command line has no others.
void set_gpt2(const CLI::App& app, TrainProgram& program) {
  const auto set = [&app](const char* name, auto& value, auto gpt2) {
    if (app.count(name) == 0) value = gpt2;
  };
  for (const char* name : {"--width", "--heads", "--layers", "--positions", "--tie", "--qkv-bias",
                           "--bias", "--gelu", "--norm-epsilon", "--start"})
    check_argument(app.count(name) == 0, name, " follows from the weights of --gpt2");
  TrainOptions& train = program.train;
  set("--tokenizer", train.tokenizer, "gpt2");
  set("--context", train.context, 256);  // or that of the weights, if it is shorter
  set("--stride", train.stride, train.context);
  set("--batch", train.batch, 2);
  set("--steps", train.steps, 0);
  set("--epochs", train.epochs, 1);
  set("--learning-rate", train.learning_rate, 5e-5);
  set("--warmup", train.warmup, 0);
  set("--evaluate-every", train.evaluate_every, 0);
  set("--untrained", program.untrained, true);
  if (app.count("--tokenizer") == 0) set("--prompt", program.prompt, "Every effort moves");
  set("--sample", program.sample, 30);
  set("--sample-every", program.sample_every, 0);
  set("--temperature", program.temperature, 0);
}

// The schedule's own defaults, which depend on it and on the length of the run.
void set_schedule(const CLI::App& app, TrainOptions& train) {
  if (app.count("--floor") == 0 && train.schedule != "cosine") train.floor = 0;
  if (app.count("--warmup") > 0) return;
  const bool has_its_own = train.schedule == "one-cycle" || train.schedule == "warmup";
  train.warmup = has_its_own ? 0 : std::min(train.warmup, train.steps / 10);
}

int run_with(int argc, char** argv) {
  CLI::App app(
      "Trains a GPT, by default a small one on the characters of Edith Wharton's The Verdict.");
  app.option_defaults()->always_capture_default();
  TrainProgram program = defaults();
  bool book = false;
  app.add_flag("--book", book,
               "the run of chapter 5 of \"Build a Large Language Model (From Scratch)\": GPT-2's "
               "tokens and sizes, 10 epochs; other options change it");
  app.add_option("--gpt2", program.gpt2,
                 "folder with GPT-2's model.safetensors, whose weights to start from")
      ->check(file_name())
      ->excludes("--book");
  app.add_option("--gpt2-export", program.gpt2_export,
                 "file for the trained weights as Hugging Face's GPT-2 has them")
      ->check(file_name());
  add_program_options(app, program);
  app.get_option("--gpt2")->excludes("--resume");
  CLI11_PARSE(app, argc, argv);
  if (book) set_book(app, program);
  if (!program.gpt2.empty()) set_gpt2(app, program);
  complete(app, program.train, defaults().train.optimizer);
  // Epochs instead of the default number of steps.
  if (app.count("--epochs") > 0 && app.count("--steps") == 0) program.train.steps = 0;
  set_schedule(app, program.train);
  run_training_program(app, program);
  return 0;
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  return rowgrad::run_program("train_gpt", [&] { return rowgrad::run_with(argc, argv); });
}
