#include <algorithm>
#include <optional>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>
#include <rowgrad/core/data/tokenizers/merge_table.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

// --- Encoding ------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kFirstSlots = 1024;

// A slot has 21 bits for each id and 22 for the rank, so that a rank can never equal kNoRank.
constexpr int kIdBits = 21;
static_assert(MergeTable::kMaxTokens == 1 << kIdBits);
constexpr int kRankBits = 22;
constexpr std::uint32_t kNoRank = (1U << kRankBits) - 1;
constexpr std::uint64_t kFree = ~std::uint64_t{0};

// Tournament values: a rank in the upper bits, a position in the piece in the lower 32.
constexpr int kPositionBits = 32;
constexpr std::uint64_t kNever = std::uint64_t{kNoRank} << kPositionBits;

std::uint64_t packed_pair(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << kIdBits | static_cast<std::uint64_t>(right);
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary)
    : made_(static_cast<std::size_t>(vocabulary.size())), slots_(kFirstSlots, kFree) {
  check_argument(vocabulary.size() <= kMaxTokens, "MergeTable: there are ", vocabulary.size(),
                 " tokens, expected at most ", kMaxTokens);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string token(1, static_cast<char>(byte));
    const std::optional<std::int32_t> id = vocabulary.find(token);
    check_argument(id.has_value(), "MergeTable: the byte ", in_quotes(token), " has no id");
    byte_ids_[byte] = *id;
    made_[static_cast<std::size_t>(*id)] = true;
  }
}

void MergeTable::add(std::string_view left, std::string_view right, const Vocabulary& vocabulary) {
  const std::int32_t left_id = made_id(left, vocabulary);
  const std::int32_t right_id = made_id(right, vocabulary);
  std::string together(left);
  together += right;
  const std::optional<std::int32_t> merged = vocabulary.find(together);
  check_argument(merged.has_value(), "MergeTable: the merged token ", in_quotes(together),
                 " has no id");
  check_argument(!makes(*merged), "MergeTable: the token ", in_quotes(together),
                 " is already made by an earlier merge");
  if (2 * (merges_.size() + 1) > slots_.size()) grow();
  const std::uint64_t pair = packed_pair(left_id, right_id);
  slots_[slot_of(pair)] = pair << kRankBits | merges_.size();
  merges_.push_back({left_id, right_id, *merged});
  made_[static_cast<std::size_t>(*merged)] = true;
}

void MergeTable::add_line(std::string_view line, const Vocabulary& vocabulary) {
  const std::size_t blank = line.find(' ');
  check_argument(blank != line.npos && line.find(' ', blank + 1) == line.npos, in_quotes(line),
                 ": expected two tokens with one space between them");
  add(bytes_from_printable(line.substr(0, blank)), bytes_from_printable(line.substr(blank + 1)),
      vocabulary);
}

std::int32_t MergeTable::made_id(std::string_view token, const Vocabulary& vocabulary) const {
  const std::optional<std::int32_t> id = vocabulary.find(token);
  check_argument(id && makes(*id), "MergeTable: the merge uses ", in_quotes(token),
                 ", expected a byte or a token made by an earlier merge");
  return *id;
}

// Returns the slot of the pair or, if it is not in the table, the free slot where it would go.
std::size_t MergeTable::slot_of(std::uint64_t pair) const {
  std::size_t slot = (pair * 0x9E3779B97F4A7C15) >> 32;
  for (;; ++slot) {
    slot &= slots_.size() - 1;
    if (slots_[slot] >> kRankBits == pair || slots_[slot] == kFree) return slot;
  }
}

std::uint32_t MergeTable::rank(std::int32_t left, std::int32_t right) const {
  return static_cast<std::uint32_t>(slots_[slot_of(packed_pair(left, right))]) & kNoRank;
}

void MergeTable::grow() {
  std::vector<std::uint64_t> old(2 * slots_.size(), kFree);
  old.swap(slots_);
  for (const std::uint64_t slot : old) {
    if (slot != kFree) slots_[slot_of(slot >> kRankBits)] = slot;
  }
}

// Runs a tournament among the tokens by the rank of each token's merge with the next token. The
// leaves are lowest[size + i], each inner node is the lower of its two children, and lowest[1] is
// the winner. A merge changes three leaves, so it takes O(log n) time.
void MergeTable::append_ids(std::string_view piece, Workspace& workspace,
                            std::vector<std::int32_t>& ids) const {
  if (piece.empty()) return;
  const auto size = static_cast<std::uint32_t>(piece.size());
  check_argument(size == piece.size(), "encode: a piece has ", piece.size(),
                 " bytes, expected less than 2^32");
  workspace.nodes_.resize(size);
  workspace.lowest_.resize(2 * piece.size());
  Workspace::Node* const nodes = workspace.nodes_.data();
  std::uint64_t* const lowest = workspace.lowest_.data();
  // Returns a tournament value. Equal ranks are ordered from left to right.
  const auto candidate = [&](std::uint32_t left) {
    const std::uint32_t right = nodes[left].next;
    return std::uint64_t{right < size ? rank(nodes[left].id, nodes[right].id) : kNoRank}
               << kPositionBits |
           left;
  };
  const auto replace = [&](std::uint32_t leaf, std::uint64_t value) {
    std::size_t node = std::size_t{size} + leaf;
    for (lowest[node] = value; node > 1; lowest[node] = value) {
      value = std::min(value, lowest[node ^ 1]);
      node /= 2;
    }
  };

  for (std::uint32_t i = 0; i < size; ++i)
    nodes[i] = {byte_ids_[static_cast<std::uint8_t>(piece[i])], i - 1, i + 1};
  for (std::uint32_t i = 0; i < size; ++i) lowest[std::size_t{size} + i] = candidate(i);
  for (std::size_t i = size; --i > 0;) lowest[i] = std::min(lowest[2 * i], lowest[2 * i + 1]);
  for (;;) {
    const std::uint64_t rank = lowest[1] >> kPositionBits;
    const auto left = static_cast<std::uint32_t>(lowest[1]);
    if (rank == kNoRank) break;
    Workspace::Node& node = nodes[left];
    replace(node.next, kNever);
    node.id = merges_[rank].merged;
    node.next = nodes[node.next].next;
    if (node.next < size) nodes[node.next].previous = left;
    replace(left, candidate(left));
    if (left > 0) replace(node.previous, candidate(node.previous));
  }
  for (std::uint32_t i = 0; i < size; i = nodes[i].next) ids.push_back(nodes[i].id);
}

// --- Training ------------------------------------------------------------------------------------

namespace {

// A pair of ids: the left id in the upper half, the right id in the lower.
using Pair = std::uint64_t;

Pair pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<Pair>(left) << 32 | static_cast<Pair>(right);
}

// A piece of the documents, as tokens. Merges never cross pieces, so equal pieces are stored once.
struct Word {
  std::vector<std::int32_t> ids;
  std::int64_t count;
};

// The occurrences of a pair of neighbours.
struct Neighbours {
  std::int64_t count = 0;          // occurrences in all documents
  std::vector<std::size_t> words;  // words that have, or once had, this pair
};

// The words of the documents and their pairs of neighbours, updated by each merge.
class WordPairs {
 public:
  explicit WordPairs(const std::vector<std::string_view>& documents) {
    std::unordered_map<std::string_view, std::int64_t, StringHash> counts;
    for (const std::string_view document : documents)
      for (std::size_t begin = 0, end = 0; begin < document.size(); begin = end) {
        end = gpt2_piece_end(document, begin);
        ++counts[document.substr(begin, end - begin)];
      }
    for (const auto& [piece, count] : counts) {
      Word& word = words_.emplace_back(Word{{}, count});
      for (const char byte : piece) word.ids.push_back(static_cast<std::uint8_t>(byte));
      for (std::size_t i = 0; i + 1 < piece.size(); ++i)
        join(word.ids[i], word.ids[i + 1], words_.size() - 1);
    }
  }

  std::int64_t count(Pair pair) const { return pairs_.at(pair).count; }

  // Returns the pairs that were added since the last call.
  std::vector<Pair> take_fresh() { return std::exchange(fresh_, {}); }

  // Replaces each pair `left`, `right` with `merged`, in each word from left to right.
  void merge(std::int32_t left, std::int32_t right, std::int32_t merged) {
    for (const std::size_t word : std::exchange(pairs_.at(pair_of(left, right)).words, {})) {
      std::vector<std::int32_t>& ids = words_[word].ids;
      std::size_t size = 0;  // length of the merged part
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] != left || i + 1 == ids.size() || ids[i + 1] != right) {
          ids[size++] = ids[i];
          continue;
        }
        if (size > 0) {
          separate(ids[size - 1], left, word);
          join(ids[size - 1], merged, word);
        }
        if (++i + 1 < ids.size()) {
          separate(right, ids[i + 1], word);
          join(merged, ids[i + 1], word);
        }
        ids[size++] = merged;
      }
      ids.resize(size);
    }
  }

 private:
  void join(std::int32_t left, std::int32_t right, std::size_t word) {
    Neighbours& pair = pairs_[pair_of(left, right)];
    if (pair.words.empty()) fresh_.push_back(pair_of(left, right));
    if (pair.words.empty() || pair.words.back() != word) pair.words.push_back(word);
    pair.count += words_[word].count;
  }
  void separate(std::int32_t left, std::int32_t right, std::size_t word) {
    pairs_.at(pair_of(left, right)).count -= words_[word].count;
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, Neighbours> pairs_;
  std::vector<Pair> fresh_;
};

}  // namespace

std::vector<std::pair<std::int32_t, std::int32_t>> learn_merges(
    const std::vector<std::string_view>& documents, std::size_t max_merges) {
  WordPairs pairs(documents);
  // Ordered by count, then by the complement of the pair, so that lower ids come first.
  std::priority_queue<std::pair<std::int64_t, Pair>> candidates;
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
  while (merges.size() < max_merges) {
    for (const Pair pair : pairs.take_fresh()) candidates.emplace(pairs.count(pair), ~pair);
    if (candidates.empty() || candidates.top().first == 0) break;
    const auto [expected, complement] = candidates.top();
    candidates.pop();
    if (const std::int64_t now = pairs.count(~complement); now != expected) {
      candidates.emplace(now, complement);  // other merges have changed the count
      continue;
    }
    const auto left = static_cast<std::int32_t>(~complement >> 32);
    const auto right = static_cast<std::int32_t>(~complement & 0xFFFFFFFF);
    pairs.merge(left, right, static_cast<std::int32_t>(256 + merges.size()));
    merges.emplace_back(left, right);
  }
  return merges;
}

}  // namespace rowgrad
