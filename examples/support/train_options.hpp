#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/examples/support/command_line.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/optimizer.hpp>

namespace rowgrad {

/// The options that only the next-token model has (train_verdict).
struct NextTokenShape {
  std::uint64_t look_back = 6;
  std::vector<std::uint64_t> hidden = {256};
};

/// The options of memories of n-grams, of which there are none without orders; see GptMemories.
struct NgramShape {
  std::vector<std::uint64_t> orders = {};
  std::uint64_t rows = 1'000'000;
  std::uint64_t heads = 4;
  std::uint64_t width = 16;
  std::vector<std::uint64_t> layers = {1};
  std::string file = "";
  double rate = 5;  // of the tables, as a factor
  double decay = 0;
  std::string updates = "exact";
  std::uint64_t kernel = 4;
  std::uint64_t seed = 0;
  bool fold = false;
  bool silent = false;
};

/// The options that only a GPT has (train_gpt); see GptOptions.
struct GptShape {
  std::uint64_t heads = 4;
  std::uint64_t layers = 4;
  bool qkv_bias = false;
  bool bias = true;
  std::string gelu = "tanh";
  double norm_epsilon = 1e-5;
  std::string start = "pytorch";
  std::string rotary_layout = "halves";
  double rotary_base = 10000;
  std::uint64_t t5_buckets = 32;
  std::uint64_t t5_max_distance = 128;
  std::uint64_t shaw_max_distance = 16;
  NgramShape ngrams = {};
};

/// The files of a model's tables. Those that it made are removed again unless keep() was called: an
/// option that is refused leaves no file behind.
class ModelTables {
 public:
  ModelTables() = default;
  ~ModelTables();
  ModelTables(const ModelTables&) = delete;
  ModelTables& operator=(const ModelTables&) = delete;

  TableFile& open(const std::string& path);
  TableFile& make(const std::string& path, const TableFileOptions& options);
  void keep() { made_.clear(); }

  bool empty() const { return files_.empty(); }
  void checkpoint() const;

 private:
  std::vector<std::unique_ptr<TableFile>> files_;
  std::vector<std::string> made_;
};

/// The options that determine the result of a training run, and that its checkpoints contain. Each
/// is an option of the training programs, for example --weight-decay for weight_decay.
struct TrainOptions {
  std::string tokenizer = "char";
  std::uint64_t vocabulary = 512;  // number of ids to train for bpe
  double validation = 0.1;         // share of the text, at its end
  std::uint64_t context = 32;
  std::uint64_t stride = 8;
  std::uint64_t batch = 16;
  bool shuffle = true;
  bool one_generator = false;  // for weights, order and dropout, as in a PyTorch program

  std::uint64_t width = 32;
  std::string positions = "learned";
  double dropout = 0.4;
  bool tie = false;

  std::uint64_t epochs = 15;
  std::uint64_t steps = 0;       // if above 0, the length of the run instead of epochs
  std::uint64_t accumulate = 1;  // batches a step
  std::uint64_t shards = 1;      // parts of a batch, whose gradients are added in a fixed order
  std::string optimizer = "sgd";
  double learning_rate = 0.3;
  double momentum = 0;
  double beta2 = 0.999;
  double weight_decay = 0;
  std::string decay = "all";  // or "matrices": the parameters that weight decay is for
  std::string schedule = "constant";
  std::uint64_t warmup = 0;     // in steps
  double warmup_start = 0;      // share of the learning rate; 0 for 1 / (warmup + 1)
  double floor = 0;             // share of the learning rate at which cosine ends
  double clip = 0;              // limit for the joint norm of all gradients; 0 for none
  std::uint64_t clip_from = 0;  // the first step that is clipped
  std::uint64_t seed = 123;

  std::uint64_t evaluate_every = 0;    // steps; 0 for only after each epoch
  std::uint64_t evaluate_batches = 0;  // 0 for all

  std::variant<NextTokenShape, GptShape> shape = {};

  NextTokenOptions next_token(const NextTokenShape& own, std::size_t vocabulary_size) const;
  GptOptions gpt(const GptShape& own, std::size_t vocabulary_size) const;

  /// The memories of a GPT, or null if it has none; and the files of their tables, if they are in
  /// files, of which each rank has its own.
  const NgramShape* ngrams() const;
  std::vector<std::string> table_paths(std::size_t rank = 0) const;

  /// Opens or makes the files of tables, which must outlive the model; those of a run that is
  /// `resumed` must be there, others must not have been trained. Throws std::invalid_argument for a
  /// model that takes more memory than the machine has, before any of it is allocated.
  std::unique_ptr<LanguageModel> make_model(const Tokenizer& tokens, Random& random,
                                            ModelTables& tables, bool resumed,
                                            std::size_t rank = 0) const;

  /// How many numbers such a model has in memory at least; computed without making it.
  double least_numbers(std::size_t vocabulary_size) const;

  /// The tables of memories are its last group.
  std::unique_ptr<Optimizer> make_optimizer(const std::vector<Parameter*>& parameters) const;

  /// The learning rate of each of its groups, before any schedule.
  std::vector<double> base_rates(const Optimizer& of) const;

  /// The schedule of the learning rate for a run of `total` steps.
  Schedule make_schedule(std::uint64_t total) const;
};

/// All of them as a table, or only those of the optimizer; `options` must outlive it.
OptionTable option_table_of(TrainOptions& options);
OptionTable optimizer_table(TrainOptions& options);

/// All of them as a JSON object, in the order of their names, and back. Throws std::runtime_error
/// for what is no JSON, and std::invalid_argument for a JSON of something else.
std::string to_json(TrainOptions options);
TrainOptions train_options(const std::string& json);

/// Sets the defaults that depend on other options, where the user gave no value.
void complete(const CommandLine& line, TrainOptions& options);

/// The options of a resumed run: the saved ones, except for those that may change, if given. Throws
/// std::invalid_argument naming any other option that was given with a value that differs from the
/// saved one.
TrainOptions resumed_options(const CommandLine& line, TrainOptions given,
                             const TrainOptions& saved);

/// What differs in them, for people: "--learning-rate 0.01 instead of 0.3".
std::string changed_options(TrainOptions now, TrainOptions before);

}  // namespace rowgrad
