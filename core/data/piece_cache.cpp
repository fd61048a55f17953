#include <rowgrad/core/data/piece_cache.hpp>

namespace rowgrad {

void PieceCache::keep(std::string_view text, std::size_t begin, std::size_t end,
                      std::span<const std::int32_t> ids) {
  if (end - begin > PieceKey::kLongest || ids.size() > kMostIds) return;
  const PieceKey key(text, begin, end - begin);
  Entry* entry = &entries_[first_entry(key)];
  entry[1] = entry[0];
  entry->key = key;
  entry->count = static_cast<std::int32_t>(ids.size());
  std::copy(ids.begin(), ids.end(), entry->ids.begin());
}

std::unique_ptr<PieceCache> PieceCachePool::borrow() {
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

void PieceCachePool::give_back(std::unique_ptr<PieceCache> cache) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(cache));
}

}  // namespace rowgrad
