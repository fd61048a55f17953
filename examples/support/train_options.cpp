#include <algorithm>
#include <map>
#include <set>

#include <CLI/CLI.hpp>

#include <rowgrad/core/tensor/utf8.hpp>
#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_options.hpp>
#include <rowgrad/optim/adagrad.hpp>
#include <rowgrad/optim/adam.hpp>
#include <rowgrad/optim/rmsprop.hpp>
#include <rowgrad/optim/sgd.hpp>

namespace rowgrad {
namespace {

Positions positions_from(const std::string& name) {
  if (name == "learned") return Positions::kLearned;
  if (name == "sinusoidal") return Positions::kSinusoidal;
  check_argument(name == "none", "--positions ", in_quotes(name),
                 ": expected learned, sinusoidal or none");
  return Positions::kNone;
}

// Learning rates at which the default model trains well.
const std::map<std::string, double> kLearningRates{
    {"sgd", 0.3}, {"adam", 0.001}, {"adamw", 0.001}, {"adagrad", 0.02}, {"rmsprop", 0.001}};

const std::set<std::string> kSchedules{"constant", "warmup", "cosine", "step", "one-cycle"};

}  // namespace

std::unique_ptr<Optimizer> TrainOptions::make_optimizer(
    const std::vector<Parameter*>& parameters) const {
  check_argument(momentum == 0 || optimizer == "sgd" || optimizer == "rmsprop",
                 "--momentum is for --optimizer sgd and rmsprop, not for ", in_quotes(optimizer));
  if (optimizer == "sgd")
    return std::make_unique<SGD>(parameters, SgdOptions{.learning_rate = learning_rate,
                                                        .momentum = momentum,
                                                        .weight_decay = weight_decay});
  if (optimizer == "adam")
    return std::make_unique<Adam>(
        parameters, AdamOptions{.learning_rate = learning_rate, .weight_decay = weight_decay});
  if (optimizer == "adamw")
    return std::make_unique<AdamW>(
        parameters, AdamWOptions{.learning_rate = learning_rate, .weight_decay = weight_decay});
  if (optimizer == "adagrad")
    return std::make_unique<Adagrad>(
        parameters, AdagradOptions{.learning_rate = learning_rate, .weight_decay = weight_decay});
  check_argument(optimizer == "rmsprop", "--optimizer ", in_quotes(optimizer),
                 ": expected sgd, adam, adamw, adagrad or rmsprop");
  return std::make_unique<RMSprop>(parameters, RmsPropOptions{.learning_rate = learning_rate,
                                                              .weight_decay = weight_decay,
                                                              .momentum = momentum});
}

Schedule TrainOptions::make_schedule(std::uint64_t steps) const {
  check_argument(kSchedules.contains(schedule), "--schedule ", in_quotes(schedule),
                 ": expected constant, warmup, cosine, step or one-cycle");
  check_argument(warmup == 0 || schedule != "one-cycle",
                 "--warmup is not for --schedule one-cycle, which has its own");
  if (schedule == "one-cycle") return Schedule::one_cycle({.steps = steps});
  check_argument(warmup < steps || warmup == 0, "--warmup ", warmup,
                 " is not shorter than the run of ", steps, " steps");
  const std::uint64_t first = warmup == 0 && schedule == "warmup" ? (steps + 9) / 10 : warmup;
  const std::uint64_t rest = std::max<std::uint64_t>(steps - std::min(steps, first), 1);
  const Schedule main = schedule == "cosine" ? Schedule::cosine({.steps = rest})
                        : schedule == "step" ? Schedule::step_decay({.every = (rest + 2) / 3})
                                             : Schedule::constant();
  if (first == 0) return main;
  return Schedule::linear_warmup({.steps = first, .start_factor = 0.01}).then(main);
}

NextTokenOptions TrainOptions::model(std::size_t vocabulary_size) const {
  std::vector<std::size_t> widths;
  if (hidden != std::vector<std::uint64_t>{0}) widths.assign(hidden.begin(), hidden.end());
  check_argument(std::find(widths.begin(), widths.end(), 0U) == widths.end(),
                 "--hidden: a layer has width 0; 0 alone stands for no hidden layer");
  // A tied head compares its inputs with embeddings, so they must have the same width.
  if (tie && (widths.empty() ? look_back * width : widths.back()) != width) widths.push_back(width);
  return {.vocabulary = vocabulary_size,
          .context = context,
          .width = width,
          .positions = positions_from(positions),
          .look_back = look_back,
          .hidden = widths,
          .dropout = dropout,
          .tie_weights = tie};
}

void add_optimizer_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--optimizer", options.optimizer, "what updates the weights")
      ->check(CLI::IsMember(kLearningRates));
  app.add_option(
         "--learning-rate", options.learning_rate,
         "of the optimizer; if not given, 0.3 for sgd, 0.02 for adagrad, 0.001 for the others")
      ->check(finite_number(0, kAnyNumber))
      ->default_str("");
  app.add_option("--momentum", options.momentum, "of sgd or rmsprop")
      ->check(finite_number(0, kAnyNumber));
  app.add_option("--weight-decay", options.weight_decay, "if not given, 0.01 for adamw, else 0")
      ->check(finite_number(0, kAnyNumber))
      ->default_str("");
}

void add_train_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--tokenizer", options.tokenizer, "what a token is")
      ->check(CLI::IsMember(kTokenizerNames));
  app.add_option("--vocabulary", options.vocabulary, "number of ids that bpe trains")
      ->check(whole_number(1));
  app.add_option("--context", options.context, "tokens in a window")->check(whole_number(1));
  app.add_option("--stride", options.stride, "tokens from one window to the next")
      ->check(whole_number(1));
  app.add_option("--batch", options.batch, "windows a step")->check(whole_number(1));
  app.add_option("--width", options.width, "numbers in an embedding")->check(whole_number(1));
  app.add_option("--look-back", options.look_back,
                 "tokens that a prediction sees, the current one included")
      ->check(whole_number(1));
  app.add_option("--hidden", options.hidden, "widths of the hidden layers, as 256,128; 0 for none")
      ->delimiter(',')
      ->check(whole_number(0));
  app.add_option("--positions", options.positions, "what tells positions apart")
      ->check(CLI::IsMember({"learned", "sinusoidal", "none"}));
  app.add_option("--dropout", options.dropout, "share of hidden numbers dropped in training")
      ->check(finite_number(0, 0.99));
  app.add_option("--epochs", options.epochs, "passes over the text")->check(whole_number(1));
  app.add_flag("--tie", options.tie,
               "the token table is the head's weight too; if need be, a hidden layer of its width "
               "comes last");
  add_optimizer_options(app, options);
  app.add_option(
         "--schedule", options.schedule,
         "of the learning rate, over the whole run: warmup rises over a tenth of it, cosine "
         "falls to 0, step falls to a tenth at each third")
      ->check(CLI::IsMember(kSchedules));
  app.add_option("--warmup", options.warmup,
                 "steps over which the rate first rises in a line, before the schedule")
      ->check(whole_number(0));
  app.add_option("--clip", options.clip,
                 "largest norm of all gradients together, scaled down to it; 0 for no limit")
      ->check(finite_number(0, kAnyNumber));
  app.add_flag("--shuffle,!--no-shuffle", options.shuffle, "windows in a new order each epoch");
  app.add_option("--seed", options.seed, "of weights, order and dropout")
      ->check(whole_number(0, kAnyWhole));
  app.add_option("--validation", options.validation,
                 "share of the text, at its end, kept for validation")
      ->check(finite_number(0, 0.99));
}

void complete(const CLI::App& app, TrainOptions& options) {
  if (app.count("--learning-rate") == 0)
    options.learning_rate = kLearningRates.at(options.optimizer);
  if (app.count("--weight-decay") == 0 && options.optimizer == "adamw")
    options.weight_decay = AdamWOptions().weight_decay;
}

TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved) {
  TrainOptions resumed = saved;
  const nlohmann::json was = saved;
  const nlohmann::json wanted = given;
  for (const auto& [key, value] : wanted.items()) {
    std::string option = "--" + key;
    std::replace(option.begin(), option.end(), '_', '-');
    if (app.count(option) == 0 || key == "epochs" || key == "learning_rate") continue;
    check_argument(value == was.at(key), option, " ", value.dump(), ": the run to be resumed has ",
                   was.at(key).dump());
  }
  if (app.count("--epochs") > 0) resumed.epochs = given.epochs;
  if (app.count("--learning-rate") > 0) resumed.learning_rate = given.learning_rate;
  return resumed;
}

}  // namespace rowgrad
