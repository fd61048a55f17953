#include <algorithm>

#include <CLI/CLI.hpp>

#include <rowgrad/examples/support/option_checks.hpp>
#include <rowgrad/examples/support/tokenizers.hpp>
#include <rowgrad/examples/support/train_options.hpp>

namespace rowgrad {
namespace {

Positions positions_from(const std::string& name) {
  if (name == "learned") return Positions::kLearned;
  if (name == "sinusoidal") return Positions::kSinusoidal;
  check_argument(name == "none", "--positions ", name, ": expected learned, sinusoidal or none");
  return Positions::kNone;
}

}  // namespace

SgdOptions TrainOptions::sgd() const {
  return {.learning_rate = learning_rate, .momentum = momentum, .weight_decay = weight_decay};
}

NextTokenOptions TrainOptions::model(std::size_t vocabulary_size) const {
  std::vector<std::size_t> widths;
  std::copy_if(hidden.begin(), hidden.end(), std::back_inserter(widths),
               [](std::uint64_t width_of_layer) { return width_of_layer != 0; });
  return {.vocabulary = vocabulary_size,
          .context = context,
          .width = width,
          .positions = positions_from(positions),
          .look_back = look_back,
          .hidden = widths,
          .dropout = dropout,
          .dropout_seed = ~seed,  // not the bits that the weights were drawn from
          .dense_gradients = dense_gradients()};
}

void add_train_options(CLI::App& app, TrainOptions& options) {
  app.add_option("--tokenizer", options.tokenizer, "what a token is")
      ->check(CLI::IsMember(kTokenizerNames));
  app.add_option("--vocabulary", options.vocabulary, "number of ids that bpe trains");
  app.add_option("--context", options.context, "tokens in a window")->check(at_least_one());
  app.add_option("--stride", options.stride, "tokens from one window to the next")
      ->check(at_least_one());
  app.add_option("--batch", options.batch, "windows a step")->check(at_least_one());
  app.add_option("--width", options.width, "numbers in an embedding")->check(at_least_one());
  app.add_option("--look-back", options.look_back,
                 "tokens that a prediction sees, the current one included")
      ->check(at_least_one());
  app.add_option("--hidden", options.hidden, "widths of the hidden layers, as 256,128; 0 for none")
      ->delimiter(',');
  app.add_option("--positions", options.positions, "what tells positions apart")
      ->check(CLI::IsMember({"learned", "sinusoidal", "none"}));
  app.add_option("--dropout", options.dropout, "share of hidden numbers dropped in training")
      ->check(finite_number(0, 0.99));
  app.add_option("--epochs", options.epochs, "passes over the text")->check(at_least_one());
  app.add_option("--learning-rate", options.learning_rate, "step of SGD")
      ->check(finite_number(0, kLargest));
  app.add_option("--momentum", options.momentum, "of SGD; makes the tables' gradients dense")
      ->check(finite_number(0, kLargest));
  app.add_option("--weight-decay", options.weight_decay,
                 "of SGD; makes the tables' gradients dense")
      ->check(finite_number(0, kLargest));
  app.add_flag("--shuffle,!--no-shuffle", options.shuffle, "windows in a new order each epoch");
  app.add_option("--seed", options.seed, "of weights, order and dropout");
  app.add_option("--validation", options.validation,
                 "share of the text, at its end, kept for validation")
      ->check(finite_number(0, 0.99));
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
