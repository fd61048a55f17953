#pragma once

// Training in several processes (target rowgrad::parallel). See core/parallel/README.md.
//
// Invalid arguments throw std::invalid_argument, and calls in the wrong order std::logic_error.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <rowgrad/core/parallel/sharded_table.hpp>
#include <rowgrad/core/parallel/training_ranks.hpp>

namespace rowgrad {

/// The ranks that train a model, and its sharded tables. All ranks must create the layers in the
/// same order:
///
///   ParallelTraining ranks(*group);
///   Embedding words(rows, width, random, {.tables = &ranks});
///   TrainingRun run({…, .slices = 8, .ranks = &ranks});
///
/// ParallelTraining must outlive these layers.
class ParallelTraining final : public TrainingRanks, private ParameterUser {
 public:
  explicit ParallelTraining(ProcessGroup& group) : group_(group) {}
  ~ParallelTraining() override;

  ProcessGroup& group() const override { return group_; }
  std::unique_ptr<GradientSum> gradient_sum(std::size_t slices, std::vector<Shape> shapes,
                                            std::size_t bucket_bytes) const override;

  bool has_tables() const override { return !tables_.empty(); }
  ShardedTable* find(const Parameter& parameter) const override;
  IndexRange rows_here(std::size_t rows) const override;
  Parameter& whole_table(Parameter& here, std::size_t rows, const EmbeddingLookup& lookup) override;

  /// Fetches rows. All ranks must call it together, each with its own lookups. In first_asks(), but
  /// outside together(), only the first rank calls it. first_asks() disables max_norm.
  void fetch(std::span<const TableLookup> lookups) override;

  void add_gradient(ShardedTable& table, Gradient gradient, bool watched) const override;
  void zero_gradients() const override;
  std::vector<double> all_parts(const Parameter& parameter,
                                std::vector<double> parts) const override;
  void first_asks(const std::function<void()>& work) override;
  void together(const std::function<void()>& work) override;

 private:
  enum class Asking { kAll, kFirst };

  void forget(const Parameter& parameter) noexcept override;
  void meet();

  ProcessGroup& group_;
  std::vector<std::unique_ptr<ShardedTable>> tables_;
  Asking asking_ = Asking::kAll;
  bool scales_ = true;
};

}  // namespace rowgrad
