// Goes on from a trained GPT: makes a classifier of texts of it, by another head or by low-rank
// adapters, and lets a classifier that was saved classify texts.
//
// The GPT is one that train saved, or a small one that is trained here first. The texts are those
// of --examples or, without it, passages of a text and the same passages backwards.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/labelled_texts.hpp>
#include <rowgrad/examples/rowgrad/session/program.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string from;
  std::string corpus;
  std::uint64_t context = 64;
  std::uint64_t width = 64;
  std::uint64_t layers = 3;
  std::uint64_t steps = 500;
  std::string examples;
  std::string text_column = "text";
  std::string label_column = "label";
  std::string train = "each";
  std::uint64_t epochs = 4;
  std::string save;
  std::string save_adapters;
  std::string classify;
  bool force = false;
};

// What is trained of a classifier, at which rate.
struct Way {
  const char* name;  // "" for one that only a comparison has
  const char* shown;
  double rate;
};
constexpr Way kWays[] = {{"head", "head", 2e-3},
                         {"block", "head, norm, last block", 2e-3},
                         {"adapters", "adapters of rank 8", 5e-3},
                         {"all", "everything", 5e-4},
                         {"", "head of an untrained GPT", 2e-3}};

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
    const auto& [text, label, source] = texts.texts[static_cast<std::size_t>(order[i])];
    const Ids ids = tokenizer.encode(text);
    check_runtime(ids.size() > 0, source, ": the text has no tokens");
    task.cut += ids.size() > context ? 1U : 0U;
    (i < order.size() / 5 ? task.validation : task.training)
        .push_back(class_example(ids, label, context));
  }
  return task;
}

Task task_of(const Split& text, std::size_t context) {
  const Ids first = text.train.ids();
  const Ids rest = text.validation.ids();
  return {.labels = {"forwards", "backwards"},
          .training = passages({first.data(), first.size()}, context),
          .validation = passages({rest.data(), rest.size()}, context)};
}

// A new GPT, trained for so many steps.
std::unique_ptr<GptModel> pretrained(const Options& options, std::size_t vocabulary,
                                     const TokenSequence& text) {
  Random random(123);
  auto model = std::make_unique<GptModel>(GptOptions{.vocabulary = vocabulary,
                                                     .context = options.context,
                                                     .width = options.width,
                                                     .heads = options.width / 16,
                                                     .layers = options.layers},
                                          random);
  AdamW optimizer(model->parameters(), {.learning_rate = 2e-3});
  DataLoader loader(TokenWindows(text, {.context = options.context, .stride = options.context / 2}),
                    {.batch = 16, .shuffle = true});
  TrainingRun run({.model = *model,
                   .optimizer = optimizer,
                   .loader = loader,
                   .random = random,
                   .clip_norm = 1,
                   .steps = options.steps});
  std::cout << "GPT       " << model->parameter_count() << " numbers, " << options.steps
            << " steps: loss " << std::flush;
  if (options.steps > 0) run.train();
  std::cout << formatted("%.3f\n", evaluate(*model, loader)->loss);
  return model;
}

// Freezes what the way does not train.
void prepare(TextClassifier& classifier, GptModel& body, const std::string& way, Random& random) {
  if (way == "adapters") {
    add_lora(classifier, "body.blocks.*,head", {.rank = 8, .alpha = 16}, random);
  } else if (way == "all") {
    if (!body.options().tie_weights) body.head.freeze();  // of the language model
  } else {
    body.freeze();
    if (way == "block") body.unfreeze(concat("blocks.", body.options().layers - 1, ".*,norm.*"));
  }
}

void train(TextClassifier& classifier, const Task& task, std::uint64_t epochs, const Way& way) {
  const std::size_t context = classifier.context();
  Random random(123);
  AdamW optimizer(classifier.parameters(), {.learning_rate = way.rate, .weight_decay = 0.1});
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
  const double accuracy = *evaluate(classifier, validation, {.accuracy = true})->accuracy;
  std::cout << formatted("%-34s%9zu%11.1f %%%9.1f\n", way.shown,
                         classifier.trainable_parameter_count(), 100 * accuracy,
                         time.count() / static_cast<double>(run.steps()))
            << std::flush;
}

// The file is one of load_gpt(), too.
void save(const std::string& path, const TextClassifier& classifier, const GptModel& body,
          const Tokenizer& tokenizer, const std::vector<std::string>& labels) {
  const Checkpoint state = classifier.state_dict();
  Checkpoint file;
  file.put("gpt", gpt_options_state(body.options()));
  file.put("tokenizer", tokenizer.to_json());
  file.put("model", state.part("body"));
  file.put("classifier", state.part("head"));
  file.put("labels", Json(labels).dump());
  write_safetensors(path, file);
}

// The file RUN. It may be one of train, of save_gpt() or of this program.
Checkpoint read_gpt_file(const std::string& path) {
  Checkpoint file = with_sharded_rows(read_safetensors(path), path);
  if (!file.contains("format")) return file;
  const TrainOptions run = saved_options(file, path);
  check_runtime(run.is_gpt(), path, ": is a run of model ", run.model, ", expected a GPT");
  check_runtime(run.table_paths().empty(), path, ": finetune takes no tables in files");
  return file;
}

// The file of the text that it was trained on; "" for The Verdict, or if that is not known.
std::string text_of_run(const Checkpoint& file, const std::string& path) {
  if (!file.contains("format")) return "";
  const std::vector<std::string> files = saved_corpus(file, path);
  if (files.empty()) return "";
  check_runtime(!files.front().ends_with(".bin"), path, ": was trained on the token ids in ",
                files.front(), "; give a text as --corpus, or --examples");
  return files.front();
}

Ids encode(const Tokenizer& tokenizer, const DataFile& text) {
  try {
    return tokenizer.encode(text.contents);
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat(text.source, ": ", error.what(),
                                    "; --corpus takes another text, and --examples others"));
  }
}

void fine_tune(const Options& options, const Checkpoint& file) {
  SavedGpt gpt = options.from.empty() ? SavedGpt() : load_gpt(file, options.from);
  std::optional<LabelledTexts> examples;
  if (!options.examples.empty())
    examples = read_labelled_texts(options.examples,
                                   {.text = options.text_column, .label = options.label_column});
  DataFile text;
  if (!gpt.model || !examples) {
    text = find_corpus(options.corpus);
    check_utf8(text.source, text.contents);
  }
  if (!gpt.model) {
    std::string characters = text.contents;  // all that there are
    if (examples)
      for (const LabelledText& each : examples->texts) characters += each.text;
    gpt.tokenizer = std::make_unique<CharacterTokenizer>(CharacterTokenizer::from_text(characters));
  }
  const std::size_t context = gpt.model ? gpt.model->context() : options.context;
  std::optional<Split> parts;
  if (!text.contents.empty()) parts = split(encode(*gpt.tokenizer, text), 0.2);
  const Task task =
      examples ? task_of(*examples, *gpt.tokenizer, context) : task_of(*parts, context);
  check_runtime(task.labels.size() > 1, options.examples, ": all texts are of the same kind");
  check_runtime(!task.training.empty() && !task.validation.empty(), "there are ",
                task.training.size(), " texts to learn and ", task.validation.size(),
                " for validation, expected some of each");

  if (!text.source.empty()) std::cout << "Text      " << text.source << ", the first four fifths\n";
  if (gpt.model)
    std::cout << "GPT       " << gpt.model->parameter_count() << " numbers, of " << options.from
              << '\n';
  else
    gpt.model = pretrained(options, gpt.tokenizer->size(), parts->train);
  std::cout << "Kinds    ";
  for (const std::string& label : task.labels) std::cout << ' ' << in_quotes(label);
  std::cout << "\nExamples  " << task.training.size() << " to learn, " << task.validation.size()
            << " for validation, " << options.epochs
            << (options.epochs == 1 ? " epoch" : " epochs");
  if (task.cut > 0) std::cout << "; " << task.cut << " are cut at " << context << " tokens";
  std::cout << "\n\ntrained                             numbers   accuracy  ms/step\n";

  const Checkpoint weights = gpt.model->state_dict();
  for (const Way& way : kWays) {
    const std::string name = way.name;
    if (options.train != "each" && options.train != name) continue;
    if (name.empty())
      gpt.model = std::make_unique<GptModel>(gpt.model->options(), Random(1));
    else
      gpt.model->load_state_dict(weights);
    gpt.model->unfreeze();
    Random random(123);
    TextClassifier classifier(*gpt.model, task.labels.size(), random);
    prepare(classifier, *gpt.model, name, random);
    train(classifier, task, options.epochs, way);
    if (name == "adapters") {
      if (!options.save_adapters.empty())
        write_safetensors(options.save_adapters, lora_state(classifier));
      merge_lora(classifier);  // an ordinary model again
    }
    if (!options.save.empty())
      save(options.save, classifier, *gpt.model, *gpt.tokenizer, task.labels);
  }
}

// Tells of which kind a text is: --classify or, if there is a file of that name, its contents.
void classify(const Options& options, const Checkpoint& file) {
  const SavedGpt gpt = load_gpt(file, options.from);
  check_runtime(file.contains("labels"), options.from, ": is a GPT, but no classifier");
  const std::vector<std::string> labels = Json(file.text("labels"), options.from).strings();
  Random random(0);  // what it draws is overwritten
  TextClassifier classifier(*gpt.model, labels.size(), random);
  classifier.head.load_state_dict(file.part("classifier"));

  std::error_code none;  // as of a text that is too long for a name
  const bool is_file = std::filesystem::exists(options.classify, none);
  const std::string text =
      is_file ? without_byte_order_mark(read_file(options.classify), options.classify)
              : options.classify;
  const Ids ids = gpt.tokenizer->encode(text);
  check_argument(ids.size() > 0, "--classify ", in_quotes(options.classify), " has no tokens");
  const std::size_t read = std::min(ids.size(), classifier.context());
  const Tensor shares = classifier.probabilities({ids.data(), read});
  std::vector<std::size_t> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::size_t i) { return shares.data()[i]; });
  std::cout << (is_file ? "File      " : "Text      ") << in_quotes(options.classify)
            << (read < ids.size() ? concat(", cut at ", read, " tokens\n") : "\n");
  for (const std::size_t i : order)
    std::cout << formatted("%5.1f %%  ", 100 * shares.data()[i]) << in_quotes(labels[i]) << '\n';
}

OptionTable option_table_of(Options& o) {
  std::vector<std::string> ways{"each"};
  for (const Way& way : kWays)
    if (*way.name != '\0') ways.emplace_back(way.name);
  const OptionRules new_gpt = excludes({"RUN"}), table = needs("--examples"),
                    trained = excludes({"--classify"});
  return {
      {"RUN", &o.from,
       "the GPT, as train saved it, or a classifier; without it, a small one is trained first",
       file_name()},
      {"--corpus", &o.corpus,
       "text that a small GPT is trained on, and whose passages are told apart; without it, that "
       "of the run of RUN, or The Verdict",
       existing_file() + trained},
      {"--steps", &o.steps, "of a small GPT", whole_number(0) + new_gpt},
      {"--context", &o.context, "characters of a text that a small GPT reads",
       whole_number(2) + new_gpt},
      {"--width", &o.width, "of a small GPT, a multiple of 16", whole_number(16) + new_gpt},
      {"--layers", &o.layers, "of a small GPT", whole_number(1) + new_gpt},
      {"--examples", &o.examples,
       "texts of several kinds: a .csv or .tsv table, or a folder with a folder for each kind",
       file_name() + trained},
      {"--text-column", &o.text_column, "of the table", table},
      {"--label-column", &o.label_column, "of the table", table},
      {"--train", &o.train,
       "the new head alone; that, the last norm and block; low-rank adapters; all; or one after "
       "another, each from the same GPT",
       one_of(ways) + trained},
      {"--epochs", &o.epochs, "of each classifier", whole_number(1) + trained},
      {"--save", &o.save, "the classifier, which RUN may be then",
       file_name() + applies_when("--train", {ways.begin() + 1, ways.end()})},
      {"--save-adapters", &o.save_adapters, "a .safetensors file for them alone",
       file_name() + applies_when("--train", {"each", "adapters"})},
      {"--classify", &o.classify, "text, or a file with one, for the classifier RUN",
       OptionRules{"TEXT",
                   [](const std::string& text) -> std::string {
                     return text.empty()
                                ? "got an empty text, expected a text or the name of a file"
                                : "";
                   }} +
           needs("RUN")},
      force_option(o.force)};
}

}  // namespace
int finetune_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line(
      "rowgrad finetune",
      "Makes a classifier of a trained GPT, by another head or by adapters, and classifies "
      "texts.",
      option_table_of(options));
  line.parse(argc, argv);
  check_argument(options.width % 16 == 0, "--width ", options.width, " is not a multiple of 16");
  check_argument(options.from.empty() || options.examples.empty() || options.corpus.empty(),
                 "--corpus is for the passages of a text, or for a small GPT, not for RUN "
                 "with --examples");
  for (const char* column : {"--text-column", "--label-column"})
    check_argument(!line.was_given(column) || !std::filesystem::is_directory(options.examples),
                   column, " is for a table, but ", options.examples, " is a folder");
  const Checkpoint file = options.from.empty() ? Checkpoint() : read_gpt_file(options.from);
  if (options.examples.empty() && options.classify.empty() && options.corpus.empty())
    options.corpus = text_of_run(file, options.from);
  check_outputs({{"--save", options.save, kClassifierFile},
                 {"--save-adapters", options.save_adapters, kAdapterFile}},
                {options.corpus, options.examples, options.from}, options.force);
  options.classify.empty() ? fine_tune(options, file) : classify(options, file);
  return 0;
}

}  // namespace rowgrad
