#pragma once

// Maps the n-grams that end at each position to table rows, for n-gram memories (Cheng et al. 2026,
// "Conditional Memory via Scalable Lookup", arXiv:2601.07372). For each order n, there are `heads`
// heads. Each head has its own part of the table, whose size is a prime that no other part has. So
// n-grams that share a row of one part rarely share a row of another.
//
//   mixed = (c[t] · m[0]) xor (c[t − 1] · m[1]) xor … xor (c[t − n + 1] · m[n − 1])
//   row   = first row of the part + mixed mod size of the part
//
// c are canonical ids, or `vocabulary` before the first position. The multipliers m are odd,
// derived from a seed (SplitMix64, Steele, Lea & Flood 2014), and so small that no product reaches
// 2^63.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

struct NgramHashOptions {
  std::vector<std::size_t> orders = {2, 3};  // tokens per n-gram, including the current one
  std::size_t heads = 4;                     // heads per order
  std::size_t rows = 100'000;                // minimum rows per head; rounded up to an unused prime
  std::uint64_t seed = 0;                    // determines the multipliers
  /// The id under which each id is hashed, less than `vocabulary`: see canonical_ids(). If empty,
  /// every id is hashed as itself.
  std::vector<std::int32_t> canonical = {};
};

class NgramHash {
 public:
  /// Builds the hash of the memory in front of `block`. `blocks` lists every block with a memory;
  /// no two parts of these memories have the same size. Throws std::invalid_argument for invalid
  /// options, or if the table would have more than 2^31 − 1 rows.
  NgramHash(std::size_t vocabulary, const NgramHashOptions& options,
            const std::vector<std::size_t>& blocks, std::size_t block);

  /// Returns the rows that the last `length` positions of `tokens` [batch, positions] look up:
  /// [batch, length, lookups()]. Lookup i uses order orders()[i / heads()] and head i % heads().
  /// Throws std::invalid_argument if there are fewer than `length` positions, and as check_ids()
  /// does.
  Ids rows(const Ids& tokens, std::size_t length) const;
  /// Returns the rows of all positions.
  Ids rows(const Ids& tokens) const {
    return rows(tokens, tokens.dimension() == 2 ? tokens.shape(1) : 0);
  }

  /// Throws std::invalid_argument naming the first id outside the vocabulary.
  void check_ids(const Ids& tokens) const;

  std::size_t lookups() const { return sizes_.size(); }   // lookups per position: orders · heads
  std::size_t table_rows() const { return table_rows_; }  // number of rows of all parts
  std::size_t max_order() const { return multipliers_.size(); }  // largest order

  const std::vector<std::size_t>& orders() const { return orders_; }  // tokens per n-gram
  std::size_t heads() const { return heads_; }                        // heads per order

  /// Returns the canonical id of each token; empty if every id is its own.
  const std::vector<std::int32_t>& canonical_ids() const { return canonical_; }

  /// Returns the number of rows of each part, in the order of lookups.
  const std::vector<std::size_t>& sizes() const { return sizes_; }

 private:
  std::uint64_t canonical(std::int32_t id) const {
    return static_cast<std::uint64_t>(
        canonical_.empty() ? id : canonical_[static_cast<std::size_t>(id)]);
  }

  std::size_t vocabulary_;
  std::vector<std::size_t> orders_;
  std::size_t heads_;
  std::vector<std::int32_t> canonical_;
  std::vector<std::uint64_t> multipliers_;
  std::vector<std::int32_t> firsts_;  // first row of each part
  std::vector<std::size_t> sizes_;
  std::size_t table_rows_ = 0;
};

}  // namespace rowgrad
