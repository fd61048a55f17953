// Trains text classifiers from a GPT, and classifies text with one of them.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/parallel/sharded_checkpoint.hpp>
#include <rowgrad/examples/rowgrad/options/command_line.hpp>
#include <rowgrad/examples/rowgrad/output/outputs.hpp>
#include <rowgrad/examples/rowgrad/output/progress.hpp>
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/labelled_texts.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/session/truncation.hpp>
#include <rowgrad/examples/rowgrad/subcommands.hpp>
#include <rowgrad/rowgrad.hpp>

namespace rowgrad {
namespace {

struct Options {
  std::string run;
  std::string corpus;
  std::string examples;
  LabelledTextOptions columns;
  std::string train = "each";
  std::uint64_t epochs = 4;
  std::string save;
  std::string save_adapters;
  std::string classify;
  bool force = false;
};

// A choice of parameters to train, with a learning rate.
struct TuningMethod {
  const char* name;  // value of --train; "" for a method that only --train each runs
  const char* shown;
  double learning_rate;
};
constexpr TuningMethod kMethods[] = {{"head", "head", 2e-3},
                                     {"block", "head, norm, last block", 2e-3},
                                     {"adapters", "adapters of rank 8", 5e-3},
                                     {"all", "everything", 5e-4},
                                     {"", "head of an untrained GPT", 2e-3}};

struct Task {
  std::vector<std::string> labels;
  std::vector<TrainingExample> training = {};
  std::vector<TrainingExample> validation = {};
};

// Encodes the text. Error messages name `source`.
Ids encode(const Tokenizer& tokenizer, const std::string& text, const std::string& source) {
  try {
    const Ids ids = tokenizer.encode(text);
    check_argument(ids.size() > 0, "the text encodes to no tokens");
    return ids;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat(source, ": ", error.what()));
  }
}

// Returns passages of the text, each forwards (class 0) and backwards (class 1).
std::vector<TrainingExample> passages(const Ids& text, std::size_t context) {
  std::vector<TrainingExample> examples;
  for (std::size_t begin = 0; begin + context <= text.size(); begin += 12) {
    std::vector<std::int32_t> passage(text.data() + begin, text.data() + begin + context);
    examples.push_back(classification_example(to_ids(passage), 0));
    std::ranges::reverse(passage);
    examples.push_back(classification_example(to_ids(passage), 1));
  }
  return examples;
}

Task passages_task(const Ids& text, std::size_t context) {
  const Split parts = split(text, 0.2);
  return {.labels = {"forwards", "backwards"},
          .training = passages(parts.train.ids(), context),
          .validation = passages(parts.validation.ids(), context)};
}

// Encodes labelled texts. A fifth of them, drawn at random, is for validation.
Task examples_task(const Tokenizer& tokenizer, const LabelledTexts& texts, std::size_t context) {
  Task task{.labels = texts.labels};
  const auto order = Random(123).permutation(static_cast<std::int64_t>(texts.texts.size()));
  std::size_t cut = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& [text, label, source] = texts.texts[static_cast<std::size_t>(order[i])];
    const Ids ids = encode(tokenizer, text, source);
    cut += ids.size() > context ? 1U : 0U;
    (i < order.size() / 5 ? task.validation : task.training)
        .push_back(classification_example(ids, label, context));
  }
  if (cut > 0)
    warn_of_cut(concat(cut, " of ", order.size(), " examples ", cut == 1 ? "has" : "have",
                       " more than ", context, " tokens"),
                "first", context);
  return task;
}

// Adds adapters, or freezes parameters that the method does not train.
void prepare(TextClassifier& classifier, GptModel& body, const std::string& method,
             Random& random) {
  if (method == "adapters") {
    add_lora(classifier, "body.blocks.*,head", {.rank = 8, .alpha = 16}, random);
  } else if (method == "all") {
    if (!body.options().tie_weights) body.head.freeze();  // not used by the classifier
  } else {
    body.freeze();
    if (method == "block") body.unfreeze(concat("blocks.", body.options().layers - 1, ".*,norm.*"));
  }
}

void train(TextClassifier& classifier, const Task& task, std::uint64_t epochs,
           const TuningMethod& method) {
  const std::size_t context = classifier.context();
  Random random(123);
  AdamW optimizer(classifier.parameters(),
                  {.learning_rate = method.learning_rate, .weight_decay = 0.1});
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
  std::cout << formatted("%-34s%10zu%11.1f %%%9.1f\n", method.shown,
                         classifier.trainable_parameter_count(), 100 * accuracy,
                         time.count() / static_cast<double>(run.steps()))
            << std::flush;
}

// Saves the classifier in a file that load_gpt() can also read.
void save(const std::string& path, const TextClassifier& classifier, const SavedGpt& gpt,
          const std::vector<std::string>& labels) {
  const StateDict state = classifier.state_dict();
  StateDict file;
  file.put("gpt", gpt_options_state(gpt.model->options()));
  file.put("tokenizer", gpt.tokenizer->to_json());
  file.put("model", state.part("body"));
  file.put("classifier", state.part("head"));
  file.put("labels", Json(labels).dump());
  write_safetensors(path, file);
}

// Reads the file of a GPT or of a classifier.
StateDict read_gpt_file(const std::string& path) {
  StateDict file = with_sharded_rows(read_safetensors(path), path);
  check_runtime(
      !file.part("gpt").empty(), path,
      ": not a GPT, expected a file written by train --model gpt, save_gpt() or finetune");
  check_runtime(!file.contains("format") || saved_options(file, path).table_paths().empty(), path,
                ": has tables in files (--ngram-file), which finetune does not support");
  return file;
}

// Returns the path of the run's corpus, or "" for The Verdict and if the file is not a checkpoint.
std::string text_of_run(const StateDict& file, const std::string& path) {
  if (!file.contains("format")) return "";
  const std::vector<std::string> files = saved_corpus(file, path);
  if (files.empty()) return "";
  check_runtime(!files.front().ends_with(".bin"), path, ": was trained on token ids, ",
                files.front(), "; pass a text file as --corpus, or pass --examples");
  return files.front();
}

void fine_tune(const Options& options, const StateDict& file) {
  SavedGpt gpt = load_gpt(file, options.run);
  const std::size_t context = gpt.model->context();
  Task task;
  std::string source = options.examples;
  if (options.examples.empty()) {
    const DataFile text = find_corpus(options.corpus);
    check_utf8(text.source, text.contents);
    source = text.source;
    task = passages_task(encode(*gpt.tokenizer, text.contents, source), context);
  } else {
    task = examples_task(*gpt.tokenizer, read_labelled_texts(source, options.columns), context);
  }
  check_runtime(task.labels.size() > 1, source,
                ": all examples have the same label, expected at least two labels");
  check_runtime(!task.training.empty() && !task.validation.empty(), source, ": got ",
                task.training.size(), " training and ", task.validation.size(),
                " validation examples, expected at least one of each");

  std::cout << "GPT       " << gpt.model->parameter_count() << " parameters, from " << options.run
            << "\nText      " << source << "\nLabels   ";
  for (const std::string& label : task.labels) std::cout << ' ' << in_quotes(label);
  std::cout << "\nExamples  " << task.training.size() << " to train on, " << task.validation.size()
            << " for validation, " << options.epochs << (options.epochs == 1 ? " epoch" : " epochs")
            << "\n\ntrained                           parameters   accuracy  ms/step\n";

  const StateDict weights = gpt.model->state_dict();
  for (const TuningMethod& method : kMethods) {
    const std::string name = method.name;
    if (options.train != "each" && options.train != name) continue;
    if (name.empty())
      gpt.model = std::make_unique<GptModel>(gpt.model->options(), Random(1));
    else
      gpt.model->load_state_dict(weights);
    gpt.model->unfreeze();
    Random random(123);
    TextClassifier classifier(*gpt.model, task.labels.size(), random);
    prepare(classifier, *gpt.model, name, random);
    train(classifier, task, options.epochs, method);
    if (name == "adapters") {
      if (!options.save_adapters.empty())
        write_safetensors(options.save_adapters, lora_state(classifier));
      merge_lora(classifier);  // removes the adapters
    }
    if (!options.save.empty()) save(options.save, classifier, gpt, task.labels);
  }
}

// Classifies a text, and prints the labels with their probabilities.
void classify(const Options& options, const StateDict& file) {
  const SavedGpt gpt = load_gpt(file, options.run);
  check_runtime(file.contains("labels"), options.run,
                ": is a GPT, expected a classifier written by finetune --save");
  const std::vector<std::string> labels = Json(file.string("labels"), options.run).strings();
  Random random(0);  // for weights that are overwritten
  TextClassifier classifier(*gpt.model, labels.size(), random);
  classifier.head.load_state_dict(file.part("classifier"));

  std::error_code none;  // the text may be too long for a file name
  const bool is_file = std::filesystem::exists(options.classify, none);
  const std::string text =
      is_file ? without_byte_order_mark(read_file(options.classify), options.classify)
              : options.classify;
  const Ids ids = encode(*gpt.tokenizer, text, "--classify");
  const std::size_t read = std::min(ids.size(), classifier.context());
  if (read < ids.size()) warn_of_cut(concat("the text has ", ids.size(), " tokens"), "first", read);
  const Tensor shares = classifier.probabilities({ids.data(), read});
  std::vector<std::pair<real, std::string>> found;
  for (std::size_t i = 0; i < labels.size(); ++i)
    found.emplace_back(shares.data()[i], concat(in_quotes(labels[i])));
  std::ranges::stable_sort(found, std::greater<>(), &std::pair<real, std::string>::first);
  std::cout << (is_file ? "File      " : "Text      ") << in_quotes(options.classify) << '\n';
  for (const auto& [share, label] : found)
    std::cout << formatted("%5.1f %%  ", 100 * share) << label << '\n';
}

OptionTable option_table_of(Options& o) {
  std::vector<std::string> methods;
  for (const TuningMethod& method : kMethods) methods.emplace_back(method.name);
  methods.back() = "each";
  const OptionRules table = needs("--examples"), training = excludes({"--classify"});
  return {
      {"RUN", &o.run, "GPT saved by train, or classifier saved by finetune",
       file_name("RUN") + required()},
      {"--examples", &o.examples,
       "labelled texts: a .csv or .tsv table, or a folder with one subfolder per label",
       file_name() + training},
      {"--text-column", &o.columns.text, "name of the table's text column", table},
      {"--label-column", &o.columns.label, "name of the table's label column", table},
      {"--corpus", &o.corpus,
       "text to use instead of --examples: passages are classified as forwards or backwards "
       "(default: the corpus of the run)",
       existing_file() + excludes({"--classify", "--examples"})},
      {"--train", &o.train,
       "parameters to train: the new head; block (the last block, norm and head); adapters (LoRA); "
       "all; or each choice in turn, from the same weights",
       one_of(methods) + training},
      {"--epochs", &o.epochs, "passes over the examples", whole_number(1) + training},
      {"--save", &o.save, "write the classifier to this file",
       file_name() + training + applies_when("--train", {methods.begin(), methods.end() - 1})},
      {"--save-adapters", &o.save_adapters, "write the adapters to this .safetensors file",
       file_name() + training + applies_when("--train", {"each", "adapters"})},
      {"--classify",
       &o.classify,
       "text to classify, or the name of a file that contains it",
       {"TEXT",
        [](const std::string& text) -> std::string {
          return text.empty() ? "got an empty string, expected text or a file name" : "";
        }}},
      force_option(o.force)};
}

}  // namespace

int finetune_command(int argc, const char* const* argv) {
  Options options;
  CommandLine line("rowgrad finetune",
                   "Train text classifiers from a GPT, or classify text with a saved classifier.",
                   option_table_of(options));
  line.parse(argc, argv);
  for (const char* column : {"--text-column", "--label-column"})
    check_argument(!line.was_given(column) || !std::filesystem::is_directory(options.examples),
                   column, " requires --examples with a table, got the folder ", options.examples);
  const StateDict file = read_gpt_file(options.run);
  if (options.examples.empty() && options.classify.empty() && options.corpus.empty())
    options.corpus = text_of_run(file, options.run);
  check_outputs({{"--save", options.save, kClassifierFile},
                 {"--save-adapters", options.save_adapters, kAdapterFile}},
                {options.corpus, options.examples, options.run}, options.force);
  options.classify.empty() ? fine_tune(options, file) : classify(options, file);
  return 0;
}

}  // namespace rowgrad
