#pragma once

// inspect_rows --why: why a row of a training run moved.

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace rowgrad {

struct WhyOptions {
  std::int32_t row = -1;
  std::string run;
  std::string from;
  std::string table = "token.weight";
  std::size_t steps = 10;
};

/// Those before them, except for --corpus, are refused together with --why.
void add_why_options(CLI::App& app, WhyOptions& options);

/// Trains the run of a checkpoint again, from its start or from an earlier checkpoint, on the same
/// text, and prints why the row has moved. Throws std::runtime_error if that ends at other values
/// of the row than the checkpoint has.
void print_why(const WhyOptions& options, const std::string& corpus);

}  // namespace rowgrad
