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
/// the neighbours whose merge has the lowest rank, the leftmost first.
/// Source: Sennrich, Haddow & Birch 2016, "Neural Machine Translation of Rare Words with Subword
/// Units", section 3.2; on bytes, Radford et al. 2019 (GPT-2), section 2.2.
class MergeTable {
 public:
  /// Two tokens become one.
  struct Merge {
    std::int32_t left;    // the id of the first token
    std::int32_t right;   // the id of the second token
    std::int32_t merged;  // the id of the token that both become
  };

  /// The largest number of tokens in a vocabulary.
  static constexpr std::int32_t kMaxTokens = std::int32_t{1} << 21;

  /// Memory for append_ids, which callers reuse from piece to piece.
  class Workspace {
    friend class MergeTable;

    // A token that is still separate, or that was merged into the one before it.
    struct Node {
      std::int32_t id;
      std::uint32_t previous;
      std::uint32_t next;
    };
    std::vector<Node> nodes_;
    std::vector<std::uint64_t> lowest_;
  };

  /// A table without merges. Refuses a vocabulary in which some byte is no ordinary token, and one
  /// of more than kMaxTokens tokens.
  explicit MergeTable(const Vocabulary& vocabulary);

  /// Appends the merge with the next rank; the vocabulary is that of the constructor. `left` and
  /// `right` must be bytes or made by earlier merges, and together an ordinary token that no
  /// earlier merge makes.
  void add(std::string_view left, std::string_view right, const Vocabulary& vocabulary);

  /// The same for a line of a file, `left right`, in which bytes are written as printable text.
  void add_line(std::string_view line, const Vocabulary& vocabulary);

  /// The merges in the order of their ranks.
  const std::vector<Merge>& merges() const { return merges_; }

  /// Whether the id is that of a byte or made by a merge, so that encoding can produce it.
  bool makes(std::int32_t id) const {
    return id >= 0 && std::cmp_less(id, made_.size()) && made_[static_cast<std::size_t>(id)];
  }

  /// Appends the ids of a piece of text, in time O(n log n).
  void append_ids(std::string_view piece, Workspace& workspace,
                  std::vector<std::int32_t>& ids) const;

 private:
  std::int32_t made_id(std::string_view token, const Vocabulary& vocabulary) const;
  std::size_t slot_of(std::uint64_t pair) const;
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  void grow();

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;
  std::vector<bool> made_;  // by id
  // Pairs of ids with their rank in the low bits, in open addressing: the number of slots is a
  // power of two, and at most half are taken. A slot is one word, because cache misses here
  // determine how fast new words are encoded.
  std::vector<std::uint64_t> slots_;
};

/// Finds the merges of a byte-pair vocabulary in texts: at most so many pairs of ids in the order
/// of merging, which BytePairTokenizer::train defines; fewer if no neighbours are left. Ids below
/// 256 are bytes, and pair i makes the id 256 + i.
std::vector<std::pair<std::int32_t, std::int32_t>> learn_merges(
    const std::vector<std::string_view>& texts, std::size_t most);

}  // namespace rowgrad
