#pragma once

// Analyses a corpus with a trained model, for reports. page/types.d.ts describes the JSON.

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

/// The gates of an n-gram memory.
struct MemoryGates {
  std::size_t block = 0;            // the block after the memory
  std::vector<double> values = {};  // one for each token, from 0 to 1
};

/// Runs the model, in windows as long as its context, on the first `most` tokens of a corpus.
/// Returns the gates of each memory, in the order of blocks. If not null, `tables` fetches rows
/// before they are looked up.
std::vector<MemoryGates> read_gates(Model& model, const TokenSequence& text,
                                    std::uint64_t most = 24'000, TablePlacement* tables = nullptr);

/// Returns the loss of each token and the most likely tokens at its position, for at most `most`
/// tokens. Up to half of these tokens are validation tokens. Windows have at most the length of the
/// model's context. Includes the gates of memories. Calls `should_continue` from time to time, and
/// omits the rest if it returns false. `tables` is as in read_gates().
Json text_json(LanguageModel& model, const TokenSequence& training, const TokenSequence* validation,
               const std::function<bool()>& should_continue = {}, std::size_t most = 24'000,
               TablePlacement* tables = nullptr);

/// Returns the nearest neighbours of each token in `ids` among the others, and the first two
/// principal components (Pearson 1901, "On Lines and Planes of Closest Fit to Systems of Points in
/// Space").
Json embeddings_json(const Parameter& table, const std::vector<std::int32_t>& ids);

/// Returns the attention weights of each head for a prompt.
Json attention_json(GptModel& model, const Ids& prompt, TablePlacement* tables = nullptr);

/// A trained model and its corpus.
struct AnalysedRun {
  Model& model;
  const TokenSequence& training;
  const TokenSequence* validation;             // may be null
  std::uint64_t trained_tokens;                // total of all steps
  const Ids& prompt;                           // for attention_json()
  TablePlacement* tables;                      // as in read_gates()
  std::function<bool()> should_continue = {};  // as in text_json()
};

/// Adds the analysis of a trained model to the log of its run: the embeddings of the most frequent
/// tokens, the corpus with the losses of a language model, and the attention of a GPT for the
/// prompt.
void add_analysis(RunLog& log, RowHistory& rows, const AnalysedRun& run);

}  // namespace rowgrad
