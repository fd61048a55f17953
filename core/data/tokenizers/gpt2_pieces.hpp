#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace rowgrad {

/// The end of the piece of `text` that starts at `begin` (inside the text), by GPT-2's pattern
///
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///
/// Byte pairs merge only within a piece; the concatenated pieces are the text. A byte that is not
/// part of valid UTF-8 counts as a character that is not a letter, number or white space.
/// Source: openai/gpt-2, src/encoder.py.
std::size_t gpt2_piece_end(std::string_view text, std::size_t begin);

/// A piece of text of at most 24 bytes, in a form that is fast to compare.
class PieceKey {
 public:
  static constexpr std::size_t kLongest = 24;  // the most bytes of a piece

  PieceKey() = default;

  /// The `length` bytes at text[begin], which must be 1 to kLongest and inside the text.
  PieceKey(std::string_view text, std::size_t begin, std::size_t length) : length_(length) {
    if (text.size() - begin < kLongest) {
      std::memcpy(words_.data(), text.data() + begin, length);
      return;
    }
    // Copying a fixed size takes a few instructions; copying `length` bytes is a function call.
    std::array<std::uint64_t, 3> mask;
    std::memcpy(mask.data(), kMask.data() + (kLongest - length), kLongest);
    std::memcpy(words_.data(), text.data() + begin, kLongest);
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] &= mask[i];
  }

  /// Whether it is the same piece.
  // Branch-free, because nearly always all parts are equal.
  bool operator==(const PieceKey& other) const {
    return ((words_[0] ^ other.words_[0]) | (words_[1] ^ other.words_[1]) |
            (words_[2] ^ other.words_[2]) | (length_ ^ other.length_)) == 0;
  }

  std::uint64_t hash() const {  // the hash of the piece
    const std::uint64_t mixed = words_[0] ^ std::rotl(words_[1], 23) ^ std::rotl(words_[2], 47);
    return (mixed * 0x9E3779B97F4A7C15) >> 32;
  }

 private:
  // Ones, then zeros: the mask read from kLongest − n on keeps n bytes of a piece.
  static constexpr auto kMask = [] {
    std::array<unsigned char, 2 * kLongest> mask{};
    std::fill_n(mask.begin(), kLongest, static_cast<unsigned char>(0xFF));
    return mask;
  }();

  std::array<std::uint64_t, 3> words_{};  // the bytes, padded with zeros
  std::uint64_t length_ = 0;
};

/// The ids of recent pieces. Words repeat, so nearly all pieces of a text are found here. The size
/// is fixed (4 MiB): each set has room for two pieces, and a third one evicts the older.
class PieceCache {
 public:
  static constexpr std::size_t kMostIds = 7;  // pieces with more ids are not kept

  PieceCache() : entries_(2 * kSets) {}  // empty

  /// Looks up the piece of `text` from `begin` to `end`. Writes its ids to `ids`, which has room
  /// for kMostIds, and returns how many there are; 0 if the piece is not in the cache.
  std::size_t find(std::string_view text, std::size_t begin, std::size_t end,
                   std::int32_t* ids) const {
    if (end - begin > PieceKey::kLongest) return 0;
    const PieceKey key(text, begin, end - begin);
    const Entry* entry = &entries_[first_entry(key)];
    if (!(entry->key == key) && !((++entry)->key == key)) return 0;
    std::memcpy(ids, entry->ids.data(), sizeof entry->ids);
    return static_cast<std::size_t>(entry->count);
  }

  /// Adds a piece that is not in the cache, unless it has too many bytes or ids.
  void keep(std::string_view text, std::size_t begin, std::size_t end,
            std::span<const std::int32_t> ids) {
    if (end - begin > PieceKey::kLongest || ids.size() > kMostIds) return;
    const PieceKey key(text, begin, end - begin);
    Entry* entry = &entries_[first_entry(key)];
    entry[1] = entry[0];
    entry->key = key;
    entry->count = static_cast<std::int32_t>(ids.size());
    std::copy(ids.begin(), ids.end(), entry->ids.begin());
  }

 private:
  static constexpr std::size_t kSets = std::size_t{1} << 15;

  struct alignas(64) Entry {
    PieceKey key;  // of length 0 if the entry is empty
    std::int32_t count = 0;
    std::array<std::int32_t, kMostIds> ids{};
  };

  static std::size_t first_entry(const PieceKey& key) { return key.hash() % kSets * 2; }

  std::vector<Entry> entries_;
};

/// Lends each cache to one call at a time, so that encoding is thread-safe without a lock in its
/// loop. Creates as many caches as there are simultaneous calls.
class PieceCachePool {
 public:
  /// A cache that no other thread has, an old one if there is any; to be given back.
  std::unique_ptr<PieceCache> borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<PieceCache> cache = std::move(idle_.back());
        idle_.pop_back();
        return cache;
      }
    }
    return std::make_unique<PieceCache>();
  }
  /// Keeps it for the next that borrows.
  void give_back(std::unique_ptr<PieceCache> cache) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(cache));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<PieceCache>> idle_;
};

}  // namespace rowgrad
