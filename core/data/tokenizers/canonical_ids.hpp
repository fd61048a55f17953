#pragma once

// One id for all spellings of a token: "Apple", " apple" and "APPLE".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Returns `text` in compatibility form (NFKD: Unicode Standard Annex 15) and lower case, without
/// accents (category M) and without whitespace at the ends. Other runs of whitespace, and text of
/// only whitespace, become one space. Returns text that is not UTF-8, or folds to nothing,
/// unchanged.
std::string fold(std::string_view text);

/// Returns a canonical id for each token id; tokens with the same folded text share one. They count
/// from 0 in order of first appearance (Cheng et al. 2026, "Conditional Memory via Scalable
/// Lookup", section 2.2: fewer, better trained n-grams). For NgramHashOptions.
std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer);

}  // namespace rowgrad
