#pragma once

// Explains why a row of a table moved in a run.

#include <cstddef>
#include <string>

#include <rowgrad/examples/rowgrad/session/replayed_run.hpp>
#include <rowgrad/optim/callbacks/row_movement.hpp>

namespace rowgrad {

struct ExplainOptions {
  std::string row;  // index, token or name
  std::string table = "token.weight";
  std::size_t steps = 10;  // steps to show
};

/// Trains the run and prints why the row moved.
void explain_row(ReplayedRun& replayed, const ExplainOptions& options);

/// Returns a line of text around the window's first position. Brackets mark tokens at `positions`.
std::string text_around(const RowMovement::Window& window, const Tokenizer& tokenizer);

}  // namespace rowgrad
