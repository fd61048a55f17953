// Goes on from a trained GPT: makes a classifier of it by another head, or by low-rank adapters.
//
// By default it trains a small GPT on a text, and then tells passages of the text from
// passages that are written backwards, or the kinds of text that --examples has. With --book it
// makes the runs of chapter 6 and appendix E of "Build a Large Language Model From Scratch"
// (Raschka 2024), which need GPT-2's weights and a collection of short messages.

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

#include <rowgrad/examples/support/book_log.hpp>
#include <rowgrad/examples/support/corpus.hpp>
#include <rowgrad/examples/support/data_files.hpp>
#include <rowgrad/examples/support/gpt2_folder.hpp>
#include <rowgrad/examples/support/output_files.hpp>
#include <rowgrad/examples/support/program.hpp>
#include <rowgrad/examples/support/spam_collection.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_options.hpp>
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
  std::string book;
  std::string gpt2;
  std::string messages;
};

struct Task {
  std::vector<std::string> labels;
  std::vector<Example> training = {};
  std::vector<Example> validation = {};
  std::size_t cut = 0;  // examples that are longer than the context
};

// Passages of a text, forwards and backwards.
std::vector<Example> passages(std::span<const std::int32_t> text, std::size_t context) {
  std::vector<Example> examples;
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

// --- The book's runs ----------------------------------------------------------------------------

// Prints the log, with the book's numbers beside it.
class BookProgress : public RunObserver {
 public:
  BookProgress(const BookLog& book, TrainingRun& run, DataLoader& training, DataLoader& validation)
      : book_(book), run_(run), training_(training), validation_(validation) {}

  void after_record(const TrainingRun&, const TrainingRecord& record) override {
    if (!record.ends_epoch()) {
      std::cout << "step " << std::setw(3) << record.steps - 1 << " loss    "
                << std::setprecision(3);
      print(record.training_loss, *record.validation_loss,
            beside(book_.losses, record.steps, book_.every, 3));
    } else if (const auto of_epoch = run_.evaluate(training_, &validation_, 5)) {
      std::cout << "epoch " << record.epoch << " accuracy" << std::setprecision(2);
      print(100 * *of_epoch->training_accuracy, 100 * *of_epoch->validation_accuracy,
            beside(book_.accuracies, record.epoch, 1, 2));
    }
  }
  void at_end(const TrainingRun& run) override {
    std::cout << compared(run.history(), book_) << std::endl;
  }

 private:
  static void print(double training, double validation, const std::string& behind) {
    std::cout << std::fixed << std::setw(7) << training << std::setw(7) << validation << behind
              << std::endl;
  }

  const BookLog& book_;
  TrainingRun& run_;
  DataLoader& training_;
  DataLoader& validation_;
};

// Padded with <|endoftext|>, behind which the class is told. The length is that of the longest, if
// it is 0.
TokenWindows windows_of(const std::vector<LabelledText>& messages, const Tokenizer& tokenizer,
                        std::int32_t padding, std::size_t& length) {
  std::vector<std::vector<std::int32_t>> all;
  std::size_t longest = 0;
  for (const LabelledText& each : messages) {
    const Ids ids = tokenizer.encode(each.text);
    all.emplace_back(ids.begin(), ids.end());
    longest = std::max(longest, ids.size());
  }
  if (length == 0) length = longest;
  std::vector<Example> examples;
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].resize(length, padding);
    examples.push_back(class_example(to_ids(all[i]), messages[i].label));
  }
  return padded_windows(examples);
}

// Adapters as in appendix E, where A is drawn as [inputs, rank], uniform in ±1/√rank.
void add_book_adapters(TextClassifier& classifier, Random& random) {
  Random others(0);  // whose draws are replaced
  add_lora(classifier, "body.blocks.*,head", {.rank = 16, .alpha = 16}, others);
  for (const auto& [name, layer] : classifier.named_layers<Linear>()) {
    if (!layer->has_lora()) continue;
    const std::size_t rank = layer->lora_a->shape()[0];
    const std::size_t inputs = layer->lora_a->shape()[1];
    const double bound = 1 / std::sqrt(static_cast<double>(rank));
    const Tensor drawn = random.uniform({inputs, rank}, -bound, bound);
    layer->lora_a->assign(Tensor(xt::transpose(drawn)));
  }
}

void repeat_the_book(const Options& options) {
  const Checkpoint weights = read_gpt2_weights(options.gpt2);  // says what to fetch
  const SpamCollection messages = read_spam_collection(options.messages);
  const auto tokenizer = make_tokenizer("gpt2", "", 0);
  const std::int32_t end = static_cast<std::int32_t>(tokenizer->size()) - 1;
  std::size_t length = 0;
  Random random(123);
  const DataLoaderOptions in_order{.batch = 8, .generator = &random};
  DataLoaderOptions shuffled = in_order;
  shuffled.shuffle = shuffled.drop_last = true;
  const auto windows = [&](const std::vector<LabelledText>& part) {
    return windows_of(part, *tokenizer, end, length);
  };
  DataLoader loader(windows(messages.training), shuffled);
  DataLoader training(loader.dataset(), shuffled);  // for evaluations
  DataLoader validation(windows(messages.validation), in_order);
  DataLoader test(windows(messages.test), in_order);

  const GptShape config = read_gpt2_config(options.gpt2);
  GptOptions shape = gpt2_options(weights, config.heads);
  shape.gelu = config.gelu == "erf" ? Gelu::kErf : Gelu::kTanh;
  shape.norm_epsilon = config.norm_epsilon;
  check_runtime(length <= shape.context, "the longest message has ", length,
                " tokens, more than the model's context of ", shape.context);
  GptModel model(shape, Random(1));
  load_gpt2_weights(model, weights);
  model.freeze();
  const BookLog book = book_log(options.book);
  const bool adapters = options.book == "e";
  if (!adapters) model.unfreeze(concat("blocks.", shape.layers - 1, ".*,norm.*"));
  TextClassifier classifier(model, 2, random);

  random = Random(123);
  const auto print_three = [&](const char* what, int digits, const auto& number,
                               const std::vector<double>& expected) {
    std::cout << std::left << std::setw(17) << what << std::right << std::fixed
              << std::setprecision(digits);
    for (DataLoader* each : {&training, &validation, &test})
      std::cout << std::setw(7) << number(*each);
    if (!expected.empty()) std::cout << "   the book's";
    for (const double each : expected) std::cout << std::setw(7) << each;
    std::cout << std::endl;
  };
  const auto accuracy = [&](std::size_t batches) {
    return [&classifier, batches](DataLoader& of) {
      return 100 * *evaluate(classifier, of, {.batches = batches, .accuracy = true})->accuracy;
    };
  };
  print_three("before  accuracy", 2, accuracy(10), book.before);
  const std::size_t numbers = classifier.parameter_count();
  if (adapters)
    add_book_adapters(classifier, random);  // who draws next
  else
    print_three(
        "before  loss", 3,
        [&](DataLoader& of) { return evaluate(classifier, of, {.batches = 5})->loss; },
        book.losses_before);
  std::cout << "training " << classifier.trainable_parameter_count() << " numbers; the model has "
            << numbers << '\n';
  random = Random(123);
  AdamW optimizer(classifier.parameters(),
                  {.learning_rate = adapters ? 8e-4 : 5e-5, .weight_decay = 0.1});
  TrainingRun run({.model = classifier,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .epochs = options.epochs,
                   .evaluation = {.every = 50,
                                  .batches = 5,
                                  .accuracy = true,
                                  .training = &training,
                                  .validation = &validation}});
  BookProgress progress(book, run, training, validation);
  run.observe(progress);
  run.train();
  print_three("at the end", 2, accuracy(0), book.after);
  if (!options.save_adapters.empty())
    write_safetensors(options.save_adapters, lora_state(classifier));
}

}  // namespace
}  // namespace rowgrad

int main(int argc, char** argv) {
  using namespace rowgrad;
  return run_program("fine_tune", [&] {
    Options options;
    CommandLine line(
        "Makes a classifier of a trained GPT, by another head or by adapters.",
        {{"--corpus",
          &options.corpus,
          "the text that the GPT is trained on",
          existing_file(),
          {.excludes = {"--book"}}},
         {"--steps", &options.steps, "of the GPT", whole_number(0), {.excludes = {"--book"}}},
         {"--context",
          &options.context,
          "characters of a text that are read",
          whole_number(2),
          {.excludes = {"--book"}}},
         {"--width",
          &options.width,
          "of the GPT, a multiple of 16",
          whole_number(16),
          {.excludes = {"--book"}}},
         {"--layers", &options.layers, "of the GPT", whole_number(1), {.excludes = {"--book"}}},
         {"--examples",
          &options.examples,
          "texts of several kinds: a .csv or .tsv table, or a folder with a folder for each kind",
          file_name(),
          {.excludes = {"--book"}}},
         {"--text-column", &options.text_column, "of the table", {}, needs("--examples")},
         {"--label-column", &options.label_column, "of the table", {}, needs("--examples")},
         {"--book",
          &options.book,
          "repeat chapter 6 or appendix E of the book",
          one_of({"6", "e"}),
          {.needs = {"--gpt2", "--messages"}}},
         {"--gpt2", &options.gpt2, "the folder with GPT-2's model.safetensors", file_name(),
          needs("--book")},
         {"--messages", &options.messages,
          "the file SMSSpamCollection; what is missing, the program says where to get", file_name(),
          needs("--book")},
         {"--epochs", &options.epochs, "of each classifier; 5 in the book", whole_number(1)},
         {"--save-adapters", &options.save_adapters, "a .safetensors file for them", file_name()}});
    line.parse(argc, argv);
    line.check_effects();
    if (!options.book.empty() && !line.was_given("--epochs")) options.epochs = 5;
    check_argument(options.book != "6" || options.save_adapters.empty(),
                   "--save-adapters has no effect with --book 6, which has none");
    check_argument(options.width % 16 == 0, "--width ", options.width, " is not a multiple of 16");
    check_outputs({options.save_adapters}, {options.corpus, options.examples, options.messages,
                                            options.gpt2 + "/model.safetensors"});
    options.book.empty() ? tell_two_kinds(options) : repeat_the_book(options);
    return 0;
  });
}
