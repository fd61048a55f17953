// Goes on from a trained GPT: makes a classifier of it by another head, or by low-rank adapters.
//
// It trains a small GPT on a text, and then tells passages of the text from
// passages that are written backwards, or the kinds of text that --examples has.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/labelled_texts.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string corpus;
  std::string examples;
  std::string text_column = "text";
  std::string label_column = "label";
  std::uint64_t context = 64;
  std::uint64_t width = 64;
  std::uint64_t layers = 3;
  std::uint64_t steps = 500;
  std::uint64_t epochs = 4;
  std::string save_adapters;
};

struct Task {
  std::vector<std::string> labels;
  std::vector<TrainingExample> training = {};
  std::vector<TrainingExample> validation = {};
  std::size_t cut = 0;  // examples that are longer than the context
};

// Passages of a text, forwards and backwards.
std::vector<TrainingExample> passages(std::span<const std::int32_t> text, std::size_t context) {
  std::vector<TrainingExample> examples;
  for (std::size_t begin = 0; begin + context <= text.size(); begin += 12) {
    std::vector<std::int32_t> passage(text.begin() + static_cast<std::ptrdiff_t>(begin),
                                      text.begin() + static_cast<std::ptrdiff_t>(begin + context));
    examples.push_back(class_example(to_ids(passage), 0));
    std::ranges::reverse(passage);
    examples.push_back(class_example(to_ids(passage), 1));
  }
  return examples;
}

// A fifth of the examples, drawn by chance, is for validation.
Task task_of(const LabelledTexts& texts, const Tokenizer& tokenizer, std::size_t context) {
  Task task{.labels = texts.labels};
  const auto order = Random(123).permutation(static_cast<std::int64_t>(texts.texts.size()));
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [text, label] = texts.texts[static_cast<std::size_t>(order[i])];
    const Ids ids = tokenizer.encode(text);
    if (ids.size() == 0) continue;
    task.cut += ids.size() > context ? 1U : 0U;
    (i < order.size() / 5 ? task.validation : task.training)
        .push_back(class_example(ids, label, context));
  }
  return task;
}

struct Outcome {
  std::size_t trained;
  double accuracy;
  double milliseconds;  // a step
};

Outcome train_classifier(TextClassifier& classifier, const Task& task, std::uint64_t epochs,
                         double rate) {
  const std::size_t context = classifier.context();
  Random random(123);
  AdamW optimizer(classifier.parameters(), {.learning_rate = rate, .weight_decay = 0.1});
  DataLoader loader(padded_windows(task.training, {.context = context}),
                    {.batch = 16, .shuffle = true});
  DataLoader validation(padded_windows(task.validation, {.context = context}), {.batch = 64});
  TrainingRun run({.model = classifier,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .clip_norm = 1,
                   .epochs = epochs});
  const auto start = std::chrono::steady_clock::now();
  run.train();
  const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  return {classifier.trainable_parameter_count(),
          *evaluate(classifier, validation, {.accuracy = true})->accuracy,
          time.count() / static_cast<double>(run.steps())};
}

void print(const std::string& what, const Outcome& outcome) {
  std::cout << std::left << std::setw(34) << what << std::right << std::setw(9) << outcome.trained
            << std::fixed << std::setprecision(1) << std::setw(11) << 100 * outcome.accuracy << " %"
            << std::setw(9) << outcome.milliseconds << '\n'
            << std::flush;
}

void tell_two_kinds(const Options& options) {
  const DataFile story = find_corpus(options.corpus);
  check_utf8(story.source, story.contents);
  std::optional<LabelledTexts> examples;
  std::string characters = story.contents;  // all that there are
  if (!options.examples.empty()) {
    examples = read_labelled_texts(options.examples,
                                   {.text = options.text_column, .label = options.label_column});
    for (const LabelledText& each : examples->texts) characters += each.text;
  }
  const auto tokenizer = CharacterTokenizer::from_text(characters);
  const auto [training, validation] = split(tokenizer.encode(story.contents), 0.2);
  Task task;
  if (examples) {
    task = task_of(*examples, tokenizer, options.context);
  } else {
    const Ids first = training.ids();
    const Ids rest = validation.ids();
    task = {.labels = {"forwards", "backwards"},
            .training = passages({first.data(), first.size()}, options.context),
            .validation = passages({rest.data(), rest.size()}, options.context)};
  }
  check_runtime(task.labels.size() > 1, options.examples, ": all texts are of the same kind");
  check_runtime(!task.training.empty() && !task.validation.empty(), "there are ",
                task.training.size(), " texts to learn and ", task.validation.size(),
                " for validation, expected some of each");

  const GptOptions shape{.vocabulary = tokenizer.size(),
                         .context = options.context,
                         .width = options.width,
                         .heads = options.width / 16,
                         .layers = options.layers};
  Random random(123);
  GptModel pretrained(shape, random);
  AdamW optimizer(pretrained.parameters(), {.learning_rate = 2e-3});
  DataLoader loader(
      TokenWindows(training, {.context = options.context, .stride = options.context / 2}),
      {.batch = 16, .shuffle = true});
  TrainingRun run({.model = pretrained,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .clip_norm = 1,
                   .steps = options.steps});
  std::cout << "Text      " << story.source << ", the first four fifths\nGPT       "
            << pretrained.parameter_count() << " numbers, " << options.steps << " steps: loss "
            << std::flush;
  if (options.steps > 0) run.train();
  std::cout << std::fixed << std::setprecision(3) << evaluate(pretrained, loader)->loss
            << "\nKinds     ";
  for (const std::string& label : task.labels) std::cout << in_quotes(label) << ' ';
  std::cout << "\nExamples  " << task.training.size() << " to learn, " << task.validation.size()
            << " for validation, " << options.epochs << " epochs";
  if (task.cut > 0) std::cout << "; " << task.cut << " are cut at --context";
  std::cout << "\n\n"
            << "trained                             numbers   accuracy  ms/step\n";

  const auto with_copy = [&](const auto& body) {
    GptModel model(shape, Random(1));
    model.load_state_dict(pretrained.state_dict());
    Random same(123);
    body(model, same);
  };
  with_copy([&](GptModel& model, Random& draws) {
    model.freeze();
    TextClassifier classifier(model, task.labels.size(), draws);
    print("head", train_classifier(classifier, task, options.epochs, 2e-3));
  });
  with_copy([&](GptModel& model, Random& draws) {
    model.freeze();
    model.unfreeze(concat("blocks.", options.layers - 1, ".*,norm.*"));
    TextClassifier classifier(model, task.labels.size(), draws);
    print("head, norm, last block", train_classifier(classifier, task, options.epochs, 2e-3));
  });
  with_copy([&](GptModel& model, Random& draws) {
    TextClassifier classifier(model, task.labels.size(), draws);
    add_lora(classifier, "body.blocks.*,head", {.rank = 8, .alpha = 16}, draws);
    print("adapters of rank 8", train_classifier(classifier, task, options.epochs, 5e-3));
    if (!options.save_adapters.empty())
      write_safetensors(options.save_adapters, lora_state(classifier));
    merge_lora(classifier);  // an ordinary model again
  });
  with_copy([&](GptModel& model, Random& draws) {
    model.head.freeze();  // of the language model
    TextClassifier classifier(model, task.labels.size(), draws);
    print("everything", train_classifier(classifier, task, options.epochs, 5e-4));
  });
  GptModel untrained(shape, Random(1));
  untrained.freeze();
  TextClassifier classifier(untrained, task.labels.size(), random);
  print("head of an untrained GPT", train_classifier(classifier, task, options.epochs, 2e-3));
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("fine_tune", [&] {
    Options options;
    CommandLine line(
        "Makes a classifier of a trained GPT, by another head or by adapters.",
        {{"--corpus", &options.corpus, "the text that the GPT is trained on", existing_file()},
         {"--steps", &options.steps, "of the GPT", whole_number(0)},
         {"--context", &options.context, "characters of a text that are read", whole_number(2)},
         {"--width", &options.width, "of the GPT, a multiple of 16", whole_number(16)},
         {"--layers", &options.layers, "of the GPT", whole_number(1)},
         {"--examples", &options.examples,
          "texts of several kinds: a .csv or .tsv table, or a folder with a folder for each kind",
          file_name()},
         {"--text-column", &options.text_column, "of the table", {}, needs("--examples")},
         {"--label-column", &options.label_column, "of the table", {}, needs("--examples")},
         {"--epochs", &options.epochs, "of each classifier", whole_number(1)},
         {"--save-adapters", &options.save_adapters, "a .safetensors file for them", file_name()}});
    line.parse(argc, argv);
    line.check_effects();
    check_argument(options.width % 16 == 0, "--width ", options.width, " is not a multiple of 16");
    check_outputs({options.save_adapters}, {options.corpus, options.examples});
    tell_two_kinds(options);
    return 0;
  });
}
