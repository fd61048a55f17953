#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>
#include <rowgrad/core/data/tokenizers/merge_table.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

// --- Encoding ------------------------------------------------------------------------------------

namespace {

constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kShort = 32;  // bytes up to which scanning all pairs beats a queue

// A slot has 21 bits for each id and 22 for the rank, so that a rank can never be kNoRank.
constexpr int kIdBits = 21;
static_assert(MergeTable::kMostTokens == 1 << kIdBits);
constexpr int kRankBits = 22;
constexpr std::uint32_t kNoRank = (1U << kRankBits) - 1;
constexpr std::uint64_t kFree = ~std::uint64_t{0};

std::uint64_t packed_pair(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << kIdBits | static_cast<std::uint64_t>(right);
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary)
    : made_(static_cast<std::size_t>(vocabulary.size())), slots_(kFirstSlots, kFree) {
  check_argument(vocabulary.size() <= kMostTokens, "byte pairs: ", vocabulary.size(),
                 " tokens are more than ", kMostTokens);
  for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
    const std::string token(1, static_cast<char>(byte));
    const std::optional<std::int32_t> id = vocabulary.find(token);
    check_argument(id.has_value(), "byte pairs: the byte ", in_quotes(token), " has no id");
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
  check_argument(merged.has_value(), "byte pairs: the merged token ", in_quotes(together),
                 " has no id");
  check_argument(!makes(*merged), "byte pairs: the token ", in_quotes(together), " is made twice");
  if (2 * (merges_.size() + 1) > slots_.size()) grow();
  const std::uint64_t pair = packed_pair(left_id, right_id);
  slots_[slot_of(pair)] = pair << kRankBits | merges_.size();
  merges_.push_back({left_id, right_id, *merged});
  made_[static_cast<std::size_t>(*merged)] = true;
}

void MergeTable::add_line(std::string_view line, const Vocabulary& vocabulary) {
  const std::size_t blank = line.find(' ');
  check_argument(blank != line.npos && line.find(' ', blank + 1) == line.npos, in_quotes(line),
                 " is not two tokens with one blank between them");
  add(bytes_from_printable(line.substr(0, blank)), bytes_from_printable(line.substr(blank + 1)),
      vocabulary);
}

std::int32_t MergeTable::made_id(std::string_view token, const Vocabulary& vocabulary) const {
  const std::optional<std::int32_t> id = vocabulary.find(token);
  check_argument(id && makes(*id), "byte pairs: the merge uses ", in_quotes(token),
                 ", which is neither a byte nor made by an earlier merge");
  return *id;
}

// The slot of the pair or, if it is not in the table, the free slot where it would go.
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

void MergeTable::append_ids(std::string_view piece, Workspace& workspace,
                            std::vector<std::int32_t>& ids) const {
  if (piece.size() <= kShort) {
    append_short(piece, ids);
  } else {
    append_long(piece, workspace, ids);
  }
}

void MergeTable::append_short(std::string_view piece, std::vector<std::int32_t>& ids) const {
  std::array<std::int32_t, kShort> tokens;
  std::array<std::uint32_t, kShort> ranks;  // of merging each token with the next one
  std::size_t size = piece.size();
  for (std::size_t i = 0; i < size; ++i) {
    tokens[i] = byte_ids_[static_cast<std::uint8_t>(piece[i])];
  }
  const auto consider = [&](std::size_t i) {
    ranks[i] = i + 1 < size ? rank(tokens[i], tokens[i + 1]) : kNoRank;
  };
  for (std::size_t i = 0; i < size; ++i) consider(i);
  while (size > 1) {
    const auto best = std::min_element(ranks.begin(), ranks.begin() + size) - ranks.begin();
    const auto left = static_cast<std::size_t>(best);
    if (ranks[left] == kNoRank) break;
    tokens[left] = merges_[ranks[left]].merged;
    --size;
    for (std::size_t i = left + 1; i < size; ++i) {
      tokens[i] = tokens[i + 1];
      ranks[i] = ranks[i + 1];
    }
    consider(left);
    if (left > 0) consider(left - 1);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + size);
}

void MergeTable::append_long(std::string_view piece, Workspace& workspace,
                             std::vector<std::int32_t>& ids) const {
  auto& nodes = workspace.nodes_;
  auto& candidates = workspace.candidates_;
  const std::size_t size = piece.size();
  const auto consider = [&](std::size_t left) {
    Workspace::Node& node = nodes[left];
    node.rank = node.next == size ? kNoRank : rank(node.id, nodes[node.next].id);
    if (node.rank != kNoRank) candidates.emplace(node.rank, left);
  };

  nodes.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    nodes[i] = {byte_ids_[static_cast<std::uint8_t>(piece[i])], kNoRank, i - 1, i + 1};
  }
  for (std::size_t i = 0; i < size; ++i) consider(i);

  while (!candidates.empty()) {
    const auto [rank, left] = candidates.top();
    candidates.pop();
    Workspace::Node& node = nodes[left];
    if (node.rank != rank) continue;  // one of the two has been merged since
    Workspace::Node& swallowed = nodes[node.next];
    swallowed.rank = kNoRank;
    node.id = merges_[rank].merged;
    node.next = swallowed.next;
    if (node.next < size) nodes[node.next].previous = left;
    consider(left);
    if (left > 0) consider(node.previous);
  }
  for (std::size_t i = 0; i < size; i = nodes[i].next) ids.push_back(nodes[i].id);
}

// --- Training ------------------------------------------------------------------------------------

namespace {

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}
std::int32_t left_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair >> 32); }
std::int32_t right_of(std::uint64_t pair) { return static_cast<std::int32_t>(pair & 0xFFFFFFFF); }

}  // namespace

void BytePairTrainer::add_text(std::string_view text) {
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = gpt2_piece_end(text, begin);
    const std::string_view piece = text.substr(begin, end - begin);
    const auto [number, fresh] = word_numbers_.emplace(piece, words_.size());
    if (fresh) words_.push_back({piece});
    ++words_[number->second].count;
  }
}

std::vector<std::pair<std::int32_t, std::int32_t>> BytePairTrainer::train(std::int64_t count) {
  lay_out_words();
  std::vector<std::pair<std::int32_t, std::int32_t>> merges;
  while (static_cast<std::int64_t>(merges.size()) < count && !candidates_.empty()) {
    const auto [expected, complement] = candidates_.top();
    candidates_.pop();
    const Pair pair = ~complement;
    const std::int64_t now = pairs_.at(pair).count;
    if (now != expected) {  // other merges have taken some of its occurrences
      add_candidate(pair);
      continue;
    }
    merge(pair, static_cast<std::int32_t>(256 + merges.size()));
    merges.emplace_back(left_of(pair), right_of(pair));
  }
  return merges;
}

void BytePairTrainer::lay_out_words() {
  const Symbol boundary{kNone, 1, 0};
  symbols_.assign(1, boundary);
  for (const Word& word : words_) {
    for (const char byte : word.text) {
      symbols_.push_back({static_cast<std::uint8_t>(byte), 1, word.count});
      join(symbols_.size() - 2, symbols_.size() - 1);
    }
    symbols_.push_back(boundary);
  }
  for (const Pair pair : std::exchange(fresh_, {})) add_candidate(pair);
}

// The cost is proportional to the number of times that the pair occurs or once did; the rest of a
// word is left alone, however long it is.
void BytePairTrainer::merge(Pair pair, std::int32_t merged) {
  const std::vector<std::size_t> symbols = std::move(pairs_.at(pair).symbols);
  for (const std::size_t left : symbols) {
    if (symbols_[left].id != left_of(pair)) continue;  // since merged with another neighbour
    const std::size_t right = left + symbols_[left].bytes;
    if (symbols_[right].id != right_of(pair)) continue;
    const std::size_t previous = left - symbols_[left - 1].bytes;
    const std::size_t next = right + symbols_[right].bytes;
    separate(previous, left);
    separate(left, right);
    separate(right, next);
    symbols_[left].id = merged;
    symbols_[right].id = kNone;
    symbols_[left].bytes = symbols_[next - 1].bytes = next - left;
    join(previous, left);
    join(left, next);
  }
  for (const Pair created : std::exchange(fresh_, {})) add_candidate(created);
}

// Records that two tokens have become neighbours.
void BytePairTrainer::join(std::size_t left, std::size_t right) {
  if (symbols_[left].id == kNone || symbols_[right].id == kNone) return;
  const Pair pair = pair_of(symbols_[left].id, symbols_[right].id);
  Occurrences& occurrences = pairs_[pair];
  if (occurrences.symbols.empty()) fresh_.push_back(pair);
  occurrences.count += symbols_[left].frequency;
  occurrences.symbols.push_back(left);
}

// Records that two tokens are about to stop being neighbours.
void BytePairTrainer::separate(std::size_t left, std::size_t right) {
  if (symbols_[left].id == kNone || symbols_[right].id == kNone) return;
  pairs_.at(pair_of(symbols_[left].id, symbols_[right].id)).count -= symbols_[left].frequency;
}

void BytePairTrainer::add_candidate(Pair pair) {
  const std::int64_t count = pairs_.at(pair).count;
  if (count > 0) candidates_.emplace(count, ~pair);
}

}  // namespace rowgrad
