#include <algorithm>
#include <map>
#include <set>
#include <unistd.h>
#include <utility>

#include <CLI/CLI.hpp>

#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
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

// Learning rates at which the default next-token model trains well.
const Names<double> kLearningRates{
    {"sgd", 0.3}, {"adam", 0.001}, {"adamw", 0.001}, {"adagrad", 0.02}, {"rmsprop", 0.001}};

const std::set<std::string> kSchedules{"constant", "warmup", "cosine", "step", "one-cycle"};
const std::set<std::string> kDecays{"all", "matrices"};

// How many numbers an optimizer keeps for each parameter.
int states_of(const std::string& optimizer, double momentum) {
  if (optimizer == "adam" || optimizer == "adamw") return 2;
  const int moments = momentum != 0 ? 1 : 0;
  return optimizer == "sgd" ? moments : moments + 1;  // adagrad and rmsprop: of squares, too
}

// The fields by name, as the options of a program are called.
template <class Options, class Visit>
void visit_fields(Options& o, const Visit& visit) {
  visit("tokenizer", o.tokenizer);
  visit("vocabulary", o.vocabulary);
  visit("validation", o.validation);
  visit("context", o.context);
  visit("stride", o.stride);
  visit("batch", o.batch);
  visit("shuffle", o.shuffle);
  visit("one_generator", o.one_generator);
  visit("width", o.width);
  visit("positions", o.positions);
  visit("dropout", o.dropout);
  visit("tie", o.tie);
  visit("epochs", o.epochs);
  visit("steps", o.steps);
  visit("accumulate", o.accumulate);
  visit("shards", o.shards);
  visit("optimizer", o.optimizer);
  visit("learning_rate", o.learning_rate);
  visit("momentum", o.momentum);
  visit("beta2", o.beta2);
  visit("weight_decay", o.weight_decay);
  visit("decay", o.decay);
  visit("schedule", o.schedule);
  visit("warmup", o.warmup);
  visit("floor", o.floor);
  visit("clip", o.clip);
  visit("seed", o.seed);
  visit("evaluate_every", o.evaluate_every);
  visit("evaluate_batches", o.evaluate_batches);
}

// An optimizer whose weight decay is for all parameters, or only for those of two axes and more:
// tables and matrices, but neither biases nor the weights of norms.
template <class Made>
std::unique_ptr<Optimizer> make(const std::vector<Parameter*>& parameters,
                                typename Made::Options options, bool decay_all) {
  if (decay_all) return std::make_unique<Made>(parameters, options);
  std::vector<Parameter*> matrices, others;
  for (Parameter* parameter : parameters)
    (parameter->shape().size() >= 2 ? matrices : others).push_back(parameter);
  std::vector<typename Made::Group> groups;
  if (!matrices.empty()) groups.push_back({matrices, options});
  options.weight_decay = 0;
  if (!others.empty()) groups.push_back({others, options});
  return std::make_unique<Made>(std::move(groups));
}

}  // namespace

void to_json(nlohmann::json& all, const TrainOptions& options) {
  visit_fields(options, [&](const char* name, const auto& value) { all[name] = value; });
  const bool gpt = std::holds_alternative<GptShape>(options.shape);
  all["model"] = gpt ? "gpt" : "next-token";
  std::visit([&](const auto& shape) { all.update(nlohmann::json(shape)); }, options.shape);
}

void from_json(const nlohmann::json& all, TrainOptions& options) {
  visit_fields(options, [&](const char* name, auto& value) { all.at(name).get_to(value); });
  if (all.at("model") == "gpt") {
    options.shape = all.get<GptShape>();
  } else {
    options.shape = all.get<NextTokenShape>();
  }
}

std::unique_ptr<Optimizer> TrainOptions::make_optimizer(
    const std::vector<Parameter*>& parameters) const {
  check_argument(kDecays.contains(decay), "--decay ", in_quotes(decay),
                 ": expected all or matrices");
  const bool decay_all = decay == "all";
  if (optimizer == "sgd")
    return make<SGD>(
        parameters,
        {.learning_rate = learning_rate, .momentum = momentum, .weight_decay = weight_decay},
        decay_all);
  if (optimizer == "adam")
    return make<Adam>(
        parameters, {.learning_rate = learning_rate, .beta2 = beta2, .weight_decay = weight_decay},
        decay_all);
  if (optimizer == "adamw")
    return make<AdamW>(
        parameters, {.learning_rate = learning_rate, .beta2 = beta2, .weight_decay = weight_decay},
        decay_all);
  if (optimizer == "adagrad")
    return make<Adagrad>(parameters, {.learning_rate = learning_rate, .weight_decay = weight_decay},
                         decay_all);
  check_argument(optimizer == "rmsprop", "--optimizer ", in_quotes(optimizer),
                 ": expected sgd, adam, adamw, adagrad or rmsprop");
  return make<RMSprop>(
      parameters,
      {.learning_rate = learning_rate, .weight_decay = weight_decay, .momentum = momentum},
      decay_all);
}

Schedule TrainOptions::make_schedule(std::uint64_t total) const {
  check_argument(kSchedules.contains(schedule), "--schedule ", in_quotes(schedule),
                 ": expected constant, warmup, cosine, step or one-cycle");
  if (schedule == "one-cycle") return Schedule::one_cycle({.steps = total});
  check_argument(warmup < total || warmup == 0, "--warmup ", warmup,
                 " is not shorter than the run of ", total, " steps");
  const std::uint64_t first = warmup == 0 && schedule == "warmup" ? (total + 9) / 10 : warmup;
  const std::uint64_t rest = std::max<std::uint64_t>(total - std::min(total, first), 1);
  const Schedule main = schedule == "cosine"
                            ? Schedule::cosine({.steps = rest, .floor_factor = floor})
                        : schedule == "step" ? Schedule::step_decay({.every = (rest + 2) / 3})
                                             : Schedule::constant();
  if (first == 0) return main;
  const double start_factor = 1 / (static_cast<double>(first) + 1);
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
          .shaw_max_distance = own.shaw_max_distance};
}

std::unique_ptr<LanguageModel> TrainOptions::make_model(std::size_t vocabulary_size,
                                                        Random& random) const {
  const double numbers = least_numbers(vocabulary_size);
  const double needed = numbers * sizeof(real) * (1 + states_of(optimizer, momentum)) / 1e9;
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE)) / 1e9;
  check_argument(needed <= memory, "the model has at least ", numbers, " parameters, for which ",
                 optimizer, " needs ", needed, " GB, but the machine has ", memory,
                 " GB of memory");
  if (const auto* own = std::get_if<GptShape>(&shape))
    return std::make_unique<GptModel>(gpt(*own, vocabulary_size), random);
  return std::make_unique<NextTokenModel>(
      next_token(std::get<NextTokenShape>(shape), vocabulary_size), random);
}

double TrainOptions::least_numbers(std::size_t vocabulary_size) const {
  const auto tokens = static_cast<double>(vocabulary_size);
  const auto columns = static_cast<double>(width);
  double sum = tokens * columns;
  if (positions == "learned") sum += static_cast<double>(context) * columns;
  if (const auto* own = std::get_if<GptShape>(&shape))
    return sum + static_cast<double>(own->layers) * 12 * columns * columns;
  const NextTokenOptions options = next_token(std::get<NextTokenShape>(shape), vocabulary_size);
  double read = static_cast<double>(options.look_back) * columns;
  for (const std::size_t next : options.hidden)
    sum += (std::exchange(read, static_cast<double>(next)) + 1) * static_cast<double>(next);
  return sum + (tie ? tokens : (read + 1) * tokens);
}

void add_optimizer_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--optimizer", options.optimizer, "what updates the weights")
      ->check(CLI::IsMember(kLearningRates));
  app.add_option("--learning-rate", options.learning_rate,
                 "of the optimizer; another optimizer has another default")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--momentum", options.momentum, "of sgd or rmsprop")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--beta2", options.beta2, "of adam and adamw: decay of the mean of squares")
      ->check(finite_number(0, 1));
  app.add_option("--weight-decay", options.weight_decay,
                 "of the optimizer; another optimizer has another default")
      ->check(finite_number(0, kAnyNumber));
}

void add_train_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--tokenizer", options.tokenizer,
                 "what a token is; or the JSON file of tokenize --save")
      ->check(tokenizer_choice());
  app.add_option("--vocabulary", options.vocabulary, "number of ids that bpe trains")
      ->check(whole_number(1));
  app.add_option("--validation", options.validation,
                 "share of the text, at its end, kept for validation")
      ->check(finite_number(0, 0.99));
  app.add_option("--context", options.context, "tokens in a window")->check(whole_number(1));
  app.add_option("--stride", options.stride, "tokens from one window to the next")
      ->check(whole_number(1));
  app.add_option("--batch", options.batch, "windows in a batch")->check(whole_number(1));
  app.add_flag("--shuffle,!--no-shuffle", options.shuffle, "windows in a new order each epoch");
  app.add_flag("--one-generator,!--no-one-generator", options.one_generator,
               "weights, order and dropout are drawn from one generator as PyTorch does, and an "
               "epoch drops the windows that do not fill a batch");

  app.add_option("--width", options.width, "numbers in an embedding")->check(whole_number(1));
  if (auto* own = std::get_if<NextTokenShape>(&options.shape)) {
    app.add_option("--look-back", own->look_back,
                   "tokens that a prediction sees, the current one included")
        ->check(whole_number(1));
    app.add_option("--hidden", own->hidden, "widths of the hidden layers, as 256,128; 0 for none")
        ->delimiter(',')
        ->check(whole_number(0));
    app.add_option("--positions", options.positions, "what tells positions apart")
        ->check(CLI::IsMember(kAddedPositions));
  } else {
    auto& gpt = std::get<GptShape>(options.shape);
    app.add_option("--heads", gpt.heads, "of attention")->check(whole_number(1));
    app.add_option("--layers", gpt.layers, "transformer blocks")->check(whole_number(1));
    app.add_option("--positions", options.positions, "what tells positions apart")
        ->check(CLI::IsMember(kPositions));
    app.add_option("--rotary-layout", gpt.rotary_layout, "columns that are rotated together")
        ->check(CLI::IsMember(kRotaryLayouts));
    app.add_option("--rotary-base", gpt.rotary_base, "of the angles")
        ->check(finite_number(1, kAnyNumber));
    app.add_option("--t5-buckets", gpt.t5_buckets, "of distances, each with its bias")
        ->check(whole_number(1));
    app.add_option("--t5-max-distance", gpt.t5_max_distance, "from which all share a bucket")
        ->check(whole_number(1));
    app.add_option("--shaw-max-distance", gpt.shaw_max_distance, "from which all share a row")
        ->check(whole_number(1));
    app.add_flag("--qkv-bias", gpt.qkv_bias, "query, key and value have a bias");
    app.add_flag("--bias,!--no-bias", gpt.bias, "the other linear layers and the norms have one");
    app.add_option("--gelu", gpt.gelu, "the formula")->check(CLI::IsMember(kGelus));
    app.add_option("--norm-epsilon", gpt.norm_epsilon, "of the norms")
        ->check(finite_number(0, kAnyNumber));
    app.add_option("--start", gpt.start, "the weights to start from: PyTorch's defaults or GPT-2's")
        ->check(CLI::IsMember(kStarts));
  }
  app.add_option("--dropout", options.dropout, "share of hidden numbers dropped in training")
      ->check(finite_number(0, 0.99));
  app.add_flag("--tie,!--no-tie", options.tie,
               std::holds_alternative<GptShape>(options.shape)
                   ? "the token table is the head's weight too"
                   : "the token table is the head's weight too; if need be, a hidden layer of its "
                     "width comes last");

  app.add_option("--epochs", options.epochs, "passes over the text")->check(whole_number(0));
  app.add_option("--steps", options.steps, "length of the run instead of epochs; 0 for epochs")
      ->check(whole_number(0));
  app.add_option("--accumulate", options.accumulate, "batches whose gradients make up a step")
      ->check(whole_number(1));
  app.add_option("--shards", options.shards,
                 "parts of a batch, each with a gradient and random numbers of its own: as many as "
                 "there are ranks of mpirun, or more, which then do not change the result")
      ->check(whole_number(1, 65536));
  add_optimizer_options(app, options);
  app.add_option("--decay", options.decay, "the parameters that weight decay is for")
      ->check(CLI::IsMember(kDecays));
  app.add_option(
         "--schedule", options.schedule,
         "of the learning rate, over the whole run: warmup rises over a tenth of it, cosine "
         "falls to --floor, step falls to a tenth at each third")
      ->check(CLI::IsMember(kSchedules));
  app.add_option("--warmup", options.warmup,
                 "steps over which the rate first rises in a line, before the schedule")
      ->check(whole_number(0));
  app.add_option("--floor", options.floor, "share of the learning rate at which cosine ends")
      ->check(finite_number(0, 1));
  app.add_option("--clip", options.clip,
                 "largest norm of all gradients together, scaled down to it; 0 for no limit")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--seed", options.seed, "of weights, order and dropout")
      ->check(whole_number(0, kAnyWhole));
  app.add_option("--evaluate-every", options.evaluate_every,
                 "losses after the first step and every so many steps; 0 for after each epoch")
      ->check(whole_number(0));
  app.add_option("--evaluate-batches", options.evaluate_batches,
                 "batches in each of these evaluations; 0 for all")
      ->check(whole_number(0));
}

void complete(const CLI::App& app, TrainOptions& options, const std::string& default_optimizer) {
  if (options.optimizer == default_optimizer) return;
  if (app.count("--learning-rate") == 0)
    options.learning_rate = kLearningRates.at(options.optimizer);
  if (app.count("--weight-decay") == 0)
    options.weight_decay = options.optimizer == "adamw" ? AdamWOptions().weight_decay : 0;
}

}  // namespace rowgrad
