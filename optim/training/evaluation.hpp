#pragma once

// The loss and the accuracy of a model on a whole data set.

#include <cstddef>
#include <functional>
#include <optional>

#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/data/data_loader.hpp>
#include <rowgrad/layers/model.hpp>

namespace rowgrad {

/// Options of evaluate().
struct EvaluateOptions {
  /// The number of batches, the first ones of an epoch; 0 for all.
  std::size_t batches = 0;
  /// If true, the accuracy is also found. This keeps all logits of a batch in memory.
  bool accuracy = false;
  /// The generator for a loader that draws its order (DataLoaderOptions::draw_order).
  Random* random = nullptr;
  /// Called after each batch, or after one batch on each rank; false ends without a result.
  std::function<bool()> after_batch = {};
  /// The processes that share the batches, all of which call evaluate(); null if one is alone. The
  /// result is the same.
  ProcessGroup* ranks = nullptr;
  /// Fetches rows of tables before they are looked up; null if all rows are here.
  TablePlacement* tables = nullptr;
};

/// The result of evaluate().
struct Score {
  double loss = 0;  // the mean over the targets that count, weighted
  /// The share of targets that the model gets right, whatever their weights; none if it was not
  /// asked for, or if the model does not count that.
  std::optional<double> accuracy = std::nullopt;
};

/// The loss over the first epoch of the loader, in evaluation mode. Throws std::invalid_argument if
/// no target counts.
std::optional<Score> evaluate(Model& model, const DataLoader& loader,
                              const EvaluateOptions& options = {});

}  // namespace rowgrad
