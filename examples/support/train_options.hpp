#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace CLI {
class App;
}

namespace rowgrad {

/// The options that determine the result of a training run, and that its checkpoints contain. Each
/// is an option of train_verdict, for example --look-back for look_back.
struct TrainOptions {
  std::string tokenizer = "char";
  std::uint64_t vocabulary = 512;  // number of ids to train for bpe
  std::uint64_t context = 32;
  std::uint64_t stride = 8;
  std::uint64_t batch = 16;
  std::uint64_t width = 32;
  std::uint64_t look_back = 6;
  std::vector<std::uint64_t> hidden = {256};
  std::string positions = "learned";
  double dropout = 0.4;
  bool tie = false;
  std::uint64_t epochs = 15;
  std::string optimizer = "sgd";
  double learning_rate = 0.3;
  double momentum = 0;
  double weight_decay = 0;
  std::string schedule = "constant";
  std::uint64_t warmup = 0;  // in steps
  double clip = 0;           // limit for the joint norm of all gradients; 0 for none
  bool shuffle = true;
  std::uint64_t seed = 123;
  double validation = 0.1;

  NextTokenOptions model(std::size_t vocabulary_size) const;

  /// Throws std::invalid_argument for --momentum with an optimizer that has none.
  std::unique_ptr<Optimizer> make_optimizer(const std::vector<Parameter*>& parameters) const;

  /// The schedule of the learning rate for a run of `steps` steps.
  Schedule make_schedule(std::uint64_t steps) const;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainOptions, tokenizer, vocabulary, context, stride, batch,
                                   width, look_back, hidden, positions, dropout, tie, epochs,
                                   optimizer, learning_rate, momentum, weight_decay, schedule,
                                   warmup, clip, shuffle, seed, validation)

/// Declares all of them as options of a program, or only those of the optimizer.
void add_train_options(CLI::App& app, TrainOptions& options);
void add_optimizer_options(CLI::App& app, TrainOptions& options);

/// Sets the defaults that depend on the optimizer, where the user gave no value.
void complete(const CLI::App& app, TrainOptions& options);

/// The options of a resumed run: the saved ones, except for --epochs and --learning-rate if given.
/// Throws std::invalid_argument naming any other option that was given with a value that differs
/// from the saved one.
TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved);

}  // namespace rowgrad
