// Trains a GPT on Edith Wharton's The Verdict, or any other text. With --book, it is the run of
// chapter 5 or of appendix D of Raschka's "Build a Large Language Model (From Scratch)", number by
// number.

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/train_program.hpp>

namespace rowgrad {
namespace {

// nanoGPT's configuration for a CPU (github.com/karpathy/nanoGPT, README), on characters.
constexpr const char* kDefaultRun = R"({
    "context": 64, "stride": 1, "batch": 12, "width": 128, "bias": false, "start": "gpt2",
    "dropout": 0, "tie": true, "steps": 2000, "optimizer": "adamw", "learning_rate": 1e-3,
    "beta2": 0.99, "weight_decay": 0.1, "decay": "matrices", "schedule": "cosine", "warmup": 100,
    "floor": 0.1, "clip": 1, "evaluate_every": 250, "evaluate_batches": 20, "sample_every": 500
})";

// What --book and --gpt2 stand for: values of options that are not given themselves.
constexpr const char* kChapter5 = R"({
    "tokenizer": "gpt2", "context": 256, "stride": 256, "batch": 2, "one_generator": true,
    "width": 768, "heads": 12, "layers": 12, "bias": true, "start": "pytorch", "dropout": 0.1,
    "tie": false, "steps": 0, "epochs": 10, "learning_rate": 4e-4, "beta2": 0.999, "decay": "all",
    "schedule": "constant", "warmup": 0, "floor": 0, "clip": 0, "evaluate_every": 5,
    "evaluate_batches": 5, "untrained": true, "prompt": "Every effort moves you", "sample": 50,
    "sample_every": 0, "sample_epochs": true, "temperature": 0
})";

// What appendix D changes. The printed book clips from step 28 on.
constexpr const char* kAppendixD = R"({
    "epochs": 15, "learning_rate": 1e-3, "schedule": "cosine", "warmup": 27, "warmup_start": 0.01,
    "floor": 0.01, "clip": 1, "clip_from": 27, "evaluate_batches": 1, "untrained": false
})";

// For a model that can already write. Its context is that of the weights, if it is shorter, and the
// stride is the context.
constexpr const char* kGpt2 = R"({
    "tokenizer": "gpt2", "context": 256, "batch": 2, "steps": 0, "epochs": 1,
    "learning_rate": 5e-5, "warmup": 0, "evaluate_every": 0, "untrained": true,
    "prompt": "Every effort moves", "sample": 30, "sample_every": 0, "temperature": 0
})";

OptionTable own_table(TrainProgram& program) {
  return {
      {"--book", &program.book,
       "a run of \"Build a Large Language Model (From Scratch)\", and its log beside this one's; "
       "other options change it. 5: chapter 5, GPT-2's tokens and sizes, 10 epochs; d: "
       "appendix D, with warm-up, cosine decay and, from step 27 on, clipping (the printed "
       "book has --clip-from 28), 15 epochs",
       one_of({"5", "d"})},
      {"--gpt2",
       &program.gpt2,
       "folder with GPT-2's model.safetensors, whose weights to start from",
       file_name(),
       {.excludes = {"--book", "--resume"}}},
      {"--gpt2-export", &program.gpt2_export,
       "file for the trained weights as Hugging Face's GPT-2 has them", file_name()}};
}

// Later values go before earlier ones.
void take_presets(CommandLine& line, TrainProgram& program) {
  if (!program.book.empty()) line.set_if_not_given(kChapter5);
  if (program.book == "d") line.set_if_not_given(kAppendixD);
  if (!program.gpt2.empty()) line.set_if_not_given(kGpt2);
  if (program.gpt2.empty()) return;
  for (const char* name : {"--width", "--heads", "--layers", "--positions", "--tie", "--qkv-bias",
                           "--bias", "--gelu", "--norm-epsilon", "--start"})
    check_argument(!line.was_given(name), name, " follows from the weights of --gpt2");
  // Another tokenizer may have no tokens for the prompt.
  if (line.was_given("--tokenizer") && !line.was_given("--prompt")) program.prompt = "";
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("train_gpt", [&] {
    TrainProgram program{.train = {.shape = GptShape()}};
    CommandLine line(
        "Trains a GPT, by default a small one on the characters of Edith Wharton's The Verdict.",
        joined({own_table(program), option_table_of(program)}));
    line.set_if_not_given(kDefaultRun);
    line.parse(argc, argv);
    take_presets(line, program);
    complete(line, program.train);
    run_training_program(line, program);
    return 0;
  });
}
