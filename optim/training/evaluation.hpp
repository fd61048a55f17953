#pragma once

// Computes the loss and the accuracy of a model on a data set.

#include <cstddef>
#include <functional>
#include <optional>

#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

/// Options of evaluate().
struct EvaluateOptions {
  /// The number of batches, from the start of the epoch; 0 for all.
  std::size_t batches = 0;
  /// If true, also computes the accuracy. This keeps all logits of a batch in memory.
  bool accuracy = false;
  /// The generator for a loader that draws its order (DataLoaderOptions::draw_order).
  Random* random = nullptr;
  /// Called after each batch; with ranks, after one batch on each. Return false to stop.
  std::function<bool()> after_batch = {};
  /// The ranks that share the batches; all must call evaluate(). The result is the same on any
  /// number of ranks. Null for one process.
  ProcessGroup* ranks = nullptr;
  /// The source of rows in other processes; null if all rows are in this process.
  TablePlacement* tables = nullptr;
};

/// The result of evaluate().
struct Score {
  double loss = 0;  // weighted mean over targets
  /// The unweighted share of correctly predicted targets. Nullopt if not requested, or if the model
  /// does not compute it.
  std::optional<double> accuracy = std::nullopt;
};

/// Evaluates the model on the first epoch of the loader, in evaluation mode. Returns nullopt if
/// `after_batch` returned false. Throws std::invalid_argument if all targets have weight 0.
std::optional<Score> evaluate(Model& model, const DataLoader& loader,
                              const EvaluateOptions& options = {});

}  // namespace rowgrad
