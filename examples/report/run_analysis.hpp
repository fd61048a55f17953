#pragma once

// What a trained model makes of its text, for a report; each as in page/types.d.ts.

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

namespace rowgrad {

/// The loss of each token and the tokens that were likeliest in its place, for at most `most`
/// tokens, of which up to half are from the text that the model was not trained on. Both texts are
/// cut into pieces as long as the model's context. Of a model with memories, also their gates.
/// `goes_on` is asked from time to time: if it returns false, the rest is left out. `tables`, if
/// not null, fetches rows before they are looked up.
Json text_json(LanguageModel& model, const TokenSequence& training, const TokenSequence* validation,
               const std::function<bool()>& goes_on = {}, std::size_t most = 24'000,
               TablePlacement* tables = nullptr);

/// The nearest neighbours of these tokens among themselves, and their first two principal
/// components (Pearson 1901, "On Lines and Planes of Closest Fit to Systems of Points in Space").
Json embeddings_json(const Parameter& table, const std::vector<std::int32_t>& ids);

/// The attention weights of each head on a prompt.
Json attention_json(GptModel& model, const Ids& prompt, TablePlacement* tables = nullptr);

}  // namespace rowgrad
