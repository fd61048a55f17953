#pragma once

// Why one row of a table moved: in which steps, by which windows of the text, and how much of its
// way momentum and weight decay made.
//
//   RowMovement movement(model, model.token.weight, 17);
//   run.add(movement);
//   run.train();
//   for (const RowMovement::Step& step : movement.summary().steps) …
//
// What a row has moved is the sum of what it moved in each step. The share of a step is the length
// of its part in the direction of that sum, so that all shares add up to 1: that of a step which
// moved the row back is negative. Where an optimizer has momentum, a step with a gradient also
// moves the row by earlier ones.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// How much is kept: the steps that moved the row farthest, those that looked it up before others,
/// and windows of each. Memory is that of
/// this many rows and windows, however long the run is.
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
    std::vector<Window> windows;  // some of those that looked the row up
  };

  /// All steps so far, in numbers.
  struct Summary {
    double moved = 0;               // distance from where the row began
    std::size_t with_gradient = 0;  // the number of steps with a gradient
    std::size_t without = 0;        // that of steps without one, in which it may move
    std::size_t lookups = 0;        // how often the row was looked up

    double by_gradients = 0;  // shares: of all steps with a gradient, of the others,
    double by_momentum = 0;   // see above
    double by_decay = 0;      // and of weight decay in either,
    bool knows_decay = true;  // unless that is not known, and counts to the other two
    std::vector<Step> steps;  // those that are kept, in the order of time
  };

  /// Borrows the table (EmbeddingTable::table) of the model. Rows of tokens and of n-grams, which
  /// are looked up at their last token, have windows. Throws std::invalid_argument for a table that
  /// is none of the model, and a row that it does not have.
  RowMovement(const Layer& model, const Parameter& table, std::int32_t row,
              const RowMovementOptions& options = {});

  Summary summary() const;  // the summary of the steps so far

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
  const Parameter* trained_ = nullptr;  // in place of the table
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
