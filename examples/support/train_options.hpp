#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/sgd.hpp>

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
  std::uint64_t epochs = 15;
  double learning_rate = 0.3;
  double momentum = 0;
  double weight_decay = 0;
  bool shuffle = true;
  std::uint64_t seed = 123;
  double validation = 0.1;

  SgdOptions sgd() const;
  NextTokenOptions model(std::size_t vocabulary_size) const;

  /// Momentum and weight decay move every row of a table, so that its gradients are made dense.
  bool dense_gradients() const { return momentum != 0 || weight_decay != 0; }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainOptions, tokenizer, vocabulary, context, stride, batch,
                                   width, look_back, hidden, positions, dropout, epochs,
                                   learning_rate, momentum, weight_decay, shuffle, seed, validation)

/// Declares all of them as options of a program.
void add_train_options(CLI::App& app, TrainOptions& options);

/// The options that a resumed run goes on with: those it was saved with, but for --epochs and
/// --learning-rate where they were given. Throws std::invalid_argument naming an option that was
/// given with another value than the saved one.
TrainOptions resumed_options(const CLI::App& app, const TrainOptions& given,
                             const TrainOptions& saved);

}  // namespace rowgrad
