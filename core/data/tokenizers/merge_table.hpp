#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/data/tokenizers/vocabulary.hpp>

namespace rowgrad {

/// The merges of a byte-pair vocabulary. Encoding starts from single bytes and repeatedly merges
/// the neighbours whose merge has the lowest rank, leftmost first. Source: Sennrich, Haddow & Birch
/// 2016, "Neural Machine Translation of Rare Words with Subword Units", section 3.2; on bytes,
/// Radford et al. 2019 (GPT-2), section 2.2.
class MergeTable {
 public:
  /// Two tokens that become one.
  struct Merge {
    std::int32_t left;    // id of the first token
    std::int32_t right;   // id of the second token
    std::int32_t merged;  // id of the merged token
  };

  /// The maximum number of tokens in a vocabulary.
  static constexpr std::int32_t kMaxTokens = std::int32_t{1} << 21;

  /// Scratch memory for append_ids(), reused from piece to piece.
  class Workspace {
    friend class MergeTable;

    // A token that is still separate, or that was merged into the token before it.
    struct Node {
      std::int32_t id;
      std::uint32_t previous;
      std::uint32_t next;
    };
    std::vector<Node> nodes_;
    std::vector<std::uint64_t> lowest_;
  };

  /// Creates a table without merges. Throws if some byte is not an ordinary token, or if there are
  /// more than kMaxTokens tokens.
  explicit MergeTable(const Vocabulary& vocabulary);

  /// Appends the merge with the next rank. Requires the vocabulary passed to the constructor.
  /// `left` and `right` must be bytes or made by earlier merges. Joined, they must be an ordinary
  /// token that no earlier merge makes.
  void add(std::string_view left, std::string_view right, const Vocabulary& vocabulary);

  /// Appends the merge of a line `left right`, whose bytes are written as printable text.
  void add_line(std::string_view line, const Vocabulary& vocabulary);

  /// Returns the merges in rank order.
  const std::vector<Merge>& merges() const { return merges_; }

  /// Returns true if this id is a byte or made by a merge.
  bool makes(std::int32_t id) const {
    return id >= 0 && std::cmp_less(id, made_.size()) && made_[static_cast<std::size_t>(id)];
  }

  /// Appends the ids of a piece of n bytes, in O(n log n) time.
  void append_ids(std::string_view piece, Workspace& workspace,
                  std::vector<std::int32_t>& ids) const;

 private:
  std::int32_t made_id(std::string_view token, const Vocabulary& vocabulary) const;
  std::size_t slot_of(std::uint64_t pair) const;
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  void grow();

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;
  std::vector<bool> made_;  // [id]: see makes()
  // Open-addressing table of id pairs, with the rank in the low bits. The number of slots is a
  // power of two, and at most half are taken. A slot has 64 bits, because cache misses here limit
  // how fast new pieces are encoded.
  std::vector<std::uint64_t> slots_;
};

/// Learns up to `max_merges` merges from documents, in the order defined by
/// BytePairTokenizer::train(). Returns fewer if no pairs of neighbours are left. Ids below 256 are
/// bytes, and pair i makes the id 256 + i.
std::vector<std::pair<std::int32_t, std::int32_t>> learn_merges(
    const std::vector<std::string_view>& documents, std::size_t max_merges);

}  // namespace rowgrad
