#pragma once

// Explains how one row of a table moved: in which steps, because of which windows of the corpus,
// and how much by momentum and weight decay.
//
//   RowMovement movement(model, model.token.weight, 17);
//   run.add(movement);
//   run.train();
//   for (const RowMovement::Step& step : movement.summary().steps) …
//
// The movement of a row is the vector sum of its movements in all steps. The share of a step is the
// length of its movement in the direction of this sum, divided by the length of the sum. Shares add
// up to 1. A step that moved the row back has a negative share. With momentum, a step with a
// gradient also moves the row by earlier gradients.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// The limits of a RowMovement. A RowMovement keeps the steps that moved the row farthest, and
/// prefers steps that looked up the row. Its memory does not grow with the run.
struct RowMovementOptions {
  std::size_t steps = 20;   // maximum number of kept steps
  std::size_t windows = 4;  // maximum number of windows per step
};

class RowMovement : public TrainingCallback {
 public:
  /// A window that looked the row up, at some of its positions.
  struct Window {
    std::vector<std::int32_t> tokens;    // ids of the whole window
    std::vector<std::size_t> positions;  // positions that looked the row up
  };

  /// A step in which the row had a gradient.
  struct Step {
    std::size_t step = 0;         // counted from 1
    std::size_t lookups = 0;      // lookups of the row in this step
    double gradient_norm = 0;     // norm of the gradient before clipping
    double moved = 0;             // distance moved, except by weight decay
    double share = 0;             // share of the row's whole movement
    std::vector<Window> windows;  // some windows that looked the row up
  };

  /// The statistics of all steps so far.
  struct Summary {
    double moved = 0;               // distance of the row from its start
    std::size_t with_gradient = 0;  // number of steps with a gradient
    std::size_t without = 0;        // number of steps without a gradient
    std::size_t lookups = 0;        // number of lookups of the row

    double by_gradients = 0;  // share of movement in steps with a gradient
    double by_momentum = 0;   // share of movement in steps without a gradient
    double by_decay = 0;      // share of movement by weight decay
    bool knows_decay = true;  // if false, decay is included in the other two shares
    std::vector<Step> steps;  // the kept steps in ascending order
  };

  /// Borrows a table (EmbeddingTable::table) of the model. Only rows of tokens and n-grams have
  /// windows; an n-gram's position is its last token. Throws std::invalid_argument if the model
  /// does not have the table, or the table does not have the row.
  RowMovement(const Layer& model, const Parameter& table, std::int32_t row,
              const RowMovementOptions& options = {});

  /// Returns a summary of all steps.
  Summary summary() const;

  void after_backward(const TrainingRun&, const Tape& tape) override;
  void before_update(const TrainingRun& run) override;
  void after_step(const TrainingRun& run, const StepResult& result) override;
  CallbackNeeds needs() const override { return {.gradients = true}; }

 private:
  struct KeptStep {
    Step step;
    std::vector<double> movement;
  };

  std::vector<double> read(const TrainingRun& run) const;
  void keep(KeptStep kept);

  const Parameter* table_;
  const Parameter* trained_ = nullptr;  // the optimizer's parameter for the table
  std::int32_t row_;
  RowMovementOptions options_;
  std::vector<double> start_;
  std::vector<double> latest_;
  std::vector<double> by_gradients_;  // sum over steps, like the next two
  std::vector<double> by_momentum_;
  std::vector<double> by_decay_;
  Summary counts_;
  Step now_;
  bool has_gradient_ = false;
  std::optional<double> decay_;  // fraction that decay takes; nullopt if unknown
  std::vector<KeptStep> kept_;
};

}  // namespace rowgrad
