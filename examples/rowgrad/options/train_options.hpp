#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/tokenizers/text_tokenizers.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/examples/rowgrad/options/settings.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/layers/word_vectors.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/training/training_run.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// The table files of a model. Unless keep() is called, the destructor removes the files that
/// make() created, so a rejected option leaves no files.
class TableFileSet {
 public:
  TableFileSet() = default;
  TableFileSet(TableFileSet&&) = default;
  ~TableFileSet();

  TableFile& open(const std::string& path);
  TableFile& make(const std::string& path, const TableFileOptions& options);
  void keep() { made_.clear(); }

  bool empty() const { return files_.empty(); }
  void checkpoint();  // writes a checkpoint of each file

 private:
  std::vector<std::unique_ptr<TableFile>> files_;
  std::vector<std::string> made_;
};

/// The mean size of a step of word vectors.
struct PairsPerStep {
  double targets = 1;
  double of_row = 0;  // targets and negatives that the row with the most gradients takes part in
};

/// The options that determine the result of a training run. Checkpoints contain them. The help of
/// `rowgrad train` describes each, for example --weight-decay for weight_decay.
struct TrainOptions {
  std::string model = "next-token";  // or "gpt", "skip-gram", "cbow"

  std::string tokenizer = "char";
  std::uint64_t vocabulary = 512;
  WordOptions words = {};  // min_count and lower
  bool lines = false;
  double validation = 0.1;
  std::uint64_t stride = 8;
  DataLoaderOptions loader{.batch = 16, .shuffle = true};  // `seed` replaces its seed
  bool draws_as_pytorch = false;

  /// The options of a GPT. `vocabulary` is not used, nor are memories without n-gram orders.
  /// A next-token model uses context, width, positions, dropout and tie_weights; word vectors use
  /// context and width.
  GptOptions gpt{.context = 32,
                 .width = 32,
                 .heads = 4,
                 .layers = 4,
                 .dropout = 0.4,
                 .memories = {.blocks = {1}, .ngrams = {.orders = {}, .rows = 1'000'000}}};

  std::uint64_t window = 6;                   // for next-token models and word vectors
  std::uint64_t sampled_softmax = 0;          // for language models
  std::vector<std::uint64_t> hidden = {256};  // for next-token models; {0} for no hidden layer

  std::uint64_t negatives = 5;  // for word vectors
  std::uint64_t shared_negatives = 0;
  double subsample = 1e-4;

  std::string ngram_file = "";  // "" for a table in memory
  bool shard_tables = false;
  bool ngram_fold = false;
  double ngram_rate = 5;
  double ngram_decay = 0;
  RowUpdates ngram_updates = RowUpdates::kExact;

  std::uint64_t epochs = 15;
  std::uint64_t steps = 0;
  std::uint64_t accumulate = 1;
  std::uint64_t slices = 1;
  std::string optimizer = "sgd";
  double learning_rate = 0.3;
  double momentum = 0;
  double beta2 = 0.999;
  double weight_decay = 0;
  bool decays_vectors = true;  // if false, only matrices decay
  std::string schedule = "constant";
  std::uint64_t warmup = 0;
  double warmup_start = 0;
  double min_lr_ratio = 0;
  double clip = 0;
  std::uint64_t clip_from = 0;
  std::uint64_t seed = 123;
  PeriodicEvaluation evaluation = {};  // its loaders are not used

  /// Returns a next-token model's options. Throws std::invalid_argument for widths or positions
  /// that the model does not support.
  NextTokenOptions next_token_options(std::size_t vocabulary_size) const;
  /// Returns a GPT's options.
  GptOptions gpt_options(std::size_t vocabulary_size) const;

  /// Returns the options of word vectors and their data.
  WordVectorOptions word_vector_options(std::size_t vocabulary_size) const;

  bool is_gpt() const { return model == "gpt"; }
  bool has_word_vectors() const { return model == "skip-gram" || model == "cbow"; }
  bool has_memories() const;

  /// Returns the paths of a rank's table files; none if the tables are in memory.
  std::vector<std::string> table_paths(std::size_t rank = 0) const;

  /// Creates the examples of a text: windows for a language model, `stride` apart, or blocks of
  /// words. `counts` has the number of times that each id occurs in the training text; only word
  /// vectors need it.
  std::shared_ptr<const Dataset> make_examples(const TokenSequence& text, std::uint64_t stride,
                                               const std::vector<std::uint64_t>& counts,
                                               const Vocabulary& vocabulary_of_text) const;

  /// Creates the model. Opens or creates its table files in `tables`, which must outlive the model.
  /// If `resumed`, the files must exist; otherwise, existing files must not have been trained.
  /// `placement` places tables that are sharded over `ranks`. Throws std::invalid_argument before
  /// allocating if the machine has too little memory for the model.
  std::unique_ptr<Model> make_model(const Tokenizer& tokens, Random& random, TableFileSet& tables,
                                    bool resumed, ProcessGroup* ranks = nullptr,
                                    TablePlacement* placement = nullptr) const;

  /// Returns a lower bound on the parameter count that each of `ranks` ranks holds in memory. With
  /// 0 ranks, sharded tables do not count.
  double min_parameter_count(std::size_t vocabulary_size, std::size_t ranks = 0) const;

  /// Returns true if --learning-rate is the rate of each target, as in word2vec.
  bool has_target_rate() const { return has_word_vectors() && optimizer == "sgd"; }
  /// Returns the learning rate of each target: `learning_rate`, or less if the gradients of one row
  /// in a step could make it diverge, times 1 - momentum.
  double target_rate(const PairsPerStep& pairs) const;

  /// Creates the optimizer. Any tables of n-gram memories are its last group. The loss of word
  /// vectors is the mean over the targets of a step, so target_rate() is multiplied by their
  /// number.
  std::unique_ptr<Optimizer> make_optimizer(const std::vector<Parameter*>& parameters,
                                            const PairsPerStep& pairs = {}) const;

  /// Returns the learning rate of each group before any schedule.
  std::vector<double> base_rates(const Optimizer& of, const PairsPerStep& pairs = {}) const;
  double step_rate(const PairsPerStep& pairs) const;  // returns the rate before group factors

  /// Returns the learning rate schedule for a run of `total` steps.
  Schedule make_schedule(std::uint64_t total) const;
};

/// Returns the defaults for a model, some of which model_defaults() overrides.
TrainOptions default_options(const std::string& model);
Json model_defaults(const std::string& model);

/// Adds the defaults that depend on --optimizer.
void add_optimizer_presets(Settings& settings);

/// Return a table of all options, or only of the model's options. `options` must outlive the table.
OptionTable option_table_of(TrainOptions& options);
OptionTable table_of_model(TrainOptions& options);

/// Returns the model's options as a JSON object.
std::string to_json(TrainOptions options);
/// Parses the model's options. Throws std::runtime_error for invalid JSON, and
/// std::invalid_argument for missing or invalid options.
TrainOptions train_options(const std::string& json);

}  // namespace rowgrad
