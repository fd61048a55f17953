#pragma once

// One id for all spellings of a token: "Apple", " apple" and "APPLE".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Returns `text` in compatibility form (NFKC, then NFD: Unicode Standard Annex 15), in lower case,
/// without accents (marks, Mn). Runs of whitespace become one space, except at the ends, unless
/// nothing else is left. Text that is not UTF-8, or folds to nothing, is returned unchanged.
std::string fold(std::string_view text);

/// Returns a canonical id for each token id; tokens with the same folded text share one. They count
/// from 0 in order of first appearance (Cheng et al. 2026, "Conditional Memory via Scalable
/// Lookup", section 2.2: fewer, better trained n-grams). For NgramHashOptions.
std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer);

}  // namespace rowgrad
