#include <algorithm>
#include <filesystem>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/examples/rowgrad/options/train_settings.hpp>

namespace rowgrad {
namespace {

// Defaults of --gpt2, for a model that is already trained.
constexpr const char* kGpt2 = R"({
    "tokenizer": "gpt2", "context": 256, "batch": 2, "steps": 0, "epochs": 1,
    "learning_rate": 5e-5, "warmup": 0, "evaluate_every": 0, "evaluate_first": true,
    "prompt": "Every effort moves", "sample_tokens": 30, "sample_every": 0, "temperature": 0
})";

bool is_empty(const Settings& settings, const char* option) {
  return settings[option].string().empty();
}

// Adds the options in a file. Throws if the file is for another model. If the user chooses another
// optimizer, drops the file's options for the old optimizer. If a run wrote the file (--json),
// --slices becomes a preset, because the ranks determine it, and --epochs drops the file's
// --warmup, which was chosen for the run's length.
void add_file(Settings& settings, const std::string& text, const std::string& name) {
  const Json file(text, name);
  const Json* const of_run = file.find("options");
  const Json& all = of_run != nullptr ? *of_run : file;
  const Source source = of_run != nullptr ? Source::kOptionsOfRun : Source::kOptionsFile;
  const auto is_overridden = [&](const std::string& option, const Json* value) {
    return settings.is_given(option) && value != nullptr &&
           value->dump() != settings[option].dump();
  };
  const Json* const model = all.find("model");
  check_argument(!is_overridden("--model", model), "--model: got ", settings["--model"].dump(),
                 ", expected ", model == nullptr ? "" : model->dump(), ", the model in ", name);
  std::vector<std::string> dropped;
  if (is_overridden("--optimizer", all.find("optimizer")))
    dropped = {"--learning-rate", "--momentum",         "--beta2",
               "--weight-decay",  "--weight-decay-for", "--ngram-rate"};
  const Json* const steps = all.find("steps");
  if (settings.is_given("--epochs") && steps != nullptr && steps->dump() != "0") {
    dropped.emplace_back("--steps");
    if (of_run != nullptr) dropped.emplace_back("--warmup");
  }
  settings.add(source, all, name);
  if (const Json* slices = all.find("slices"); of_run != nullptr && slices != nullptr) {
    settings.add(Source::kPreset, {{"slices", slices->whole_number()}});
    dropped.emplace_back("--slices");
  }
  for (const std::string& option : dropped) settings.remove(source, option);
  settings.remove_overridden();
}

// Adds the defaults that depend on other options.
void add_dependent_presets(Settings& settings) {
  const auto preset = [&](const Json& values) { settings.add(Source::kPreset, values); };
  const auto is_zero = [&](const char* option) { return text_of(settings[option]) == "0"; };
  const std::string& optimizer = settings["--optimizer"].string();
  if (optimizer != settings.below(Source::kOptionsOfRun, "--optimizer").string())
    add_optimizer_presets(settings);
  if (settings.is_given("--epochs")) preset({{"steps", 0}, {"warmup", 0}});
  const std::string& schedule = settings["--schedule"].string();
  if (schedule != "cosine" && schedule != "linear") preset({{"min_lr_ratio", 0}});
  if (schedule == "one-cycle" || schedule == "warmup") preset({{"warmup", 0}});
  if (const std::uint64_t steps = settings["--steps"].whole_number(); steps > 0)
    preset({{"warmup", std::min(settings["--warmup"].whole_number(), steps / 10)}});
  if (is_zero("--warmup")) preset({{"warmup_start", 0}});
  if (is_zero("--clip")) preset({{"clip_from", 0}});
}

// Adds the options of the saved run, and describes which of them the user changes.
std::string add_saved_run(Settings& settings, const TrainOptions& run) {
  const Json saved(to_json(run), "saved options");
  settings.add(Source::kSavedRun, saved);
  if (settings.is_given("--epochs")) settings.add(Source::kSavedRun, {{"steps", 0}});
  TrainOptions any;
  std::string changes;
  for (const Option& option : option_table_of(any)) {
    const Json* const then = saved.find(key_of(option));
    if (then == nullptr && !settings.is_given(option.name)) continue;
    const std::string now = settings[option.name].dump(),
                      was = then == nullptr ? "no such option" : then->dump();
    if (now == was) continue;
    check_argument(option.rules.may_change, settings.named(option.name), ' ', now,
                   ": cannot change in a resumed run, which has ", was);
    changes += concat(changes.empty() ? "" : ", ", option.name, ' ', now, " instead of ", was);
  }
  return changes;
}

// Adds the defaults of --gpt2, and rejects options that the weights determine. If a tokenizer is
// given, clears the default prompt, which this tokenizer may be unable to encode.
void add_gpt2(Settings& settings) {
  for (const char* name : {"--width", "--heads", "--layers", "--positions", "--tie-weights",
                           "--qkv-bias", "--bias", "--gelu", "--norm-epsilon", "--initialization"})
    check_argument(settings.source(name) < Source::kOptionsFile, settings.named(name),
                   " cannot be used with --gpt2, whose weights determine it");
  settings.add(Source::kPreset, Json(kGpt2, "defaults of --gpt2"));
  if (settings.is_given("--tokenizer")) settings.add(Source::kPreset, {{"prompt", ""}});
}

// Checks that samples or a report use the prompt.
void check_prompt(const Settings& settings) {
  for (const char* file : {"--report", "--report-data", "--log"})
    if (!is_empty(settings, file)) return;
  const bool is_set = settings.is_given("--prompt") &&
                      settings.source("--prompt") >= settings.source("--sample-tokens");
  check_argument(!is_set || text_of(settings["--sample-tokens"]) != "0", settings.named("--prompt"),
                 " requires --sample-tokens above 0 or --report, got --sample-tokens 0");
}

}  // namespace

void complete(Settings& settings, const TrainFiles* files, std::string& changes) {
  if (files != nullptr && !is_empty(settings, "--options")) {
    const std::string& file = settings["--options"].string();
    add_file(settings, files->options_text(file), file);
  }
  if (files != nullptr) settings.check_combinations();
  // An absolute path, so that the run can be resumed from any folder.
  if (!is_empty(settings, "--ngram-file"))
    settings.add_words(settings.source("--ngram-file"), "--ngram-file",
                       {std::filesystem::absolute(settings["--ngram-file"].string())});
  const bool resumes = files != nullptr && !is_empty(settings, "--resume");
  const TrainOptions run =
      resumes ? files->saved_run(settings["--resume"].string()) : TrainOptions();
  const bool loads_gpt2 = !is_empty(settings, "--gpt2");
  if (resumes || loads_gpt2)
    settings.add(Source::kPreset, {{"model", loads_gpt2 ? "gpt" : run.model}});
  const TrainOptions kind{.model = settings["--model"].string()};
  settings.add(Source::kPreset, model_defaults(kind.model));
  if (kind.is_gpt()) settings.add(Source::kPreset, {{"sample_every", 500}});
  if (kind.has_word_vectors()) settings.add(Source::kPreset, {{"sample_tokens", 0}});
  if (loads_gpt2) add_gpt2(settings);
  if (resumes)
    changes = add_saved_run(settings, run);
  else
    add_dependent_presets(settings);
  if (!kind.has_word_vectors()) check_prompt(settings);
}

OptionTable option_table_of(TrainSettings& o) {
  const OptionRules gpt = applies_when("--model", {"gpt"}),
                    language = applies_when("--model", {"next-token", "gpt"}),
                    samples = language + applies_when("--sample-tokens");
  const OptionTable text{{"--corpus", &o.corpus,
                          "text file, or .bin files of token ids (default: The Verdict)",
                          file_name() + common()}};
  const OptionTable written{
      {"--prompt", &o.prompt, "text that samples continue (default: the start of the corpus)",
       language + common()},
      {"--sample-tokens", &o.sample.max_new_tokens, "tokens to generate after training; 0 for none",
       language + common()},
      {"--sample-every", &o.sample_every, "also generate a sample every N steps; 0 for never",
       samples},
      {"--sample-epochs", &o.sample_epochs, "also generate a sample after each epoch", samples},
      past_context_option(o.sample.past_context, samples + gpt),
      {"--temperature", &o.sample.temperature, "sampling temperature; 0 for the most likely token",
       samples},
      {"--top-k", &o.sample.top_k, "sample from the N most likely tokens; 0 for all",
       samples + applies_when("--temperature")},
      {"--evaluate-first", &o.evaluate_first,
       "print the losses on the whole corpus before training"}};
  const OptionTable files{
      {"--save", &o.save, "write a checkpoint to FILE after each epoch, on Ctrl-C and at the end",
       file_name() + common()},
      {"--save-every", &o.save_every, "also write the checkpoint every N steps; 0 for never",
       needs("--save")},
      {"--resume", &o.resume, "resume the run of this checkpoint as if it had never stopped",
       file_name() + common()},
      {"--options", &o.file, "read options from this JSON file, for example one written by --json",
       file_name() + common()},
      {"--metrics", &o.metrics, "write the losses of each epoch to this CSV file", file_name()},
      {"--json", &o.json, "write options, losses, samples and results to this JSON file",
       file_name()},
      {"--row-list", &o.row_list,
       "write each token's lookups, and how far its row moved, to this file; CSV if its name ends "
       "in .csv, otherwise tab-separated",
       file_name()},
      {"--vectors", &o.vectors,
       "write the vectors of all tokens to this file, in NumPy's format if its name ends in .npy, "
       "otherwise in word2vec's text format",
       file_name()},
      force_option(o.force)};
  const OptionTable weights{
      {"--gpt2", &o.gpt2, "start from the GPT-2 weights in FOLDER/model.safetensors",
       file_name("FOLDER") + excludes({"--resume"}) + gpt},
      {"--gpt2-export", &o.gpt2_export,
       "write the trained weights to this file, in Hugging Face's GPT-2 layout", file_name()}};
  const OptionTable process{
      {"--stop-after", &o.stop_after, "stop after step N of the run; 0 to run to the end"},
      {"--threads", &o.threads, "number of threads (default: one per processor)",
       whole_number(1, 1024)},
      {"--rank-timeout", &o.rank_timeout,
       "seconds that mpirun's ranks wait for each other before they fail", finite_number(1)}};
  return joined({under("Text and batches", text), option_table_of(o.train),
                 under("Samples", written),
                 under("Files", joined({files, option_table_of(o.report)})),
                 under("GPT-2 weights", weights), under("Process", process)});
}

}  // namespace rowgrad
