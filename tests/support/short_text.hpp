#pragma once

#include <memory>
#include <string>

#include "tests/support/checkpoints.hpp"
#include <rowgrad/examples/rowgrad/session/data_files.hpp>
#include <rowgrad/examples/rowgrad/session/session.hpp>
#include <rowgrad/examples/rowgrad/session/tokenizers.hpp>

namespace rowgrad::testing {

/// Returns a text for a few dozen steps.
inline std::string short_text() { return std::string(kBuiltinStory).substr(0, 2500); }

/// Returns options for a next-token model with windows of 16 tokens.
inline TrainOptions small_run() {
  TrainOptions options;
  options.gpt.context = 16;
  options.gpt.width = 8;
  options.window = 3;
  options.hidden = {16};
  options.epochs = 3;
  return options;
}

/// Starts a run on short_text().
inline std::unique_ptr<Session> start(const TrainOptions& options) {
  return Session::create(options, make_tokenizer(options.tokenizer, short_text(), 300),
                         short_text());
}

/// Resumes a run from a file.
inline std::unique_ptr<Session> resume_from(const std::filesystem::path& path,
                                            const Corpus& corpus) {
  return Session::resume(read_safetensors(path), path.string(), corpus);
}

/// Returns the state of a run, except the times in its history.
inline std::string fingerprint(const Session& training) {
  return bits_of(without(training.run().state_dict(), "history.tokens_per_second"));
}

}  // namespace rowgrad::testing
