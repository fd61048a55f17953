#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/core/tables/table_file.hpp>
#include <rowgrad/examples/rowgrad/options/options.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/next_token_model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>
#include <rowgrad/optim/optimizer.hpp>
#include <rowgrad/optim/training/training_run.hpp>
#include <rowgrad/optim/update_rule.hpp>

namespace rowgrad {

/// The files of a model's tables. Those that it made are removed again unless keep() was called: an
/// option that is refused leaves no file behind.
class ModelTables {
 public:
  ModelTables() = default;
  ModelTables(ModelTables&&) = default;
  ~ModelTables();

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
/// is an option of train, for example --weight-decay for weight_decay.
struct TrainOptions {
  std::string model = "next-token";  // or "gpt"

  std::string tokenizer = "char";
  std::uint64_t vocabulary = 512;  // number of ids to train for bpe
  double validation = 0.1;         // share of the text, at its end
  std::uint64_t stride = 8;
  DataLoaderOptions loader{.batch = 16, .shuffle = true};  // but for the seed
  /// Weights, order and dropout are drawn from one generator, as in a PyTorch program.
  bool draws_as_pytorch = false;

  /// Of a GPT, whose vocabulary is that of the tokenizer, and which has no memories without orders
  /// of n-grams. A next-token model has its context, width, positions, dropout and tied weights.
  GptOptions gpt{.context = 32,
                 .width = 32,
                 .heads = 4,
                 .layers = 4,
                 .dropout = 0.4,
                 .memories = {.blocks = {1}, .ngrams = {.orders = {}, .rows = 1'000'000}}};

  std::uint64_t look_back = 6;                // of a next-token model
  std::vector<std::uint64_t> hidden = {256};  // of a next-token model; 0 alone for none

  std::string ngram_file = "";                    // of the table; "" for one in memory
  bool split_tables = false;                      // over ranks: see ShardedTable
  bool ngram_fold = false;                        // see canonical_ids
  double ngram_rate = 5;                          // of the tables, as a factor
  double ngram_decay = 0;                         // of the tables
  RowUpdates ngram_updates = RowUpdates::kExact;  // of the tables

  std::uint64_t epochs = 15;
  std::uint64_t steps = 0;       // if above 0, the length of the run instead of epochs
  std::uint64_t accumulate = 1;  // batches a step
  std::uint64_t shards = 1;      // parts of a batch, whose gradients are added in a fixed order
  std::string optimizer = "sgd";
  double learning_rate = 0.3;
  double momentum = 0;
  double beta2 = 0.999;
  double weight_decay = 0;
  bool decays_vectors = true;  // or only matrices
  std::string schedule = "constant";
  std::uint64_t warmup = 0;     // in steps
  double warmup_start = 0;      // share of the learning rate; 0 for 1 / (warmup + 1)
  double floor = 0;             // share of the learning rate at which cosine ends
  double clip = 0;              // limit for the joint norm of all gradients; 0 for none
  std::uint64_t clip_from = 0;  // the first step that is clipped
  std::uint64_t seed = 123;
  EvaluationParts evaluation = {};  // but for the loaders; every 0 steps for only after each epoch

  /// The options of the model, whichever it is, for a vocabulary. Throws std::invalid_argument for
  /// what this model has not.
  NextTokenOptions next_token_options(std::size_t vocabulary_size) const;
  GptOptions gpt_options(std::size_t vocabulary_size) const;

  bool is_gpt() const { return model == "gpt"; }
  bool has_memories() const;

  /// The files of the tables of memories, if they are in files, of which each rank has its own.
  std::vector<std::string> table_paths(std::size_t rank = 0) const;

  /// Opens or makes the files of tables, which must outlive the model; those of a run that is
  /// `resumed` must be there, others must not have been trained. Throws std::invalid_argument for a
  /// model that takes more memory than the machine has, before any of it is allocated. `placement`
  /// is for tables that are sharded over `ranks`.
  std::unique_ptr<LanguageModel> make_model(const Tokenizer& tokens, Random& random,
                                            ModelTables& tables, bool resumed,
                                            ProcessGroup* ranks = nullptr,
                                            TablePlacement* placement = nullptr) const;

  /// How many numbers such a model has in memory at least, on one of so many ranks; computed
  /// without making it. For 0 ranks, without sharded tables.
  double least_numbers(std::size_t vocabulary_size, std::size_t ranks = 0) const;

  /// The tables of memories are its last group.
  std::unique_ptr<Optimizer> make_optimizer(const std::vector<Parameter*>& parameters) const;

  /// The learning rate of each of its groups, before any schedule.
  std::vector<double> base_rates(const Optimizer& of) const;

  /// The schedule of the learning rate for a run of `total` steps.
  Schedule make_schedule(std::uint64_t total) const;
};

/// The options of a run of this model if none are given. Those of a GPT differ from TrainOptions in
/// kGptDefaults, which is JSON.
TrainOptions default_options(const std::string& model);
extern const char* const kGptDefaults;

/// All of them as a table, or only those that their model has; `options` must outlive it.
OptionTable option_table_of(TrainOptions& options);
OptionTable table_of_model(TrainOptions& options);

/// Returns the option --past-context of programs that generate text.
Option past_context_option(PastContext& past_context, OptionRules rules = {});

/// Those that the model has as a JSON object, in the order of their names, and back. Throws
/// std::runtime_error for what is no JSON, and std::invalid_argument for a JSON of something else.
std::string to_json(TrainOptions options);
TrainOptions train_options(const std::string& json);

/// Sets the defaults that depend on other options, where the user gave no value.
void complete(const CommandLine& line, TrainOptions& options);

/// Makes `options`, which the line has set, those of a resumed run: the saved ones, except for
/// those that may change, if given. Returns what has changed, for people. Throws
/// std::invalid_argument naming any other option that was given with a value that differs from the
/// saved one.
std::string take_saved(CommandLine& line, TrainOptions& options, const TrainOptions& saved);

}  // namespace rowgrad
