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

/// What decides the numbers of a training run: saved in its checkpoints. Each is an option of
/// train_verdict, --look-back for look_back.
struct TrainOptions {
  std::string tokenizer = "char";
  std::uint64_t vocabulary = 512;  // ids that bpe trains
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
  std::uint64_t warmup = 0;  // steps
  double clip = 0;           // largest norm of all gradients; 0 for no limit
  bool shuffle = true;
  std::uint64_t seed = 123;
  double validation = 0.1;

  NextTokenOptions model(std::size_t vocabulary_size) const;

  /// Throws std::invalid_argument for --momentum with an optimizer that has none.
  std::unique_ptr<Optimizer> make_optimizer(const std::vector<Parameter*>& parameters) const;

  /// Of the learning rate, over a run of `steps` steps.
  Schedule make_schedule(std::uint64_t steps) const;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainOptions, tokenizer, vocabulary, context, stride, batch,
                                   width, look_back, hidden, positions, dropout, tie, epochs,
                                   optimizer, learning_rate, momentum, weight_decay, schedule,
                                   warmup, clip, shuffle, seed, validation)

/// Declares all of them as options of a program; or the optimizer's alone.
void add_train_options(CLI::App& app, TrainOptions& options);
void add_optimizer_options(CLI::App& app, TrainOptions& options);

/// Puts in the defaults that depend on the optimizer, where the user gave nothing else.
void complete(const CLI::App& app, TrainOptions& options);

/// The options that a resumed run goes on with: those it was saved with, but for --epochs and
/// --learning-rate where they were given. Throws std::invalid_argument naming an option that was
/// given with another value than the saved one.
TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved);

}  // namespace rowgrad
