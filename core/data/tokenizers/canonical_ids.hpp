#pragma once

// One id for all spellings of a token: "Apple", " apple" and "APPLE".

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>

namespace rowgrad {

/// Returns `text` in compatibility form (NFKD: Unicode Standard Annex 15) and lower case, without
/// accents (category M) or whitespace at the ends. Other runs of whitespace, and text of only
/// whitespace, become one space. Text that is not UTF-8, or folds to nothing, stays unchanged.
std::string fold(std::string_view text);

/// Returns the canonical id of each token, for NgramHashOptions::canonical. Tokens with equal
/// folded text share an id. Canonical ids count from 0 in order of appearance. Sharing gives
/// fewer, better trained n-grams (Cheng et al. 2026, "Conditional Memory via Scalable Lookup",
/// section 2.2).
std::vector<std::int32_t> canonical_ids(const Tokenizer& tokenizer);

}  // namespace rowgrad
