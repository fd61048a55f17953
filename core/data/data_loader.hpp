#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/data/token_sequence.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/random.hpp>

// Batches of windows in order or shuffled. Wrong arguments throw std::invalid_argument, and change
// nothing.

namespace rowgrad {

/// One window per row: inputs and targets, both [batch, context].
struct Batch {
  Ids inputs;   // ids of the windows
  Ids targets;  // ids that follow them, or targets of their own
};

/// Some of the rows of every batch: those of the ranges [begin, end) of `count` that they are cut
/// into.
struct BatchShard {
  std::size_t begin = 0;  // the first range of the shard
  std::size_t end = 1;    // the one after its last
  std::size_t count = 1;  // the number of ranges

  IndexRange rows(std::size_t of_batch) const {  // of a batch of so many rows, those of the shard
    return {range_of(of_batch, begin, count).begin, range_of(of_batch, end, count).begin};
  }
  bool operator==(const BatchShard&) const = default;
};

/// The defaults are those of PyTorch, except for `batch`.
struct DataLoaderOptions {
  /// The number of windows in a batch.
  std::size_t batch = 8;
  /// Whether each epoch takes the windows in a new random order.
  bool shuffle = false;
  /// The order depends only on this seed, the number of the epoch and the number of windows.
  std::uint64_t seed = 0;
  /// Whether each epoch drops the windows left over after the last full batch; otherwise they form
  /// a shorter batch.
  bool drop_last = false;
  /// Draws the order from this generator, which the loader borrows, instead: at the beginning of
  /// each loop 64 bits that nobody uses and, to shuffle, 64 bits that seed the permutation, as
  /// torch.utils.data.DataLoader does.
  Random* generator = nullptr;
  /// The loader reads and returns these rows only. Order, sizes and positions are those of whole
  /// batches, so a state fits any shard. There may be no rows if a batch has fewer than there are
  /// shards.
  BatchShard shard = {};
};

/// Iterates over windows in batches; each range-for loop is one epoch:
///
///   for (const Batch& batch : loader) { … }
///
/// The loader owns the batch and overwrites it with the next one, without allocating memory. If a
/// loop is left early, the next loop begins a new epoch; to continue the old one instead, call
/// `loader.load_state_dict(loader.state_dict())`. A loop that cannot read a window throws
/// std::runtime_error, as it does at its beginning if a file of the text was changed after it was
/// opened. Only one loop may run at a time. Copyable and movable, but not during a loop.
class DataLoader {
 public:
  /// A position between two batches: `batch` batches of the epoch have been returned so far.
  struct Position {
    std::size_t epoch = 0;  // counted from 0
    std::size_t batch = 0;  // the next one, counted from 0
    bool operator==(const Position&) const = default;
  };

  class Iterator;

  /// Refuses fewer windows than one batch if drop_last is set.
  explicit DataLoader(TokenWindows windows, const DataLoaderOptions& options = {});

  /// The number of batches in an epoch, at least 1.
  std::size_t size() const { return size_; }

  /// The number of rows of a whole batch of an epoch, whatever the shard.
  std::size_t rows(std::size_t batch) const;

  const TokenWindows& windows() const { return windows_; }  // what batches are made of

  /// See DataLoaderOptions. Set it between loops.
  const BatchShard& shard() const { return options_.shard; }
  void set_shard(const BatchShard& shard);

  /// The position after the batch that a loop is at. After the last batch of an epoch, it is the
  /// start of the next epoch.
  Position position() const { return position_; }

  /// The position, and what it is a position in, "data": how many windows there are and are in a
  /// batch, their context and stride, how they are shuffled, and a checksum of the ids. Loading
  /// refuses the state of a loader with others; one without "data", of version 0.2.0, is taken.
  /// After loading, the next loop continues from there to the end of that epoch. Do not load during
  /// a loop.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  /// Makes the next loop the first epoch again, or one that goes on where the last one was stopped.
  /// Not to be called during a loop.
  void rewind();
  void continue_epoch();

  Iterator begin();                                   // starts an epoch
  std::default_sentinel_t end() const { return {}; }  // the end of the epoch

 private:
  Checkpoint data() const;
  void start_epoch();
  void make_batches();
  const Batch& next_batch();
  IndexRange windows_of(std::size_t batch) const;
  std::size_t window_at(std::size_t i) const;

  TokenWindows windows_;
  DataLoaderOptions options_;
  std::size_t size_;
  mutable std::optional<std::uint64_t> checksum_;  // of the ids, once a state was made
  Position position_;
  std::uint64_t order_seed_ = 0;     // of the epoch that is under way
  bool loaded_ = true;               // the next loop starts at position_, even inside an epoch
  std::vector<std::int64_t> order_;  // of the windows in the epoch; empty for that of the text
  Batch full_;
  Batch short_;  // the last batch of an epoch, unless all are full
};

/// A single-pass input iterator; `end()` is its sentinel.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using difference_type = std::int64_t;
  using value_type = Batch;

  /// Reads the first batch of the epoch that was started.
  explicit Iterator(DataLoader& loader) : loader_(&loader) { ++*this; }

  const Batch& operator*() const { return *batch_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return batch_ == nullptr; }

  /// The inputs of the batch after this one, whose rows can be read ahead (Parameter::read_ahead):
  /// [rows, context], without rows after the last batch of an epoch.
  Ids next_inputs() const;

 private:
  DataLoader* loader_;
  const Batch* batch_ = nullptr;
  bool last_ = false;  // whether the batch is the last one of its epoch
};

inline DataLoader::Iterator DataLoader::begin() {
  start_epoch();
  return Iterator(*this);
}

}  // namespace rowgrad
