#pragma once

// What programs say of a run on a text: to the user, in the JSON file of the run, and in a report.

#include <optional>
#include <string>

#include <rowgrad/examples/support/text_run.hpp>

namespace rowgrad {

/// Text, tokens, batches and model, before training.
void print_start(const TextRun& training, const Corpus& corpus);

/// How gradients went between ranks in the last `steps` steps.
void print_exchange(const TextRun& training, const ProcessGroup& ranks, std::size_t steps);

/// What a report says before the run begins, as JSON.
std::string about_run(const CommandLine& line, const TextRun& training, const Corpus& corpus);

/// What is known at the end.
struct RunResults {
  std::optional<double> validation_loss = {}, validation_unigram_loss = {};
  std::optional<std::string> sample = {};
};

/// Options, sizes, history and results as JSON.
std::string run_json(const TextRun& training, const Corpus& corpus, const RunResults& results);

}  // namespace rowgrad
