#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/base/utf8.hpp>
#include <rowgrad/core/data/tokenizers/byte_pair_tokenizer.hpp>
#include <rowgrad/core/data/tokenizers/gpt2_pieces.hpp>
#include <rowgrad/core/data/tokenizers/unicode.hpp>

namespace rowgrad {

BytePairTokenizer BytePairTokenizer::train(std::string_view text, const BytePairOptions& options) {
  const std::vector<std::string>& special = options.special_tokens;
  const std::size_t smallest = 256 + special.size();
  check_argument(options.size >= smallest && options.size <= MergeTable::kMaxTokens,
                 "BytePairTokenizer: size is ", options.size, ", expected ", smallest,
                 " (256 bytes and the special tokens) to ", MergeTable::kMaxTokens);

  std::vector<std::string_view> documents;
  const Vocabulary separators = vocabulary_with_special({}, special);
  SpecialTokenSearch search(text, special, separators);
  std::size_t begin = 0;
  while (const auto found = search.next(begin)) {
    documents.push_back(text.substr(begin, found->begin - begin));
    begin = found->end;
  }
  documents.push_back(text.substr(begin));

  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const auto token = [&](std::int32_t id) { return tokens[static_cast<std::size_t>(id)]; };
  const auto pairs = learn_merges(documents, options.size - smallest);
  for (const auto& [left, right] : pairs) tokens.push_back(token(left) + token(right));

  Vocabulary vocabulary = vocabulary_with_special(tokens, special);
  MergeTable merges(vocabulary);
  for (const auto& [left, right] : pairs) merges.add(token(left), token(right), vocabulary);
  return BytePairTokenizer(std::move(vocabulary), std::move(merges));
}

// A cache of the ids of recent pieces. Words repeat, so nearly all pieces of a document are found
// here. The size is fixed (4 MiB). Each set holds two pieces, and a third piece evicts the older
// one.
class PieceCache {
 public:
  static constexpr std::size_t kLongest = 24;  // maximum bytes of a cached piece
  static constexpr std::size_t kMaxIds = 7;

  // The bytes of a piece, padded with zeros, then the number of bytes (0: no piece).
  using Key = std::array<std::uint64_t, 4>;

  struct alignas(64) Entry {
    Key key{};
    std::int32_t count = 0;  // number of ids; 0 if they are not known yet
    std::array<std::int32_t, kMaxIds> ids{};
  };

  PieceCache() : entries_(2 * kSets) {}

  // Returns the entry of the piece of `length` bytes at text[begin]. A piece that is not cached
  // gets a new entry without ids. Pieces longer than kLongest share one temporary entry.
  Entry& operator()(std::string_view text, std::size_t begin, std::size_t length) {
    if (length > kLongest) return long_ = Entry();
    const Key key = key_of(text, begin, length);
    const std::uint64_t mixed = key[0] ^ std::rotl(key[1], 23) ^ std::rotl(key[2], 47);
    Entry* const set = &entries_[(mixed * 0x9E3779B97F4A7C15 >> 32) % kSets * 2];
    if (same(set[0].key, key)) return set[0];
    if (same(set[1].key, key)) return set[1];
    return add(set, key);
  }

 private:
  static constexpr std::size_t kSets = std::size_t{1} << 15;

  // kLongest bytes 0xFF, then kLongest zeros. The kLongest bytes from index kLongest − n on are a
  // mask that keeps n bytes of a piece.
  static constexpr auto kMask = [] {
    std::array<unsigned char, 2 * kLongest> mask{};
    std::fill_n(mask.begin(), kLongest, static_cast<unsigned char>(0xFF));
    return mask;
  }();

  static Key key_of(std::string_view text, std::size_t begin, std::size_t length) {
    Key key{0, 0, 0, length};
    if (text.size() - begin < kLongest) {
      std::memcpy(key.data(), text.data() + begin, length);
      return key;
    }
    // Copying a fixed size takes a few instructions; copying `length` bytes is a function call.
    std::array<std::uint64_t, 3> mask;
    std::memcpy(mask.data(), kMask.data() + (kLongest - length), kLongest);
    std::memcpy(key.data(), text.data() + begin, kLongest);
    for (std::size_t i = 0; i < mask.size(); ++i) key[i] &= mask[i];
    return key;
  }

  // Adds an entry without ids. Not inlining this rare call lets the compiler inline its caller.
  [[gnu::noinline]] static Entry& add(Entry* set, const Key& key) {
    set[1] = set[0];
    return set[0] = {.key = key};
  }

  // Returns true if the keys are equal. Has no branches, because keys are nearly always equal.
  static bool same(const Key& a, const Key& b) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
  }

  std::vector<Entry> entries_;
  Entry long_;
};

// A pool of caches, each lent to one call at a time, so that encoding is thread-safe without a lock
// in its loop. The pool grows to one cache per simultaneous call.
class BytePairTokenizer::Caches {
 public:
  // Returns a cache that no other thread uses, an existing one if possible.
  std::unique_ptr<PieceCache> borrow() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<PieceCache>();
    std::unique_ptr<PieceCache> cache = std::move(idle_.back());
    idle_.pop_back();
    return cache;
  }
  void give_back(std::unique_ptr<PieceCache> cache) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PieceCache>> idle_;
};

BytePairTokenizer::BytePairTokenizer(Vocabulary tokens, MergeTable merges)
    : Tokenizer(std::move(tokens)),
      merges_(std::move(merges)),
      caches_(std::make_shared<Caches>()) {
  for (std::int32_t id = 0; std::cmp_less(id, size()); ++id) {
    check_argument(vocabulary().is_special(id) || merges_.makes(id), "BytePairTokenizer: token ",
                   id, " is ", in_quotes(token(id)),
                   ", expected a special token, a byte, or a token made by a merge");
  }
}

void BytePairTokenizer::append_ids(std::string_view text, std::size_t /*offset*/,
                                   std::vector<std::int32_t>& ids) const {
  std::unique_ptr<PieceCache> cache = caches_->borrow();
  MergeTable::Workspace workspace;
  std::vector<std::int32_t> merged;
  std::size_t count = ids.size();  // ids so far; `ids` is larger, and grows in steps
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    if (ids.size() - count < PieceCache::kMaxIds) ids.resize(count + 1024);
    end = gpt2_piece_end(text, begin);
    PieceCache::Entry& entry = (*cache)(text, begin, end - begin);
    if (entry.count > 0) [[likely]] {
      std::memcpy(&ids[count], entry.ids.data(), sizeof entry.ids);
      count += static_cast<std::size_t>(entry.count);
      continue;
    }
    merged.clear();
    merges_.append_ids(text.substr(begin, end - begin), workspace, merged);
    if (merged.size() <= entry.ids.size()) {
      entry.count = static_cast<std::int32_t>(merged.size());
      std::ranges::copy(merged, entry.ids.begin());
    }
    if (ids.size() - count < merged.size()) ids.resize(count + merged.size());
    std::ranges::copy(merged, ids.begin() + static_cast<std::ptrdiff_t>(count));
    count += merged.size();
  }
  ids.resize(count);
  caches_->give_back(std::move(cache));
}

// --- GPT-2's files -------------------------------------------------------------------------------

namespace {

Vocabulary parse_encoder(const NamedText& file, const std::vector<std::string>& special_tokens) {
  const Json json(file.contents, file.name);
  const std::set<std::string_view> all_special(special_tokens.begin(), special_tokens.end());
  const std::size_t size = json.members().size();
  std::vector<std::string> tokens(size);
  std::vector<std::int32_t> special_ids;
  // If every id is less than the number of tokens and occurs once, all ids occur.
  for (const auto& [token, json_id] : json.members()) {
    const std::uint64_t id = json_id.whole_number();
    check_argument(!token.empty(), "the token with id ", id, " is empty");
    check_argument(id < size, in_quotes(token), " has id ", id,
                   ", expected less than the number of tokens, ", size);
    check_argument(tokens[id].empty(), in_quotes(token), " has id ", id,
                   ", which another token also has");
    const bool special = all_special.contains(token);
    if (special) special_ids.push_back(static_cast<std::int32_t>(id));
    tokens[id] = special ? token : bytes_from_printable(token);
  }
  Vocabulary vocabulary(std::move(tokens), special_ids);
  for (const std::string& token : special_tokens) {
    check_argument(vocabulary.find_special(token).has_value(), "the special token ",
                   in_quotes(token), " is missing");
  }
  return vocabulary;
}

MergeTable parse_merges(std::string_view text, const std::string& file,
                        const Vocabulary& vocabulary) {
  MergeTable merges(vocabulary);
  std::size_t line_number = 1;
  for (std::size_t begin = 0; begin < text.size(); ++line_number) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    try {
      if (line_number == 1) {
        check_argument(line.starts_with("#version:"), "expected a line that begins with #version:");
      } else {
        merges.add_line(line, vocabulary);
      }
    } catch (const std::invalid_argument& error) {
      throw std::runtime_error(concat(file, ", line ", line_number, ": ", error.what()));
    }
  }
  check_runtime(line_number > 1, file, " is empty");
  return merges;
}

}  // namespace

BytePairTokenizer gpt2_tokenizer(const NamedText& vocab_bpe, const NamedText& encoder_json,
                                 const std::vector<std::string>& special_tokens) {
  try {
    Vocabulary vocabulary = parse_encoder(encoder_json, special_tokens);
    MergeTable merges = parse_merges(vocab_bpe.contents, vocab_bpe.name, vocabulary);
    return BytePairTokenizer(std::move(vocabulary), std::move(merges));
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(concat(encoder_json.name, ": ", error.what()));
  }
}

BytePairTokenizer load_gpt2_tokenizer(const std::filesystem::path& vocab_bpe,
                                      const std::filesystem::path& encoder_json,
                                      const std::vector<std::string>& special_tokens) {
  // Separate statements, because arguments may be evaluated in any order.
  const NamedText merges{vocab_bpe.string(), read_file(vocab_bpe)};
  const NamedText ids{encoder_json.string(), read_file(encoder_json)};
  return gpt2_tokenizer(merges, ids, special_tokens);
}

}  // namespace rowgrad
