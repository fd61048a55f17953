#pragma once

#include "tests/test.hpp"
#include <rowgrad/core/data/ngram_counts.hpp>

namespace rowgrad::testing {

inline Ids two_texts() { return ids({2, 4}, {1, 2, 1, 2, 3, 2, 1, 2}); }

// Returns the n-grams of each row with their counts.
inline std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::uint64_t>> counted(
    const NgramHash& hash, const Ids& batch) {
  std::map<std::int32_t, std::map<std::vector<std::int32_t>, std::uint64_t>> all;
  const Ids rows = hash.rows(batch);
  const std::size_t length = batch.shape(1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t token = i / hash.lookups();
    const std::size_t order = hash.orders()[i % hash.lookups() / hash.heads()];
    const std::size_t tokens = std::min(order, token % length + 1);
    ++all[rows.data()[i]][{batch.data() + token + 1 - tokens, batch.data() + token + 1}];
  }
  return all;
}

}  // namespace rowgrad::testing
