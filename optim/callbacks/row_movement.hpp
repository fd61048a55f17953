#pragma once

// Explains how one row of a table moved: in which steps, by which windows of the corpus, and how
// much by momentum and weight decay.
//
//   RowMovement movement(model, model.token.weight, 17);
//   run.add(movement);
//   run.train();
//   for (const RowMovement::Step& step : movement.summary().steps) …
//
// The movement of a row is the sum of its movements in all steps. The share of a step is the length
// of its movement in the direction of that sum. All shares add up to 1, and the share of a step
// that moved the row back is negative. If an optimizer has momentum, a step with a gradient also
// moves the row by earlier gradients.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// Limits of what is kept: the steps that moved the row farthest, steps with lookups first, and
/// some windows of each step. Memory does not grow with the length of the run.
struct RowMovementOptions {
  std::size_t steps = 20;   // the most steps that are kept
  std::size_t windows = 4;  // the most windows of each of them
};

class RowMovement : public TrainingCallback {
 public:
  /// A window that looked the row up, at some of its positions.
  struct Window {
    std::vector<std::int32_t> tokens;    // the ids of the whole window
    std::vector<std::size_t> positions;  // where in it the row was looked up
  };

  /// A step in which the row had a gradient.
  struct Step {
    std::size_t step = 0;         // counted from 1
    std::size_t lookups = 0;      // how often its batch looked the row up
    double gradient_norm = 0;     // the norm of the gradient before clipping
    double moved = 0;             // distance, without what weight decay took
    double share = 0;             // its share of the row's whole movement
    std::vector<Window> windows;  // some of the windows that looked the row up
  };

  /// The statistics of all steps so far.
  struct Summary {
    double moved = 0;               // distance from where the row began
    std::size_t with_gradient = 0;  // the number of steps with a gradient
    std::size_t without = 0;        // the number of steps without a gradient
    std::size_t lookups = 0;        // the number of lookups of the row

    double by_gradients = 0;  // share of the steps with a gradient
    double by_momentum = 0;   // share of the steps without one
    double by_decay = 0;      // share of weight decay in all steps
    bool knows_decay = true;  // false if the decay is not known, and part of the other two shares
    std::vector<Step> steps;  // the kept steps, in the order of time
  };

  /// Borrows the table (EmbeddingTable::table) of the model. Rows of tokens have windows, and rows
  /// of n-grams, which are looked up at their last token. Throws std::invalid_argument if the model
  /// does not have the table, or the table does not have the row.
  RowMovement(const Layer& model, const Parameter& table, std::int32_t row,
              const RowMovementOptions& options = {});

  /// Returns the summary of the steps so far.
  Summary summary() const;

  void after_backward(const TrainingRun&, const Tape& tape) override;
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  struct KeptStep {
    Step step;
    std::vector<double> way;
  };

  std::vector<double> read(const TrainingRun& run) const;
  void keep(KeptStep kept);

  const Parameter* table_;
  const Parameter* trained_ = nullptr;  // the optimizer's parameter for the table
  std::int32_t row_;
  RowMovementOptions options_;
  std::vector<double> start_;
  std::vector<double> latest_;
  std::vector<double> by_gradients_;  // sums over steps
  std::vector<double> by_momentum_;
  std::vector<double> by_decay_;
  Summary counts_;
  Step now_;
  bool has_gradient_ = false;
  std::optional<double> decay_;  // the share of each value; none if it is not known
  std::vector<KeptStep> kept_;
};

}  // namespace rowgrad
