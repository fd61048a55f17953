#pragma once

// Trains a language model on a text, epoch by epoch:
//
//   TrainingRun run({.model = model, .optimizer = optimizer, .loader = loader, .random = random});
//   while (run.history().size() < 10) run.run_epoch();
//   write_safetensors("run.safetensors", run.state_dict());

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include <rowgrad/core/parallel/gradient_exchange.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/learning_rate_schedule.hpp>

namespace rowgrad {

/// The parts of a run, all borrowed. Do not use the loaders for anything else during the run.
struct TrainingParts {
  LanguageModel& model;
  Optimizer& optimizer;
  /// Must be at its beginning, and have whole batches, of which each rank then reads its own rows.
  DataLoader& loader;
  /// The random numbers for dropout.
  Random& random;
  /// Its step() is called after each step of the optimizer; null for a constant learning rate.
  LearningRateSchedule* schedule = nullptr;
  /// The data for the evaluation after each epoch; null for no evaluation.
  DataLoader* validation = nullptr;
  /// The limit for the joint norm of all gradients (see clip_grad_norm); 0 for no limit.
  double clip_norm = 0;
  /// The batches whose gradients make up one step, with the mean of their losses. The last step of
  /// an epoch takes those that are left.
  std::size_t accumulate = 1;
  /// The parts into which the windows of each batch are cut, and whose gradients are computed one
  /// by one and added up in an order of their own. A run has the same bits on any number of ranks,
  /// if it has the same shards. With more than one, each shard draws random numbers of its own.
  std::size_t shards = 1;
  /// The processes that share the work, each with equal parts; null if this one is alone. There
  /// must be at least a shard for each. An exception on one rank makes the others wait in vain.
  ProcessGroup* ranks = nullptr;
  /// How many bytes of dense gradients a rank sends to another at once, while it computes others.
  std::size_t bucket_bytes = GradientExchange::kBucketBytes;
  /// The steps after which ranks compare all parameters; they do so after each epoch, too.
  std::size_t compare_every = 1000;
  /// Whether the first step may leave parameters without a gradient, as models do of which each
  /// batch uses other parts (find_unused_parameters of PyTorch's DistributedDataParallel).
  bool allow_unused = false;
};

/// Losses are in nats per token.
struct EpochRecord {
  std::size_t epoch = 0;  // counted from 1
  std::size_t steps = 0;  // since the start of the run
  double training_loss = 0;
  std::optional<double> validation_loss = std::nullopt;
  double tokens_per_second = 0;
};

class TrainingRun {
 public:
  /// Throws std::invalid_argument for a loader or a schedule that is not at its beginning, for a
  /// loader with a shard, for a clip_norm that is negative or not finite, if `accumulate` is 0, and
  /// for fewer shards than ranks.
  explicit TrainingRun(const TrainingParts& parts);

  /// Trains for one epoch, or the rest of it, evaluates, and adds a record to the history. Calls
  /// `after_step` with the mean loss of each step. When it returns false, training stops;
  /// evaluation and record then follow only if that was the last step of the epoch. Calls
  /// `keep_evaluating` after each batch of the evaluation. When it returns false, the evaluation
  /// stops, and the next run_epoch repeats it. Returns false if one of them returned false, else
  /// true. On several ranks, they must return the same on all; parameters that differ between ranks
  /// are a std::runtime_error that names parameter and rank.
  ///
  /// If the model, the optimizer or a callback throws, the next run_epoch goes on with the step
  /// that was not made: its batches come again, with the same random numbers. (Parameters have what
  /// gradients there were.) On several ranks this holds if all throw outside of the sum of
  /// gradients, as in a callback. After a step that failed within it, messages of other ranks may
  /// still be under way, so further steps throw std::logic_error: start all processes again, from a
  /// saved state.
  ///
  /// Throws std::logic_error for a parameter that gets a gradient but is none of the optimizer's
  /// and, in the first step, for one of the optimizer's that gets none (see allow_unused). Groups
  /// may be added to the optimizer between epochs.
  bool run_epoch(const std::function<bool(double loss)>& after_step = {},
                 const std::function<bool()>& keep_evaluating = {});

  const std::vector<EpochRecord>& history() const { return history_; }

  /// Steps since the start of the run, and in each epoch.
  std::size_t steps() const { return steps_; }
  std::size_t steps_per_epoch() const;

  /// The speed of training in this epoch, since the run was started or its state was loaded.
  double tokens_per_second() const;

  /// How gradients travel between ranks.
  const GradientExchange& exchange() const { return *exchange_; }

  /// The state of all parts and of the run itself. A run with equal parts that loads it continues
  /// as if it had never stopped, bit for bit. Loading throws std::invalid_argument for a state that
  /// does not fit a part or contradicts itself, and then changes nothing.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  /// To watch the run; they must not change anything, and are to be set between calls of run_epoch.
  /// The first is called for each batch, when its gradients have been added, and makes this rank
  /// read whole batches; the second once in each step, before gradients are clipped and parameters
  /// change.
  std::function<void(const Batch& batch)> on_batch = {};
  std::function<void()> before_update = {};

 private:
  void follow_optimizer();
  bool make_steps(const std::function<bool(double loss)>& after_step);
  double try_step(DataLoader::Iterator& batches, const Random& before);
  double step(DataLoader::Iterator& batches);
  std::vector<double> add_gradients(std::span<const Batch> batches);
  std::vector<double> add_gradients_of_shards(std::span<const Batch> batches);
  double go_backward(const Batch& batch, Random& random, double weight, const auto& sink);
  [[noreturn]] void refuse(const Parameter& parameter, const Tape& tape) const;
  std::size_t rows(std::size_t batch) const;
  void compare_ranks() const;
  bool finish_epoch(const std::function<bool()>& keep_evaluating);
  bool awaits_evaluation() const { return parts_.loader.position().epoch > history_.size(); }
  void load(const Checkpoint& state, bool checked);
  void check_progress() const;

  TrainingParts parts_;
  SingleProcess alone_;
  ProcessGroup& ranks_;
  std::optional<GradientExchange> exchange_;
  std::unordered_map<const Parameter*, std::size_t> indices_;  // among the optimizer's parameters
  IndexRange read_;  // the shards whose windows the loader reads
  std::vector<EpochRecord> history_;
  std::size_t steps_ = 0;
  struct Epoch {          // so far
    double loss_sum = 0;  // over all tokens
    std::size_t tokens = 0;
    double seconds = 0;  // in steps since the start or the last load
    std::size_t timed_tokens = 0;
  } epoch_;
};

}  // namespace rowgrad
