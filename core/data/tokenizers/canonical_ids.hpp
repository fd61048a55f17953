#pragma once

// Tokens whose spellings count as one: "Apple", " apple" and "APPLE".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// The text in compatibility form (NFKC, then NFD: Unicode Standard Annex 15) without accents
/// (marks, Mn), in lower case, each run of white space a single space, and none at its ends unless
/// it is all there is. What is no UTF-8, or folds to nothing, stays as it is.
std::string fold(std::string_view text);

/// For each id the canonical one of all whose tokens fold to the same text, counted from 0 in the
/// order of first tokens (Cheng et al. 2026, "Conditional Memory via Scalable Lookup", section 2.2:
/// fewer, better trained n-grams). For NgramHashOptions.
std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer);

}  // namespace rowgrad
