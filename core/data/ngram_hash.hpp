#pragma once

// Rows of a table for the last tokens of a text at each place (n-grams), found by hashing, as
// n-gram memories look them up (Cheng et al. 2026, "Conditional Memory via Scalable Lookup",
// arXiv:2601.07372). For each order n there are several heads, each with a part of the table to
// itself, whose size is a prime number of its own: two n-grams that share a row of one part hardly
// share one of another.
//
//   mixed = (c[t] · m[0]) xor (c[t − 1] · m[1]) xor … xor (c[t − n + 1] · m[n − 1])
//   row   = first row of the part + mixed mod size of the part
//
// c are canonical ids, or `vocabulary` before the text. The multipliers m are odd, follow from a
// seed (SplitMix64, Steele, Lea & Flood 2014), and are such that no product reaches 2^63.

#include <cstddef>
#include <cstdint>
#include <vector>

#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

struct NgramHashOptions {
  std::vector<std::size_t> orders = {2, 3};  // tokens of an n-gram, the current one included
  std::size_t heads = 4;                     // the number of heads for each order
  std::size_t rows = 100'000;  // the least number of a head's rows: the next free prime is taken
  std::uint64_t seed = 0;      // determines the multipliers
  /// For each id that of all spellings that count as one, at most `vocabulary` − 1 (see
  /// canonical_ids); empty if each stands for itself.
  std::vector<std::int32_t> canonical = {};
};

class NgramHash {
 public:
  /// That of the memory in front of `block`, one of the `blocks` of a model which have one: no two
  /// of their parts have the same size. Throws std::invalid_argument for orders, heads or rows of
  /// 0, for more rows together than ids, and canonical ids that do not fit the vocabulary.
  NgramHash(std::size_t vocabulary, const NgramHashOptions& options,
            const std::vector<std::size_t>& blocks, std::size_t block);

  /// The rows of the last `length` positions of texts [batch, positions]: [batch, length,
  /// lookups()], those of the first order first. Throws std::invalid_argument for ids that are not
  /// in the vocabulary, naming the first, and a length of more than the positions.
  Ids rows(const Ids& texts, std::size_t length) const;
  Ids rows(const Ids& texts) const {
    return rows(texts, texts.dimension() == 2 ? texts.shape(1) : 0);
  }

  /// Throws std::invalid_argument for the first id that is not in the vocabulary.
  void check_ids(const Ids& texts) const;

  std::size_t lookups() const { return sizes_.size(); }   // rows of a position: orders · heads
  std::size_t table_rows() const { return table_rows_; }  // rows of all orders and heads
  std::size_t max_order() const { return multipliers_.size(); }  // tokens in the longest n-grams

  /// Lookup i of a position is that of head i % heads() for n-grams of orders()[i / heads()]
  /// tokens.
  const std::vector<std::size_t>& orders() const { return orders_; }
  std::size_t heads() const { return heads_; }

  /// The canonical id of each token; empty if each stands for itself.
  const std::vector<std::int32_t>& canonical_ids() const { return canonical_; }

  /// The rows of each part, in the order of lookups.
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
  std::vector<std::int32_t> firsts_;  // rows of the parts
  std::vector<std::size_t> sizes_;
  std::size_t table_rows_ = 0;
};

}  // namespace rowgrad
