#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/canonical_ids.hpp>
#include <rowgrad/examples/rowgrad/options/train_options.hpp>
#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

const std::vector<std::string> kLanguageModels{"next-token", "gpt"};

bool is_of_memory(const Parameter& table) {
  return table.name().starts_with("memories.") && table.name().ends_with(".table.weight");
}

// Creates an optimizer that applies weight decay to all parameters, or only to parameters with two
// or more axes. Tables of n-gram memories have their own learning rate and weight decay.
template <class Made>
std::unique_ptr<Optimizer> make(const TrainOptions& options, double learning_rate,
                                const std::vector<Parameter*>& parameters) {
  typename Made::Options made{.learning_rate = learning_rate};
  made.weight_decay = options.weight_decay;
  if constexpr (requires { made.momentum; }) made.momentum = options.momentum;
  if constexpr (requires { made.beta2; }) made.beta2 = options.beta2;
  enum { kDecayed, kOthers, kTables, kGroups };
  std::vector<typename Made::Group> groups(kGroups, {{}, made});
  groups[kOthers].options.weight_decay = 0;
  groups[kTables].options.learning_rate *= options.ngram_rate;
  groups[kTables].options.weight_decay = options.ngram_decay;
  groups[kTables].options.rows = options.ngram_updates;
  for (Parameter* parameter : parameters) {
    const bool decays = options.decays_vectors || parameter->shape().size() >= 2;
    const bool is_table = options.has_memories() && is_of_memory(*parameter);
    groups[is_table ? kTables : decays ? kDecayed : kOthers].parameters.push_back(parameter);
  }
  std::erase_if(groups, [](const auto& group) { return group.parameters.empty(); });
  return std::make_unique<Made>(groups);
}

struct OptimizerKind {
  std::unique_ptr<Optimizer> (*make)(const TrainOptions&, double learning_rate,
                                     const std::vector<Parameter*>&);
  double learning_rate;     // default, chosen for the default next-token model
  std::size_t slots;        // optimizer slots, without momentum
  double weight_decay = 0;  // default of --weight-decay
  double table_rate = 1;    // default of --ngram-rate
};
const std::map<std::string, OptimizerKind> kOptimizers{
    {"sgd", {make<SGD>, 0.3, 0}},
    {"adam", {make<Adam>, 0.001, 2, 0, 5}},
    {"adamw", {make<AdamW>, 0.001, 2, AdamWOptions().weight_decay, 5}},
    {"adagrad", {make<Adagrad>, 0.02, 1}},
    {"rmsprop", {make<RMSprop>, 0.001, 1}}};

const OptimizerKind& optimizer_of(const TrainOptions& options) {
  const auto found = kOptimizers.find(options.optimizer);
  check_argument(found != kOptimizers.end(), "--optimizer: unknown optimizer ",
                 in_quotes(options.optimizer));
  return found->second;
}

const std::vector<std::string> kSchedules{"constant",  "cosine", "linear",
                                          "one-cycle", "step",   "warmup"};

// Checks what the model would also check, so that messages name program options.
void check_gpt(const TrainOptions& options) {
  const auto& [blocks, ngrams, memory, files] = options.gpt.memories;
  check_argument(options.gpt.heads > 0 && options.gpt.width % options.gpt.heads == 0, "--width ",
                 options.gpt.width, " is not a multiple of --heads ", options.gpt.heads);
  if (!options.has_memories()) return;
  for (const std::size_t order : ngrams.orders)
    check_argument(order <= options.gpt.context, "--ngrams ", order, " exceeds --context ",
                   options.gpt.context);
  std::set<std::size_t> found;
  for (const std::size_t block : blocks)
    check_argument(block < options.gpt.layers && found.insert(block).second, "--ngram-layers ",
                   block, ": expected distinct blocks from 0 to ", options.gpt.layers - 1,
                   " (--layers ", options.gpt.layers, ")");
  constexpr std::size_t kMax = std::numeric_limits<std::int32_t>::max();
  const double rows =
      static_cast<double>(ngrams.orders.size() * ngrams.heads) * static_cast<double>(ngrams.rows);
  check_argument(rows <= kMax, "--ngram-rows ", ngrams.rows, " for each of ", ngrams.orders.size(),
                 " --ngrams and ", ngrams.heads, " --ngram-heads exceeds the limit of ", kMax,
                 " rows in a table");
}

TableFile& open_table(TableFileSet& tables, const std::string& path,
                      const TableFileOptions& options, bool resumed) {
  if (!file_exists(path)) {
    check_argument(!resumed, "the run's table file ", path, " is missing");
    return tables.make(path, options);
  }
  TableFile& table = tables.open(path);
  const Shape expected{options.rows, options.width};
  check_argument(table.shape() == expected, "--ngram-file: ", path, " has shape ",
                 bracketed(table.shape()), ", expected ", bracketed(expected));
  check_argument(table.slots() >= options.slots, "--ngram-file: ", path, " was created with ",
                 table.slots(), " optimizer slots, but --optimizer needs ", options.slots);
  check_argument(resumed || table.stored_rows() == 0, "--ngram-file: ", path,
                 " has already been trained; resume its run with --resume, or remove the file");
  return table;
}

}  // namespace

TableFileSet::~TableFileSet() {
  files_.clear();
  std::error_code ignored;
  for (const std::string& path : made_)
    for (const char* part : {"", ".undo-0"}) std::filesystem::remove(path + part, ignored);
}

TableFile& TableFileSet::open(const std::string& path) {
  return *files_.emplace_back(std::make_unique<TableFile>(path));
}

TableFile& TableFileSet::make(const std::string& path, const TableFileOptions& options) {
  files_.push_back(std::make_unique<TableFile>(path, options));
  made_.push_back(path);
  return *files_.back();
}

void TableFileSet::checkpoint() {
  for (const auto& file : files_) file->checkpoint();
}

OptionTable option_table_of(TrainOptions& o) {
  const OptionRules next_token = applies_when("--model", {"next-token"}),
                    gpt = applies_when("--model", {"gpt"}), ngrams = gpt + applies_when("--ngrams"),
                    language = applies_when("--model", kLanguageModels),
                    word_vectors = applies_when("--model", {"skip-gram", "cbow"}),
                    words = applies_when("--tokenizer", {"word", "whitespace"}) + added_later();
  const auto positions = [&](const char* name) {
    return gpt + applies_when("--positions", {name});
  };
  std::vector<std::string> optimizers;
  for (const auto& [name, kind] : kOptimizers) optimizers.push_back(name);
  GptMemories& memories = o.gpt.memories;
  const OptionTable text{
      {"--tokenizer", &o.tokenizer,
       "word, whitespace (for tokenized text), char or bpe, trained on the corpus; gpt2; or a "
       "file written by tokenize --save",
       tokenizer_choice() + common()},
      {"--vocabulary", &o.vocabulary, "vocabulary size for --tokenizer bpe",
       whole_number(1) + applies_when("--tokenizer", {"bpe"})},
      {"--min-count", &o.words.min_count,
       "occurrences in the corpus that a word needs to get an id", whole_number(1) + words},
      {"--lower", &o.words.lower, "convert words to lowercase", words},
      {"--lines", &o.lines, "put <|endoftext|> after each line, which also ends pairs of words",
       added_later()},
      {"--validation", &o.validation,
       "fraction of the corpus to hold out for validation, taken from its end",
       finite_number(0, 0.99)},
      {"--context", &o.gpt.context, "tokens per window or, for word vectors, per block",
       whole_number(1) + common()},
      {"--stride", &o.stride, "tokens between the starts of consecutive windows",
       whole_number(1) + language},
      {"--batch", &o.loader.batch, "windows or blocks per batch", whole_number(1) + common()},
      {"--shuffle", &o.loader.shuffle, "shuffle the windows or blocks in every epoch"},
      {"--draw-as-pytorch", &o.draws_as_pytorch,
       "draw random numbers in PyTorch's order, and drop incomplete batches", language}};
  const OptionTable model{
      {"--model", &o.model,
       "next-token: hidden layers over the last few tokens; gpt: a transformer; skip-gram and "
       "cbow: word vectors",
       one_of({"next-token", "gpt", "skip-gram", "cbow"}) + common()},
      {"--width", &o.gpt.width, "width of the embeddings", whole_number(1) + common()},
      {"--positions",
       choice(o.gpt.positions, {{"none", Positions::kNone},
                                {"learned", Positions::kLearned},
                                {"sinusoidal", Positions::kSinusoidal},
                                {"rotary", Positions::kRotary},
                                {"alibi", Positions::kAlibi},
                                {"t5", Positions::kT5},
                                {"shaw", Positions::kShaw}}),
       "position encoding; the last four require --model gpt", language},
      {"--dropout", &o.gpt.dropout, "dropout probability",
       finite_number(0, 0.99) + language + common()},
      {"--tie-weights", &o.gpt.tie_weights,
       "use the token table as the weight of the output layer (head)", language},
      {"--window", &o.window,
       "tokens that a next-token model sees, including the current one; for word vectors, the "
       "largest distance of a context word",
       whole_number(1) + applies_when("--model", {"next-token", "skip-gram", "cbow"})},
      {"--hidden", &o.hidden,
       "widths of a next-token model's hidden layers, for example 256,128; 0 for none",
       next_token}};
  const OptionTable sampling{
      {"--sampled-softmax", &o.sampled_softmax,
       "compare each token only with N tokens that a batch (or slice) shares, drawn in proportion "
       "to count^0.75, for large vocabularies; 0 for all. The output layer then has no bias. "
       "Evaluation uses all tokens",
       language + added_later()}};
  const OptionTable vectors{
      {"--negatives", &o.negatives, "random words to compare each word with",
       whole_number(1) + word_vectors},
      {"--shared-negatives", &o.shared_negatives,
       "compare all words of a batch (or slice) with the same N random words, weighted like "
       "--negatives; 0 to draw them for each word",
       word_vectors},
      {"--subsample", &o.subsample,
       "drop words at random if they are more frequent than this fraction of the corpus; 0 for "
       "none",
       word_vectors}};
  const OptionTable transformer{
      {"--layers", &o.gpt.layers, "number of transformer blocks in a GPT",
       whole_number(1) + gpt + common()},
      {"--heads", &o.gpt.heads, "attention heads per block in a GPT",
       whole_number(1) + gpt + common()},
      {"--bias", &o.gpt.bias, "add biases to the linear layers and norms", gpt},
      {"--qkv-bias", &o.gpt.qkv_bias, "add biases to the query, key and value projections", gpt},
      {"--gelu", choice(o.gpt.gelu, {{"tanh", Gelu::kTanh}, {"erf", Gelu::kErf}}),
       "GELU formula: tanh approximation, or exact (erf)", gpt},
      {"--norm-epsilon", &o.gpt.norm_epsilon, "epsilon of the layer norms", gpt},
      {"--initialization",
       choice(o.gpt.initialization,
              {{"pytorch", Initialization::kPyTorch}, {"gpt2", Initialization::kGpt2}}),
       "distribution of the initial weights: PyTorch's or GPT-2's", gpt},
      {"--rotary-layout",
       choice(o.gpt.rotary_layout,
              {{"halves", RotaryLayout::kHalves}, {"interleaved", RotaryLayout::kInterleaved}}),
       "column pairs to rotate: one from each half (halves), or adjacent (interleaved)",
       positions("rotary")},
      {"--rotary-base", &o.gpt.rotary_base, "base of the rotation angles",
       finite_number(1) + positions("rotary")},
      {"--t5-buckets", &o.gpt.t5_buckets, "number of distance buckets, each with its own bias",
       whole_number(1) + positions("t5")},
      {"--t5-max-distance", &o.gpt.t5_max_distance, "distances of N or more share one bucket",
       whole_number(1) + positions("t5")},
      {"--shaw-max-distance", &o.gpt.shaw_max_distance, "distances of N or more share one row",
       whole_number(1) + positions("shaw")}};
  const OptionTable tables{
      {"--ngrams", &memories.ngrams.orders, "n-gram lengths to look up, for example 2,3",
       whole_number(1, 64) + gpt},
      {"--ngram-rows", &memories.ngrams.rows,
       "rows per n-gram length and head, rounded up to a prime number", whole_number(1) + ngrams},
      {"--ngram-heads", &memories.ngrams.heads,
       "hash heads, each of which looks up one row per n-gram", whole_number(1, 65536) + ngrams},
      {"--ngram-width", &memories.memory.head_width, "width of each row", whole_number(1) + ngrams},
      {"--ngram-layers", &memories.blocks,
       "blocks preceded by a memory, counted from 0, for example 1,3", ngrams},
      {"--ngram-file", &o.ngram_file,
       "keep the table in this file; with several --ngram-layers, in FILE.BLOCK for each block",
       file_name() + ngrams},
      {"--shard-tables", &o.shard_tables, "shard the tables across the ranks of mpirun", ngrams},
      {"--ngram-rate", &o.ngram_rate,
       "learning rate of the tables, as a multiple of --learning-rate", ngrams},
      {"--ngram-decay", &o.ngram_decay, "weight decay of the tables", ngrams},
      {"--ngram-updates",
       choice(o.ngram_updates,
              {{"exact", RowUpdates::kExact}, {"touched", RowUpdates::kTouchedOnly}}),
       "exact: update all rows, like a dense optimizer; touched: update only rows with a gradient, "
       "like SparseAdam",
       ngrams},
      {"--ngram-kernel", &memories.memory.kernel, "kernel size of the memory's convolution",
       whole_number(1, 65536) + ngrams},
      {"--ngram-seed", &memories.ngrams.seed, "seed of the hash functions",
       whole_number(0, kAnyWhole) + ngrams},
      {"--ngram-fold", &o.ngram_fold, "treat tokens such as \"Apple\" and \" apple\" as one",
       ngrams},
      {"--ngram-zero-init", &memories.memory.zero_init,
       "initialize the memories so that they add nothing at first", ngrams}};
  const OptionTable training{
      {"--epochs", &o.epochs, "passes over the corpus",
       applies_when("--steps", {"0"}) + may_change() + common()},
      {"--steps", &o.steps, "length of the run in steps; 0 to use --epochs",
       may_change() + common()},
      {"--accumulate", &o.accumulate, "accumulate the gradients of N batches per step",
       whole_number(1)},
      {"--slices", &o.slices,
       "cut each batch into N slices, shared among ranks; results depend on N, not on the number "
       "of ranks",
       whole_number(1, 65536)},
      {"--optimizer", &o.optimizer, "optimization algorithm", one_of(optimizers) + common()},
      {"--learning-rate", &o.learning_rate,
       "learning rate; the default depends on --optimizer; for word vectors with sgd, the rate of "
       "each target, as in word2vec",
       may_change() + common()},
      {"--momentum", &o.momentum, "momentum of sgd and rmsprop",
       applies_when("--optimizer", {"sgd", "rmsprop"})},
      {"--beta2", &o.beta2, "decay rate of the second moment in adam and adamw",
       finite_number(0, 1) + applies_when("--optimizer", {"adam", "adamw"})},
      {"--weight-decay", &o.weight_decay, "weight decay; the default depends on --optimizer"},
      {"--weight-decay-for", choice(o.decays_vectors, {{"all", true}, {"matrices", false}}),
       "apply weight decay to all parameters, or only to matrices", applies_when("--weight-decay")},
      {"--schedule", &o.schedule,
       "learning rate schedule: cosine and linear decay to --min-lr-ratio; one-cycle rises, then "
       "falls; "
       "step divides by 10 after each third of the run; warmup rises over the first tenth",
       one_of(kSchedules) + common()},
      {"--warmup", &o.warmup, "steps over which the learning rate rises to its full value",
       applies_when("--schedule", {"constant", "warmup", "cosine", "linear", "step"})},
      {"--warmup-start", &o.warmup_start,
       "learning rate at the start of the warm-up, as a fraction of --learning-rate; 0 for 1 / "
       "(--warmup + 1)",
       finite_number(0, 1) + applies_when("--warmup")},
      {"--min-lr-ratio", &o.min_lr_ratio,
       "final learning rate of cosine and linear, as a fraction of --learning-rate",
       finite_number(0, 1) + applies_when("--schedule", {"cosine", "linear"})},
      {"--clip", &o.clip, "clip the gradients to this total norm; 0 for no clipping"},
      {"--clip-from", &o.clip_from, "first step to clip, counted from 0", applies_when("--clip")},
      {"--seed", &o.seed, "seed for weights, shuffling and dropout",
       whole_number(0, kAnyWhole) + common()},
      {"--evaluate-every", &o.evaluation.every, "evaluate every N steps, or after each epoch if 0"},
      {"--evaluate-batches", &o.evaluation.batches, "batches per evaluation; 0 for all",
       applies_when("--evaluate-every")}};
  return joined({under("Text and batches", text), under("Model", joined({model, sampling})),
                 under("Word vectors", vectors), under("GPT", transformer),
                 under("N-gram memories (GPT)", tables), under("Training", training)});
}

// nanoGPT's configuration for a CPU (github.com/karpathy/nanoGPT, README).
constexpr const char* kGptDefaults = R"({
    "context": 64, "stride": 1, "batch": 12, "width": 128, "bias": false, "initialization": "gpt2",
    "dropout": 0, "tie_weights": true, "steps": 2000, "optimizer": "adamw", "learning_rate": 1e-3,
    "beta2": 0.99, "weight_decay": 0.1, "weight_decay_for": "matrices", "schedule": "cosine",
    "warmup": 100, "min_lr_ratio": 0.1, "clip": 1, "evaluate_every": 250, "evaluate_batches": 20
})";

// The settings of fastText, but for a larger batch.
constexpr const char* kWordVectorDefaults = R"({
    "tokenizer": "word", "min_count": 5, "lower": true, "validation": 0, "context": 128, "batch": 4,
    "width": 100, "window": 5, "epochs": 5, "learning_rate": 0.05, "schedule": "linear"
})";

Json model_defaults(const std::string& model) {
  const TrainOptions options{.model = model};
  Json defaults(options.is_gpt()             ? kGptDefaults
                : options.has_word_vectors() ? kWordVectorDefaults
                                             : "{}",
                "defaults of a model");
  // In fastText, each context word gets the whole gradient of the mean, not its share.
  if (model == "cbow") defaults["learning_rate"] = 0.15;
  return defaults;
}

TrainOptions default_options(const std::string& model) {
  TrainOptions options{.model = model};
  Settings settings(option_table_of(options));
  settings.add(Source::kPreset, model_defaults(model));
  settings.fill();
  return options;
}

OptionTable table_of_model(TrainOptions& options) {
  OptionTable table = option_table_of(options);
  std::erase_if(table, [&](const Option& option) {
    return std::ranges::any_of(option.rules.applies_when, [&](const Condition& condition) {
      return condition.option == "--model" && !std::ranges::count(condition.values, options.model);
    });
  });
  return table;
}

std::string to_json(TrainOptions options) { return to_json(table_of_model(options)); }

TrainOptions train_options(const std::string& text) {
  const Json all(text, "its options");
  TrainOptions options;
  if (const Json* model = all.find("model")) options.model = model->string();
  Settings settings(table_of_model(options));
  for (const Option& option : settings.options())
    check_argument(all.find(key_of(option)) != nullptr || option.rules.added_later,
                   in_quotes(key_of(option)), " is missing");
  settings.add(Source::kSavedRun, all);
  settings.fill();
  return options;
}

void add_optimizer_presets(Settings& settings) {
  const OptimizerKind& kind = kOptimizers.at(settings["--optimizer"].string());
  settings.add(Source::kPreset, {{"learning_rate", kind.learning_rate},
                                 {"weight_decay", kind.weight_decay},
                                 {"ngram_rate", kind.table_rate}});
}

std::unique_ptr<Optimizer> TrainOptions::make_optimizer(const std::vector<Parameter*>& parameters,
                                                        const PairsPerStep& pairs) const {
  return optimizer_of(*this).make(*this, step_rate(pairs), parameters);
}

// A step x -= r * (sum of n gradients) on logistic losses with factors w is stable if
// r * n * |w|^2 / 4 < 2. Most of the n factors differ in direction, so the bound on r * n was
// measured: the Brown corpus and a short story train at 20, and the story diverges at 30. Momentum
// adds 1 / (1 - momentum) steps of each gradient.
double TrainOptions::target_rate(const PairsPerStep& pairs) const {
  constexpr double kMaxSum = 20;
  const double stable =
      learning_rate * pairs.of_row > kMaxSum ? kMaxSum / pairs.of_row : learning_rate;
  return stable * (1 - momentum);
}

double TrainOptions::step_rate(const PairsPerStep& pairs) const {
  return has_target_rate() ? target_rate(pairs) * pairs.targets : learning_rate;
}

std::vector<double> TrainOptions::base_rates(const Optimizer& of, const PairsPerStep& pairs) const {
  std::vector<double> rates(of.group_count(), step_rate(pairs));
  if (has_memories()) rates.back() *= ngram_rate;
  return rates;
}

Schedule TrainOptions::make_schedule(std::uint64_t total) const {
  check_argument(std::ranges::count(kSchedules, schedule) == 1, "--schedule: unknown schedule ",
                 in_quotes(schedule));
  if (schedule == "one-cycle") return Schedule::one_cycle({.steps = total});
  check_argument(warmup < total || warmup == 0, "--warmup ", warmup, ": expected fewer than the ",
                 total, " steps of the run");
  const std::uint64_t first = warmup == 0 && schedule == "warmup" ? (total + 9) / 10 : warmup;
  const std::uint64_t rest = std::max<std::uint64_t>(total - std::min(total, first), 1);
  const Schedule main =
      schedule == "cosine" ? Schedule::cosine({.steps = rest, .min_factor = min_lr_ratio})
      : schedule == "linear"
          ? Schedule::linear_warmup({.steps = rest, .start_factor = 1, .end_factor = min_lr_ratio})
      : schedule == "step" ? Schedule::step_decay({.every = (rest + 2) / 3})
                           : Schedule::constant();
  if (first == 0) return main;
  const double start_factor =
      warmup_start > 0 ? warmup_start : 1 / (static_cast<double>(first) + 1);
  return Schedule::linear_warmup({.steps = first, .start_factor = start_factor}).then(main);
}

NextTokenOptions TrainOptions::next_token_options(std::size_t vocabulary_size) const {
  std::vector<std::size_t> widths = hidden;
  if (widths == std::vector<std::size_t>{0}) widths.clear();
  check_argument(
      std::ranges::find(widths, 0U) == widths.end(),
      "--hidden: got a layer of width 0, expected widths above 0, or just 0 for no hidden layer");
  if (gpt.positions > Positions::kSinusoidal) {
    TrainOptions named = *this;
    check_argument(false, "--positions ",
                   text_of(value_of(*find(option_table_of(named), "--positions"))),
                   " requires --model gpt");
  }
  // A tied head multiplies its input with the token table, so both must have the same width.
  if (gpt.tie_weights && (widths.empty() ? window * gpt.width : widths.back()) != gpt.width)
    widths.push_back(gpt.width);
  return {.vocabulary = vocabulary_size,
          .context = gpt.context,
          .width = gpt.width,
          .positions = gpt.positions,
          .window = window,
          .hidden = widths,
          .dropout = gpt.dropout,
          .tie_weights = gpt.tie_weights,
          .head_bias = sampled_softmax == 0};
}

GptOptions TrainOptions::gpt_options(std::size_t vocabulary_size) const {
  GptOptions options = gpt;
  options.vocabulary = vocabulary_size;
  options.memories.memory.norm_epsilon = gpt.norm_epsilon;
  if (!has_memories()) options.memories = {};
  return options;
}

WordVectorOptions TrainOptions::word_vector_options(std::size_t vocabulary_size) const {
  return {.vocabulary = vocabulary_size,
          .width = gpt.width,
          .cbow = model == "cbow",
          .negatives = negatives};
}

std::shared_ptr<const Dataset> TrainOptions::make_examples(
    const TokenSequence& text, std::uint64_t stride_of_text,
    const std::vector<std::uint64_t>& counts, const Vocabulary& vocabulary_of_text) const {
  if (!has_word_vectors())
    return std::make_shared<TokenWindows>(
        text, WindowOptions{.context = gpt.context, .stride = stride_of_text});
  std::vector<std::int32_t> borders;
  if (const auto end = vocabulary_of_text.find_special(kEndOfText)) borders.push_back(*end);
  const std::vector<std::int32_t> left_out = vocabulary_of_text.special_ids();
  std::uint64_t words_found = 0;
  for (std::size_t id = 0; id < counts.size(); ++id)
    if (!std::ranges::count(left_out, static_cast<std::int32_t>(id))) words_found += counts[id];
  check_argument(words_found > 0, "no word occurs --min-count ", words.min_count,
                 " times in the training text; choose a lower --min-count or a longer text");
  return std::make_shared<WordPairs>(text, WordPairOptions{.block = gpt.context,
                                                           .window = window,
                                                           .subsample = subsample,
                                                           .negatives = negatives,
                                                           .shared_negatives = shared_negatives,
                                                           .cbow = model == "cbow",
                                                           .left_out = left_out,
                                                           .borders = borders,
                                                           .counts = counts});
}

bool TrainOptions::has_memories() const {
  return is_gpt() && !gpt.memories.ngrams.orders.empty() && !gpt.memories.blocks.empty();
}

std::vector<std::string> TrainOptions::table_paths(std::size_t rank) const {
  if (!has_memories() || ngram_file.empty()) return {};
  const std::string of_rank = rank == 0 ? "" : concat(".rank", rank);
  const std::vector<std::size_t>& blocks = gpt.memories.blocks;
  if (blocks.size() == 1) return {ngram_file + of_rank};
  std::vector<std::string> paths;
  for (const std::size_t block : blocks) paths.push_back(concat(ngram_file, '.', block, of_rank));
  return paths;
}

std::unique_ptr<Model> TrainOptions::make_model(const Tokenizer& tokens, Random& random,
                                                TableFileSet& tables, bool resumed,
                                                ProcessGroup* ranks,
                                                TablePlacement* placement) const {
  if (is_gpt()) check_gpt(*this);
  const double count = min_parameter_count(tokens.size(), ranks == nullptr ? 1 : ranks->size());
  const std::size_t slots = optimizer_of(*this).slots + (momentum != 0 ? 1U : 0U);
  const double needed = count * sizeof(real) * static_cast<double>(1 + slots) / 1e9;
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / 1e9;
  check_argument(needed <= memory, "the model has at least ", std::setprecision(20), count,
                 std::setprecision(6), " parameters; with --optimizer ", optimizer, " they take ",
                 needed, " GB, but the machine has ", memory, " GB of memory");
  if (has_word_vectors())
    return std::make_unique<WordVectors>(word_vector_options(tokens.size()), random);
  if (!is_gpt()) return std::make_unique<NextTokenModel>(next_token_options(tokens.size()), random);
  GptOptions options = gpt_options(tokens.size());
  auto& [blocks, ngrams, shape, files] = options.memories;
  if (has_memories() && ngram_fold) ngrams.canonical = canonical_ids(tokens);
  shape.tables = placement;
  const std::vector<std::string> paths = table_paths(ranks == nullptr ? 0 : ranks->rank());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const NgramHash hash(tokens.size(), ngrams, blocks, blocks[i]);
    files.push_back(&open_table(tables, paths[i],
                                {.rows = hash.table_rows(),
                                 .width = shape.head_width,
                                 .slots = slots,
                                 .seed = seed + blocks[i]},
                                resumed));
  }
  return std::make_unique<GptModel>(options, random);
}

double TrainOptions::min_parameter_count(std::size_t vocabulary_size, std::size_t ranks) const {
  const auto tokens = static_cast<double>(vocabulary_size);
  const auto columns = static_cast<double>(gpt.width);
  double sum = tokens * columns;
  if (has_word_vectors()) return 2 * sum;
  if (gpt.positions == Positions::kLearned) sum += static_cast<double>(gpt.context) * columns;
  if (is_gpt()) {
    sum += static_cast<double>(gpt.layers) * 12 * columns * columns;
    if (!has_memories()) return sum;
    const auto& [blocks, ngrams, memory, files] = gpt.memories;
    const double read = static_cast<double>(ngrams.orders.size() * ngrams.heads) *
                        static_cast<double>(memory.head_width);  // at each position
    const double share = shard_tables ? ranks == 0 ? 0 : 1 / static_cast<double>(ranks) : 1;
    const double table = ngram_file.empty() ? share * read * static_cast<double>(ngrams.rows) : 0;
    return sum + static_cast<double>(blocks.size()) * (table + 2 * read * columns);
  }
  const NextTokenOptions options = next_token_options(vocabulary_size);
  double read = static_cast<double>(options.window) * columns;
  for (const std::size_t next : options.hidden)
    sum += (std::exchange(read, static_cast<double>(next)) + 1) * static_cast<double>(next);
  return sum + ((options.tie_weights ? 0 : read) + (options.head_bias ? 1 : 0)) * tokens;
}

}  // namespace rowgrad
