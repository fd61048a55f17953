#pragma once

// inspect_rows --why: why a row of a training run moved.

#include <cstdint>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/examples/support/options.hpp>
#include <rowgrad/optim/training/row_movement.hpp>

namespace rowgrad {

struct WhyOptions {
  std::uint64_t row = 0;
  std::string run;
  std::string from;
  std::string table = "token.weight";
  std::size_t steps = 10;
};

/// The `others` of the program, except for --corpus, are refused together with --why.
OptionTable option_table_of(WhyOptions& options, const OptionTable& others);

/// Trains the run of a checkpoint again, from its start or from an earlier checkpoint, on the same
/// text, and prints why the row has moved. Throws std::runtime_error if that ends at other values
/// of the row than the checkpoint has.
void print_why(const WhyOptions& options, const std::vector<std::string>& corpus_files);

/// A line of the window's text around the first of its positions, which are in brackets.
std::string text_around(const RowMovement::Window& window, const Tokenizer& tokenizer);

}  // namespace rowgrad
