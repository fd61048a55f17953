#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include <rowgrad/core/data/token_windows.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/core/tensor/ids.hpp>

namespace rowgrad {

/// Windows one below the other: inputs and targets, both [batch, context].
struct Batch {
  Ids inputs;
  Ids targets;
};

/// The defaults are PyTorch's, but for the batch.
struct DataLoaderOptions {
  /// The windows in one batch.
  std::size_t batch = 8;
  /// Whether each epoch takes the windows in a new random order.
  bool shuffle = false;
  /// The order of an epoch is a function of this, of the epoch's number and of the windows' number.
  std::uint64_t seed = 0;
  /// Whether the windows left over when the last full batch is made are left out of an epoch;
  /// otherwise they make a shorter batch.
  bool drop_last = false;
};

/// Batches of windows, an epoch in each range-for:
///
///   for (const Batch& batch : loader) { … }
///
/// The batch belongs to the loader and is overwritten by the next one. Nothing is allocated from
/// one batch to the next. After a loop that was left early the next one begins a new epoch;
/// `loader.load_state_dict(loader.state_dict())` makes it go on instead. Only one loop may run at a
/// time. Copies and moves, but not while one runs.
class DataLoader {
 public:
  /// A place between two batches: `batch` of the epoch have been handed out, the next comes after.
  struct Position {
    std::size_t epoch = 0;
    std::size_t batch = 0;
    bool operator==(const Position&) const = default;
  };

  class Iterator;

  /// Throws std::invalid_argument for a batch below 1, and for fewer windows than a batch if the
  /// short one is dropped.
  explicit DataLoader(TokenWindows windows, const DataLoaderOptions& options = {});

  /// The number of batches in an epoch, at least 1.
  std::size_t size() const { return size_; }

  const TokenWindows& windows() const { return windows_; }

  /// Counts the batch that a loop is at as handed out: what comes next, if training stopped after
  /// this step. After the last batch of an epoch it is the start of the next epoch.
  Position position() const { return position_; }

  /// The position. After it was loaded, the next loop goes on from there to the end of that epoch.
  /// Throws std::invalid_argument, and changes nothing, for a position that this loader cannot be
  /// at. Not to be loaded while a loop runs.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  void start_epoch();
  const Batch& next_batch();

  TokenWindows windows_;
  DataLoaderOptions options_;
  std::size_t size_;
  Position position_;
  bool loaded_ = true;  // the next loop goes on from position_, whatever its batch
  std::vector<std::int64_t> order_;
  Batch full_;
  Batch short_;  // the last one of an epoch; empty if all are full
};

/// An input iterator: one pass, `end()` is the sentinel.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using difference_type = std::int64_t;
  using value_type = Batch;

  explicit Iterator(DataLoader& loader) : loader_(&loader) { ++*this; }

  const Batch& operator*() const { return *batch_; }
  const Batch* operator->() const { return batch_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

 private:
  DataLoader* loader_;
  const Batch* batch_ = nullptr;
  bool last_ = false;  // the batch is the last one of its epoch
};

inline DataLoader::Iterator DataLoader::begin() {
  start_epoch();
  return Iterator(*this);
}

}  // namespace rowgrad
