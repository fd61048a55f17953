#include <utility>

#include <rowgrad/core/data/tokenizers/byte_pair_training.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_split.hpp>

namespace rowgrad {
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

// The cost is proportional to the number of places where the pair occurs or once did; the rest of a
// word is left alone, however long it is.
void BytePairTrainer::merge(Pair pair, std::int32_t merged) {
  const std::vector<std::size_t> places = std::move(pairs_.at(pair).places);
  for (const std::size_t left : places) {
    if (symbols_[left].id != left_of(pair)) continue;  // since merged with another neighbour
    const std::size_t right = left + symbols_[left].bytes;
    if (symbols_[right].id != right_of(pair)) continue;
    const std::size_t previous = left - symbols_[left - 1].bytes;
    const std::size_t next = right + symbols_[right].bytes;
    part(previous, left);
    part(left, right);
    part(right, next);
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
  if (occurrences.places.empty()) fresh_.push_back(pair);
  occurrences.count += symbols_[left].frequency;
  occurrences.places.push_back(left);
}

// Records that two tokens are about to stop being neighbours.
void BytePairTrainer::part(std::size_t left, std::size_t right) {
  if (symbols_[left].id == kNone || symbols_[right].id == kNone) return;
  pairs_.at(pair_of(symbols_[left].id, symbols_[right].id)).count -= symbols_[left].frequency;
}

void BytePairTrainer::add_candidate(Pair pair) {
  const std::int64_t count = pairs_.at(pair).count;
  if (count > 0) candidates_.emplace(count, ~pair);
}

}  // namespace rowgrad
