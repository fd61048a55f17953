#pragma once

// Explains why a row of a table moved in a run.

#include <cstddef>
#include <cstdint>
#include <string>

#include <rowgrad/examples/rowgrad/session/replayed_run.hpp>
#include <rowgrad/optim/callbacks/row_movement.hpp>

namespace rowgrad {

struct ExplainOptions {
  std::string row;         // index, token or name
  std::string table;       // name of the table; "" for the table of tokens
  std::size_t steps = 10;  // steps to show
};

/// The rows of a table.
struct RowSet {
  const std::string& table;  // name of the table
  std::size_t count;
  const RowNames& names;
  const Tokenizer& tokenizer;  // names the rows if they are tokens
};

/// Returns the row with an index, a token (verbatim, or as `rowgrad rows` prints it) or a name.
/// Throws std::invalid_argument if there is none. The message begins with `option`, and names a
/// similar row if there is one.
std::int32_t row_named(const char* option, const std::string& wanted, const RowSet& rows);

/// Trains the run and prints why the row moved.
void explain_row(ReplayedRun& replayed, const ExplainOptions& options);

/// Returns a line of text around the window's first position. Brackets mark tokens at `positions`.
std::string text_around(const RowMovement::Window& window, const Tokenizer& tokenizer);

}  // namespace rowgrad
