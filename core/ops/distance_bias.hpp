#pragma once

// What attention adds by the distance from a query back to its key: a bias to the score, as a table
// [heads, distances] for AttentionOptions::distance_bias, or rows to keys and values, for
// AttentionOptions::relative. They tell positions apart without any being added to the tokens.

#include <cstddef>
#include <vector>

#include <rowgrad/core/autograd/variable.hpp>

namespace rowgrad {

/// ALiBi's slopes (Press, Smith & Lewis 2022): 2^(−8 h / heads), h = 1 … heads, if `heads` is a
/// power of two. Otherwise those of the next smaller power of two, then every other one of the next
/// larger power. Throws std::invalid_argument for 0 heads.
std::vector<double> alibi_slopes(std::size_t heads);

/// −slope · distance: [heads, length]. Throws what alibi_slopes throws.
Tensor alibi_bias(std::size_t heads, std::size_t length);

/// The bucket of a distance (Raffel et al. 2020, "T5", one-directional): half of the buckets are
/// for one distance each, the others grow with its logarithm, and the last one is for all distances
/// from about `max_distance` on. Throws std::invalid_argument unless there are two or more buckets
/// and max_distance > buckets / 2.
std::size_t t5_bucket(std::size_t distance, std::size_t buckets, std::size_t max_distance);

/// A table [buckets, heads] → [heads, length]: the row of each distance's bucket. Its gradient has
/// only the rows of buckets that were reached. Throws what t5_bucket throws, and
/// std::invalid_argument for a table of another rank.
Variable t5_bias(const Variable& table, std::size_t length, std::size_t max_distance = 128);

/// A table [2k + 1, width] of rows for the places of a key from its query, −k to k, and farther
/// ones like those (Shaw, Uszkoreit & Vaswani 2018) → the rows for keys that are not later, in a
/// sequence of `length`: [min(length, k + 1), width], the farthest first. Its gradient has only
/// those rows. Throws std::invalid_argument for a table of another rank or with an even number of
/// rows.
Variable relative_rows(const Variable& table, std::size_t length);

}  // namespace rowgrad
