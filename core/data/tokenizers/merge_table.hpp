#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <rowgrad/core/base/hash.hpp>
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
  static constexpr std::int32_t kMostTokens = std::int32_t{1} << 21;

  /// Memory for append_ids, which callers reuse from piece to piece.
  class Workspace;

  /// A table without merges. Refuses a vocabulary in which some byte is no ordinary token, and one
  /// of more than kMostTokens tokens.
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
  bool makes(std::int32_t id) const { return made_[static_cast<std::size_t>(id)]; }

  /// Appends the ids of a piece of text, in time O(n log n).
  void append_ids(std::string_view piece, Workspace& workspace,
                  std::vector<std::int32_t>& ids) const;

 private:
  std::int32_t made_id(std::string_view token, const Vocabulary& vocabulary) const;
  std::size_t slot_of(std::uint64_t pair) const;
  std::uint32_t rank(std::int32_t left, std::int32_t right) const;
  void grow();
  void append_short(std::string_view piece, std::vector<std::int32_t>& ids) const;
  void append_long(std::string_view piece, Workspace& workspace,
                   std::vector<std::int32_t>& ids) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;
  std::vector<bool> made_;  // by id
  // Pairs of ids with their rank in the low bits, in open addressing: the number of slots is a
  // power of two, and at most half are taken. A slot is one word, because cache misses here
  // determine how fast new words are encoded.
  std::vector<std::uint64_t> slots_;
};

/// What append_ids() remembers while it encodes a piece.
class MergeTable::Workspace {
  friend class MergeTable;

  // A token that is still separate, or that was merged into the one before it.
  struct Node {
    std::int32_t id;
    std::uint32_t rank;  // of the merge with the next node
    std::size_t previous;
    std::size_t next;
  };
  using Candidate = std::pair<std::uint32_t, std::size_t>;  // rank, left node

  std::vector<Node> nodes_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

/// Finds the merges of a byte-pair vocabulary in texts, which must outlive it. Used once, by
/// BytePairTokenizer::train, whose comment defines the order of merges.
class BytePairTrainer {
 public:
  /// Counts the pieces of a text, which are parted from those of other texts.
  void add_text(std::string_view text);

  /// At most `count` pairs of ids in the order of merging; fewer if no neighbours are left. Ids
  /// below 256 are bytes, and pair i makes the id 256 + i.
  std::vector<std::pair<std::int32_t, std::int32_t>> train(std::int64_t count);

 private:
  // A piece of the texts. Merges never cross pieces, so equal pieces are stored once and counted.
  struct Word {
    std::string_view text;
    std::int64_t count = 0;
  };
  // A byte of a word. A token is represented by its first byte; its length leads to its neighbours.
  struct Symbol {
    std::int32_t id;    // of the token that starts here; kNone inside a token and between words
    std::size_t bytes;  // length of the token that starts or ends here
    std::int64_t frequency;  // of the word
  };
  static constexpr std::int32_t kNone = -1;
  using Pair = std::uint64_t;  // the left id in the upper half, the right id in the lower
  struct Occurrences {
    std::int64_t count = 0;            // in all texts
    std::vector<std::size_t> symbols;  // left ones that have or had this neighbour, increasing
  };
  // Ordered by count, then by the complement of the pair, so that the lower ids come first.
  using Candidate = std::pair<std::int64_t, std::uint64_t>;

  void lay_out_words();
  void merge(Pair pair, std::int32_t merged);
  void join(std::size_t left, std::size_t right);
  void separate(std::size_t left, std::size_t right);
  void add_candidate(Pair pair);

  std::unordered_map<std::string_view, std::size_t, TextHash> word_numbers_;
  std::vector<Word> words_;
  std::vector<Symbol> symbols_;  // the bytes of the words, with a boundary around each word
  std::unordered_map<Pair, Occurrences> pairs_;
  std::vector<Pair> fresh_;  // pairs that are new and not candidates yet
  std::priority_queue<Candidate> candidates_;
};

}  // namespace rowgrad
