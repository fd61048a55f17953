#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/canonical_ids.hpp>
#include <rowgrad/examples/support/train_options.hpp>
#include <rowgrad/optim/adaptive.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

template <class Value>
using Names = std::map<std::string, Value>;

// A value by its name; saved options may have any.
template <class Value>
Value named(const char* option, const std::string& name, const Names<Value>& names) {
  const auto found = names.find(name);
  if (found != names.end()) return found->second;
  std::string expected;
  for (const auto& [known, value] : names) expected += (expected.empty() ? "" : ", ") + known;
  throw std::invalid_argument(concat(option, ' ', in_quotes(name), ": expected one of ", expected));
}

template <class Value>
Values one_of(const Names<Value>& names) {
  std::vector<std::string> list;
  for (const auto& [name, value] : names) list.push_back(name);
  return rowgrad::one_of(list);
}

const Names<Positions> kAddedPositions{{"none", Positions::kNone},
                                       {"learned", Positions::kLearned},
                                       {"sinusoidal", Positions::kSinusoidal}};
const Names<Positions> kPositions{
    {"none", Positions::kNone},     {"learned", Positions::kLearned},
    {"rotary", Positions::kRotary}, {"sinusoidal", Positions::kSinusoidal},
    {"alibi", Positions::kAlibi},   {"t5", Positions::kT5},
    {"shaw", Positions::kShaw}};
const Names<Gelu> kGelus{{"tanh", Gelu::kTanh}, {"erf", Gelu::kErf}};
const Names<Initialization> kStarts{{"pytorch", Initialization::kPyTorch},
                                    {"gpt2", Initialization::kGpt2}};
const Names<RotaryLayout> kRotaryLayouts{{"halves", RotaryLayout::kHalves},
                                         {"interleaved", RotaryLayout::kInterleaved}};

// Whether weight decay is for all parameters.
const Names<bool> kDecays{{"all", true}, {"matrices", false}};

const Names<RowUpdates> kRowUpdates{{"exact", RowUpdates::kExact},
                                    {"touched", RowUpdates::kTouchedOnly}};

bool is_of_memory(const Parameter& table) {
  return table.name().starts_with("memories.") && table.name().ends_with(".table.weight");
}

// An optimizer whose weight decay is for all parameters, or only for those of two axes and more:
// tables and matrices, but neither biases nor the weights of norms. The tables of memories have a
// rate and a decay of their own.
template <class Made>
std::unique_ptr<Optimizer> make(const TrainOptions& options,
                                const std::vector<Parameter*>& parameters) {
  typename Made::Options made{.learning_rate = options.learning_rate};
  made.weight_decay = options.weight_decay;
  if constexpr (requires { made.momentum; }) made.momentum = options.momentum;
  if constexpr (requires { made.beta2; }) made.beta2 = options.beta2;
  const bool decays_all = named("--decay", options.decay, kDecays);
  enum { kDecayed, kOthers, kTables, kGroups };
  std::vector<typename Made::Group> groups(kGroups, {{}, made});
  groups[kOthers].options.weight_decay = 0;
  const NgramShape* ngrams = options.ngrams();
  if (ngrams != nullptr) {
    groups[kTables].options.learning_rate *= ngrams->rate;
    groups[kTables].options.weight_decay = ngrams->decay;
    groups[kTables].options.rows = named("--ngram-updates", ngrams->updates, kRowUpdates);
  }
  for (Parameter* parameter : parameters) {
    const bool decays = decays_all || parameter->shape().size() >= 2;
    const bool is_table = ngrams != nullptr && is_of_memory(*parameter);
    groups[is_table ? kTables : decays ? kDecayed : kOthers].parameters.push_back(parameter);
  }
  std::erase_if(groups, [](const auto& group) { return group.parameters.empty(); });
  return std::make_unique<Made>(groups);
}

struct OptimizerKind {
  std::unique_ptr<Optimizer> (*make)(const TrainOptions&, const std::vector<Parameter*>&);
  double learning_rate;     // at which the default next-token model trains well
  std::size_t states;       // numbers that it keeps for each parameter, without momentum
  double weight_decay = 0;  // its default
  double table_rate = 1;    // default of --ngram-rate
};
const Names<OptimizerKind> kOptimizers{
    {"sgd", {make<SGD>, 0.3, 0}},
    {"adam", {make<Adam>, 0.001, 2, 0, 5}},
    {"adamw", {make<AdamW>, 0.001, 2, AdamWOptions().weight_decay, 5}},
    {"adagrad", {make<Adagrad>, 0.02, 1}},
    {"rmsprop", {make<RMSprop>, 0.001, 1}}};

const Names<Schedule (*)(std::uint64_t steps, double floor)> kSchedules{
    {"constant", [](std::uint64_t, double) { return Schedule::constant(); }},
    {"warmup", [](std::uint64_t, double) { return Schedule::constant(); }},
    {"cosine",
     [](std::uint64_t steps, double floor) {
       return Schedule::cosine({.steps = steps, .floor_factor = floor});
     }},
    {"step",
     [](std::uint64_t steps, double) { return Schedule::step_decay({.every = (steps + 2) / 3}); }},
    {"one-cycle",
     [](std::uint64_t steps, double) { return Schedule::one_cycle({.steps = steps}); }}};

OptionTable shape_table(NextTokenShape& own, TrainOptions& o) {
  return {{"--look-back", &own.look_back, "tokens that a prediction sees, the current one included",
           whole_number(1)},
          {"--hidden", &own.hidden, "widths of the hidden layers, as 256,128; 0 for none",
           whole_number(0)},
          {"--positions", &o.positions, "what tells positions apart", one_of(kAddedPositions)}};
}

OptionTable ngram_table(NgramShape& own) {
  const OptionRules rules = is_for("--ngrams");
  return {
      {"--ngrams", &own.orders, "tokens of the n-grams whose rows are looked up, as 2,3",
       whole_number(1, 64)},
      {"--ngram-rows", &own.rows, "of each head, at least: the next prime number", whole_number(1),
       rules},
      {"--ngram-heads", &own.heads, "rows that each place looks up for n-grams of each length",
       whole_number(1, 65536), rules},
      {"--ngram-width", &own.width, "numbers in a row", whole_number(1), rules},
      {"--ngram-layers", &own.layers,
       "blocks with such a memory in front of them, counted from 0, as 1,3", whole_number(0),
       rules},
      {"--ngram-file", &own.file,
       "file of the table, for one larger than memory; FILE.1, FILE.3 for several blocks. Its rows "
       "start with other random numbers",
       file_name(), rules},
      {"--ngram-rate", &own.rate,
       "learning rate of the tables, in those of the rest; 1 for other optimizers than Adam's",
       finite_number(0), rules},
      {"--ngram-decay", &own.decay, "weight decay of the tables", finite_number(0), rules},
      {"--ngram-updates", &own.updates,
       "what a step does to rows that were not looked up: what dense Adam does, or nothing, as "
       "SparseAdam",
       one_of(kRowUpdates), rules},
      {"--ngram-kernel", &own.kernel, "taps of the convolution", whole_number(1, 65536), rules},
      {"--ngram-seed", &own.seed, "of the hash", whole_number(0, kAnyWhole), rules},
      {"--ngram-fold", &own.fold, "spellings such as \"Apple\" and \" apple\" count as one token",
       on_or_off(), rules},
      {"--ngram-silent", &own.silent, "a memory adds nothing before it is trained", on_or_off(),
       rules}};
}

OptionTable shape_table(GptShape& own, TrainOptions& o) {
  const OptionRules rotary = is_for("--positions", {"rotary"});
  const OptionRules t5 = is_for("--positions", {"t5"});
  const OptionRules shaw = is_for("--positions", {"shaw"});
  const OptionTable blocks{
      {"--heads", &own.heads, "of attention", whole_number(1)},
      {"--layers", &own.layers, "transformer blocks", whole_number(1)},
      {"--positions", &o.positions, "what tells positions apart", one_of(kPositions)},
      {"--rotary-layout", &own.rotary_layout, "columns that are rotated together",
       one_of(kRotaryLayouts), rotary},
      {"--rotary-base", &own.rotary_base, "of the angles", finite_number(1), rotary},
      {"--t5-buckets", &own.t5_buckets, "of distances, each with its bias", whole_number(1), t5},
      {"--t5-max-distance", &own.t5_max_distance, "from which all share a bucket", whole_number(1),
       t5},
      {"--shaw-max-distance", &own.shaw_max_distance, "from which all share a row", whole_number(1),
       shaw},
      {"--qkv-bias", &own.qkv_bias, "query, key and value have a bias", on_or_off()},
      {"--bias", &own.bias, "the other linear layers and the norms have one", on_or_off()},
      {"--gelu", &own.gelu, "the formula", one_of(kGelus)},
      {"--norm-epsilon", &own.norm_epsilon, "of the norms", finite_number(0)},
      {"--start", &own.start, "the weights to start from: PyTorch's defaults or GPT-2's",
       one_of(kStarts)}};
  return joined({blocks, ngram_table(own.ngrams)});
}

// A run that does not use what came later is saved as before it came.
OptionTable saved_table(TrainOptions& options, bool has_ngrams, bool has_starts) {
  OptionTable table = option_table_of(options);
  std::erase_if(table, [&](const Option& each) {
    const bool is_start = each.name == "--warmup-start" || each.name == "--clip-from";
    return (each.name.starts_with("--ngram") && !has_ngrams) || (is_start && !has_starts);
  });
  return table;
}

GptMemories memories_of(const GptShape& own) {
  const NgramShape& ngrams = own.ngrams;
  return {.blocks = {ngrams.layers.begin(), ngrams.layers.end()},
          .ngrams = {.orders = {ngrams.orders.begin(), ngrams.orders.end()},
                     .heads = ngrams.heads,
                     .rows = ngrams.rows,
                     .seed = ngrams.seed},
          .memory = {.head_width = ngrams.width,
                     .kernel = ngrams.kernel,
                     .starts_silent = ngrams.silent,
                     .norm_epsilon = own.norm_epsilon}};
}

void check_ngrams(const NgramShape& ngrams, std::size_t layers, std::size_t context) {
  for (const std::uint64_t order : ngrams.orders)
    check_argument(order <= context, "--ngrams ", order, " is longer than --context ", context);
  std::set<std::uint64_t> blocks;
  for (const std::uint64_t layer : ngrams.layers)
    check_argument(layer < layers && blocks.insert(layer).second, "--ngram-layers ", layer,
                   ": expected some of the ", layers, " of --layers, counted from 0, each once");
  constexpr std::size_t kMost = std::numeric_limits<std::int32_t>::max();
  const double rows =
      static_cast<double>(ngrams.orders.size() * ngrams.heads) * static_cast<double>(ngrams.rows);
  check_argument(rows <= kMost, "--ngram-rows ", ngrams.rows, " for each of ", ngrams.orders.size(),
                 " times ", ngrams.heads, " heads are more rows than ids, ", kMost);
}

TableFile& open_table(ModelTables& tables, const std::string& path, const TableFileOptions& options,
                      bool resumed) {
  if (!file_exists(path)) {
    check_argument(!resumed, "--ngram-file: ", path, " is missing, which the run trained");
    return tables.make(path, options);
  }
  TableFile& table = tables.open(path);
  const Shape expected{options.rows, options.width};
  check_argument(table.shape() == expected, "--ngram-file: ", path, " has shape ",
                 bracketed(table.shape()), ", expected ", bracketed(expected));
  check_argument(table.states() >= options.states, "--ngram-file: ", path, " has room for ",
                 table.states(), " numbers of an optimizer beside each value, --optimizer needs ",
                 options.states);
  check_argument(resumed || table.rows_stored() == 0, "--ngram-file: ", path,
                 " has been trained; go on with --resume, or remove it to start again");
  return table;
}

const OptionRules kMayChange{.may_change = true};

}  // namespace

ModelTables::~ModelTables() {
  files_.clear();
  std::error_code ignored;
  for (const std::string& path : made_)
    for (const char* part : {"", ".undo-0"}) std::filesystem::remove(path + part, ignored);
}

TableFile& ModelTables::open(const std::string& path) {
  return *files_.emplace_back(std::make_unique<TableFile>(path));
}

TableFile& ModelTables::make(const std::string& path, const TableFileOptions& options) {
  files_.push_back(std::make_unique<TableFile>(path, options));
  made_.push_back(path);
  return *files_.back();
}

void ModelTables::checkpoint() const {
  for (const auto& file : files_) file->checkpoint();
}

OptionTable optimizer_table(TrainOptions& o) {
  return {{"--optimizer", &o.optimizer, "what updates the weights", one_of(kOptimizers)},
          {"--learning-rate", &o.learning_rate,
           "of the optimizer; another optimizer has another default", finite_number(0), kMayChange},
          {"--momentum", &o.momentum, "of sgd or rmsprop", finite_number(0),
           is_for("--optimizer", {"sgd", "rmsprop"})},
          {"--beta2", &o.beta2, "of adam and adamw: decay of the mean of squares",
           finite_number(0, 1), is_for("--optimizer", {"adam", "adamw"})},
          {"--weight-decay", &o.weight_decay,
           "of the optimizer; another optimizer has another default", finite_number(0)}};
}

OptionTable option_table_of(TrainOptions& o) {
  const OptionTable text{
      {"--tokenizer", &o.tokenizer, "what a token is; or the JSON file of tokenize --save",
       tokenizer_choice()},
      {"--vocabulary", &o.vocabulary, "number of ids that bpe trains", whole_number(1),
       is_for("--tokenizer", {"bpe"})},
      {"--validation", &o.validation, "share of the text, at its end, kept for validation",
       finite_number(0, 0.99)},
      {"--context", &o.context, "tokens in a window", whole_number(1)},
      {"--stride", &o.stride, "tokens from one window to the next", whole_number(1)},
      {"--batch", &o.batch, "windows in a batch", whole_number(1)},
      {"--shuffle", &o.shuffle, "windows in a new order each epoch", on_or_off()},
      {"--one-generator", &o.one_generator,
       "weights, order and dropout are drawn from one generator as PyTorch does, and an epoch "
       "drops the windows that do not fill a batch",
       on_or_off()},
      {"--width", &o.width, "numbers in an embedding", whole_number(1)}};
  const OptionTable shape = std::visit([&](auto& own) { return shape_table(own, o); }, o.shape);
  const bool gpt = std::holds_alternative<GptShape>(o.shape);
  const OptionTable training{
      {"--dropout", &o.dropout, "share of hidden numbers dropped in training",
       finite_number(0, 0.99)},
      {"--tie", &o.tie,
       std::string("the token table is the head's weight too") +
           (gpt ? "" : "; if need be, a hidden layer of its width comes last"),
       on_or_off()},
      {"--epochs",
       &o.epochs,
       "passes over the text",
       whole_number(0),
       {.is_for = {{"--steps", {"0"}}}, .may_change = true}},
      {"--steps", &o.steps, "length of the run instead of epochs; 0 for epochs", whole_number(0),
       kMayChange},
      {"--accumulate", &o.accumulate, "batches whose gradients make up a step", whole_number(1)},
      {"--shards", &o.shards,
       "parts of a batch, each with a gradient and random numbers of its own: as many as there are "
       "ranks of mpirun, or more, which then do not change the result",
       whole_number(1, 65536)}};
  const OptionTable schedule{
      {"--decay", &o.decay, "the parameters that weight decay is for", one_of(kDecays),
       is_for("--weight-decay")},
      {"--schedule", &o.schedule,
       "of the learning rate, over the whole run: warmup rises over a tenth of it, cosine falls to "
       "--floor, step falls to a tenth at each third",
       one_of(kSchedules)},
      {"--warmup", &o.warmup,
       "steps over which the rate first rises in a line, before the schedule", whole_number(0),
       is_for("--schedule", {"constant", "warmup", "cosine", "step"})},
      {"--warmup-start", &o.warmup_start,
       "share of the learning rate at which that begins; 0 for a step's share of the rise",
       finite_number(0, 1), is_for("--warmup")},
      {"--floor", &o.floor, "share of the learning rate at which cosine ends", finite_number(0, 1),
       is_for("--schedule", {"cosine"})},
      {"--clip", &o.clip,
       "largest norm of all gradients together, scaled down to it; 0 for no limit",
       finite_number(0)},
      {"--clip-from", &o.clip_from, "the first step that is clipped, counted from 0",
       whole_number(0), is_for("--clip")},
      {"--seed", &o.seed, "of weights, order and dropout", whole_number(0, kAnyWhole)},
      {"--evaluate-every", &o.evaluate_every,
       "losses after the first step and every so many steps; 0 for after each epoch",
       whole_number(0)},
      {"--evaluate-batches", &o.evaluate_batches, "batches in each of these evaluations; 0 for all",
       whole_number(0), is_for("--evaluate-every")}};
  return joined({text, shape, training, optimizer_table(o), schedule});
}

std::string to_json(TrainOptions options) {
  const bool gpt = std::holds_alternative<GptShape>(options.shape);
  const bool has_starts = options.warmup_start > 0 || options.clip_from > 0;
  return to_json(saved_table(options, options.ngrams() != nullptr, has_starts),
                 {{"model", gpt ? "gpt" : "next-token"}});
}

TrainOptions train_options(const std::string& text) {
  const Json all(text, "its options");
  const Json* model = all.find("model");
  TrainOptions options;
  if (model != nullptr && model->string() == "gpt") options.shape = GptShape();
  from_json(saved_table(options, all.find("ngrams") != nullptr, all.find("clip_from") != nullptr),
            text);
  return options;
}

std::unique_ptr<Optimizer> TrainOptions::make_optimizer(
    const std::vector<Parameter*>& parameters) const {
  return named("--optimizer", optimizer, kOptimizers).make(*this, parameters);
}

std::vector<double> TrainOptions::base_rates(const Optimizer& of) const {
  std::vector<double> rates(of.group_count(), learning_rate);
  if (ngrams() != nullptr) rates.back() *= ngrams()->rate;
  return rates;
}

Schedule TrainOptions::make_schedule(std::uint64_t total) const {
  const auto make = named("--schedule", schedule, kSchedules);
  if (schedule == "one-cycle") return make(total, floor);
  check_argument(warmup < total || warmup == 0, "--warmup ", warmup,
                 " is not shorter than the run of ", total, " steps");
  const std::uint64_t first = warmup == 0 && schedule == "warmup" ? (total + 9) / 10 : warmup;
  const std::uint64_t rest = std::max<std::uint64_t>(total - std::min(total, first), 1);
  const Schedule main = make(rest, floor);
  if (first == 0) return main;
  const double start_factor =
      warmup_start > 0 ? warmup_start : 1 / (static_cast<double>(first) + 1);
  return Schedule::linear_warmup({.steps = first, .start_factor = start_factor}).then(main);
}

NextTokenOptions TrainOptions::next_token(const NextTokenShape& own,
                                          std::size_t vocabulary_size) const {
  std::vector<std::size_t> widths;
  if (own.hidden != std::vector<std::uint64_t>{0})
    widths.assign(own.hidden.begin(), own.hidden.end());
  check_argument(std::find(widths.begin(), widths.end(), 0U) == widths.end(),
                 "--hidden: a layer has width 0; 0 alone stands for no hidden layer");
  // A tied head compares its inputs with embeddings, so they must have the same width.
  if (tie && (widths.empty() ? own.look_back * width : widths.back()) != width)
    widths.push_back(width);
  return {.vocabulary = vocabulary_size,
          .context = context,
          .width = width,
          .positions = named("--positions", positions, kAddedPositions),
          .look_back = own.look_back,
          .hidden = widths,
          .dropout = dropout,
          .tie_weights = tie};
}

GptOptions TrainOptions::gpt(const GptShape& own, std::size_t vocabulary_size) const {
  return {.vocabulary = vocabulary_size,
          .context = context,
          .width = width,
          .heads = own.heads,
          .layers = own.layers,
          .positions = named("--positions", positions, kPositions),
          .dropout = dropout,
          .qkv_bias = own.qkv_bias,
          .bias = own.bias,
          .tie_weights = tie,
          .gelu = named("--gelu", own.gelu, kGelus),
          .norm_epsilon = own.norm_epsilon,
          .initialization = named("--start", own.start, kStarts),
          .rotary_layout = named("--rotary-layout", own.rotary_layout, kRotaryLayouts),
          .rotary_base = own.rotary_base,
          .t5_buckets = own.t5_buckets,
          .t5_max_distance = own.t5_max_distance,
          .shaw_max_distance = own.shaw_max_distance,
          .memories = ngrams() == nullptr ? GptMemories() : memories_of(own)};
}

const NgramShape* TrainOptions::ngrams() const {
  const auto* gpt = std::get_if<GptShape>(&shape);
  return gpt == nullptr || gpt->ngrams.orders.empty() || gpt->ngrams.layers.empty() ? nullptr
                                                                                    : &gpt->ngrams;
}

std::vector<std::string> TrainOptions::table_paths(std::size_t rank) const {
  const NgramShape* own = ngrams();
  if (own == nullptr || own->file.empty()) return {};
  const std::string of_rank = rank == 0 ? "" : concat(".rank", rank);
  if (own->layers.size() == 1) return {own->file + of_rank};
  std::vector<std::string> paths;
  for (const std::uint64_t layer : own->layers)
    paths.push_back(concat(own->file, '.', layer, of_rank));
  return paths;
}

std::unique_ptr<LanguageModel> TrainOptions::make_model(const Tokenizer& tokens, Random& random,
                                                        ModelTables& tables, bool resumed,
                                                        std::size_t rank) const {
  const auto* own = std::get_if<GptShape>(&shape);
  if (ngrams() != nullptr) check_ngrams(own->ngrams, own->layers, context);
  const double numbers = least_numbers(tokens.size());
  const std::size_t states =
      named("--optimizer", optimizer, kOptimizers).states + (momentum != 0 ? 1U : 0U);
  const double needed = numbers * sizeof(real) * static_cast<double>(1 + states) / 1e9;
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / 1e9;
  check_argument(needed <= memory, "the model has at least ", numbers, " parameters, for which ",
                 optimizer, " needs ", needed, " GB, but the machine has ", memory,
                 " GB of memory");
  if (own == nullptr)
    return std::make_unique<NextTokenModel>(
        next_token(std::get<NextTokenShape>(shape), tokens.size()), random);
  GptOptions options = gpt(*own, tokens.size());
  GptMemories& memories = options.memories;
  if (!memories.blocks.empty() && own->ngrams.fold)
    memories.ngrams.canonical = canonical_ids(tokens);
  const std::vector<std::string> paths = table_paths(rank);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const NgramHash hash(tokens.size(), memories.ngrams, memories.blocks, memories.blocks[i]);
    memories.files.push_back(&open_table(tables, paths[i],
                                         {.rows = hash.table_rows(),
                                          .width = own->ngrams.width,
                                          .states = states,
                                          .seed = seed + memories.blocks[i]},
                                         resumed));
  }
  return std::make_unique<GptModel>(options, random);
}

double TrainOptions::least_numbers(std::size_t vocabulary_size) const {
  const auto tokens = static_cast<double>(vocabulary_size);
  const auto columns = static_cast<double>(width);
  double sum = tokens * columns;
  if (positions == "learned") sum += static_cast<double>(context) * columns;
  if (const auto* own = std::get_if<GptShape>(&shape)) {
    sum += static_cast<double>(own->layers) * 12 * columns * columns;
    if (ngrams() == nullptr) return sum;
    const NgramShape& memory = own->ngrams;
    const double read = static_cast<double>(memory.orders.size() * memory.heads) *
                        static_cast<double>(memory.width);  // by each place
    const double table = memory.file.empty() ? read * static_cast<double>(memory.rows) : 0;
    return sum + static_cast<double>(memory.layers.size()) * (table + 2 * read * columns);
  }
  const NextTokenOptions options = next_token(std::get<NextTokenShape>(shape), vocabulary_size);
  double read = static_cast<double>(options.look_back) * columns;
  for (const std::size_t next : options.hidden)
    sum += (std::exchange(read, static_cast<double>(next)) + 1) * static_cast<double>(next);
  return sum + (tie ? tokens : (read + 1) * tokens);
}

void complete(const CommandLine& line, TrainOptions& options) {
  const auto set = [&line](const char* name, auto& value, auto to) {
    if (!line.was_given(name)) value = to;
  };
  if (line.was_changed("--optimizer")) {
    const OptimizerKind& kind = kOptimizers.at(options.optimizer);
    set("--learning-rate", options.learning_rate, kind.learning_rate);
    set("--weight-decay", options.weight_decay, kind.weight_decay);
    if (auto* gpt = std::get_if<GptShape>(&options.shape))
      set("--ngram-rate", gpt->ngrams.rate, kind.table_rate);
  }
  if (line.was_given("--epochs")) {
    set("--steps", options.steps, 0U);
    set("--warmup", options.warmup, 0U);
  }
  if (options.schedule != "cosine") set("--floor", options.floor, 0.0);
  const bool has_its_own = options.schedule == "one-cycle" || options.schedule == "warmup";
  if (has_its_own) set("--warmup", options.warmup, 0U);
  if (options.steps > 0)
    set("--warmup", options.warmup, std::min(options.warmup, options.steps / 10));
  if (options.warmup == 0) set("--warmup-start", options.warmup_start, 0.0);
  if (options.clip == 0) set("--clip-from", options.clip_from, 0U);
}

TrainOptions resumed_options(const CommandLine& line, TrainOptions given,
                             const TrainOptions& saved) {
  TrainOptions resumed = saved;
  const OptionTable table = option_table_of(resumed);
  for (const Option& wanted : option_table_of(given)) {
    if (!line.was_given(wanted.name)) continue;
    const Option* present = find(table, wanted.name);
    const std::string value = json_of(wanted);
    const std::string found = present == nullptr ? "no such option" : json_of(*present);
    check_argument(wanted.rules.may_change || value == found, wanted.name, " ", value,
                   ": the run to be resumed has ", found);
    if (present != nullptr) copy(wanted, *present);
  }
  if (line.was_given("--epochs") && !line.was_given("--steps")) resumed.steps = 0;
  return resumed;
}

std::string changed_options(TrainOptions now, TrainOptions before) {
  const OptionTable earlier = option_table_of(before);
  std::string text;
  for (const Option& option : option_table_of(now))
    if (const std::string was = json_of(*find(earlier, option.name)); was != json_of(option))
      text +=
          concat(text.empty() ? "" : ", ", option.name, ' ', json_of(option), " instead of ", was);
  return text;
}

}  // namespace rowgrad
