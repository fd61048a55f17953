#pragma once

// Reads a text with a trained model, for reports. page/types.d.ts describes the JSON.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/base/columns.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/layers/gpt/gpt_model.hpp>
#include <rowgrad/layers/language_model.hpp>
#include <rowgrad/optim/callbacks/run_log.hpp>

namespace rowgrad {

/// The gates of a model's memory.
struct MemoryGates {
  std::size_t block = 0;            // in front of which the memory is
  std::vector<double> values = {};  // at each token, from 0 to 1
};

/// Reads the first `most` tokens of a text, in windows as long as the model's context. Returns the
/// gates of each memory, in the order of blocks. `tables`, if not null, fetches rows before they
/// are looked up.
std::vector<MemoryGates> read_gates(LanguageModel& model, const TokenSequence& text,
                                    std::uint64_t most = 24'000, TablePlacement* tables = nullptr);

/// Returns the loss of each token and the tokens that were likeliest in its place, for at most
/// `most` tokens, of which up to half are from the text that the model was not trained on. Both
/// texts are cut into pieces as long as the model's context. A model with memories also has the
/// gates. `goes_on` is asked from time to time: if it returns false, the rest is left out. `tables`
/// is as in read_gates().
Json text_json(LanguageModel& model, const TokenSequence& training, const TokenSequence* validation,
               const std::function<bool()>& goes_on = {}, std::size_t most = 24'000,
               TablePlacement* tables = nullptr);

/// Returns the nearest neighbours of these tokens among themselves, and their first two principal
/// components (Pearson 1901, "On Lines and Planes of Closest Fit to Systems of Points in Space").
Json embeddings_json(const Parameter& table, const std::vector<std::int32_t>& ids);

/// Returns the attention weights of each head on a prompt.
Json attention_json(GptModel& model, const Ids& prompt, TablePlacement* tables = nullptr);

/// A trained model and its text.
struct AnalysedRun {
  LanguageModel& model;
  const TokenSequence& training;
  const TokenSequence* validation;     // null for none
  std::uint64_t trained_tokens;        // in all steps
  const Ids& prompt;                   // its attention is shown
  TablePlacement* tables;              // as in read_gates()
  std::function<bool()> goes_on = {};  // as in text_json()
};

/// Adds what a page shows of the model at the end of a run to its log: the embeddings of the most
/// frequent tokens, the text with its losses, and the attention on the prompt of a GPT.
void add_analysis(RunLog& log, RowHistory& rows, const AnalysedRun& run);

}  // namespace rowgrad
