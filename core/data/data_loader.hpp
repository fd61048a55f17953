#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/data/example_order.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>
#include <rowgrad/core/tensor/random.hpp>

// Batches of examples, in order or shuffled. Wrong arguments throw std::invalid_argument, and
// change nothing.

namespace rowgrad {

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
  /// The number of examples in a batch.
  std::size_t batch = 8;
  /// Whether each epoch takes the examples in a new random order: up to 2^24 examples in the order
  /// of torch.randperm, which takes 4 bytes an example. The order of more examples takes no memory.
  bool shuffle = false;
  /// The order depends only on this seed, the number of the epoch and the number of examples.
  std::uint64_t seed = 0;
  /// Whether each epoch drops the examples left over after the last full batch; otherwise they form
  /// a shorter batch.
  bool drop_last = false;
  /// Draws the order from this generator, which the loader borrows, instead, as PyTorch's
  /// DataLoader draws it from the global generator (torch.manual_seed): at the beginning of each
  /// loop 64 bits that nobody uses and, to shuffle, 64 bits that seed the permutation. This is not
  /// PyTorch's option `generator`, which gives another order.
  Random* generator = nullptr;
};

/// Iterates over examples in batches; each range-for loop is one epoch:
///
///   for (const Batch& batch : loader) { … }
///
/// The loop owns the batch, until it reads the next one. If a loop is left early, the next loop
/// begins a new epoch; to continue the old one instead, call
/// `loader.load_state_dict(loader.state_dict())`. A loop that cannot read an example
/// throws std::runtime_error, as it does at its beginning if a file was changed after it was
/// opened. Several loops may run at the same time, for example one inside another. Each is an epoch
/// of its own. The loader must outlive its loops. Copyable and movable, but not moved during a
/// loop.
class DataLoader {
 public:
  /// A position between two batches: `batch` batches of the epoch have been returned so far.
  struct Position {
    std::size_t epoch = 0;  // counted from 0
    std::size_t batch = 0;  // the next one, counted from 0
    bool operator==(const Position&) const = default;
  };

  class Iterator;

  /// Takes a copy of the data, or shares what copies and other loaders may share, as it never
  /// changes. Refuses fewer examples than one batch if drop_last is set.
  template <std::derived_from<Dataset> Data>
  explicit DataLoader(Data dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<Data>(std::move(dataset))),
                   options) {}
  explicit DataLoader(std::shared_ptr<const Dataset> dataset,
                      const DataLoaderOptions& options = {});

  /// The number of batches in an epoch, at least 1.
  std::size_t size() const { return size_; }

  /// The number of rows of a whole batch of an epoch, whatever the shard.
  std::size_t rows(std::size_t batch) const;

  /// What batches are made of.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

  /// The position of the loop that was started last, after the batch that it is at. After the last
  /// batch of an epoch, it is the start of the next epoch.
  Position position() const { return position_; }

  /// The position, and what it is a position in, "data": what describes the examples, how many are
  /// in a batch, and how they are shuffled. Loading refuses the state of a loader with others; one
  /// without "data", of version 0.2.0, is taken. After loading, the next loop continues from there
  /// to the end of that epoch. Do not load during a loop.
  Checkpoint state_dict() const;
  void load_state_dict(const Checkpoint& state);

  /// Makes the next loop the first epoch again. Not to be called during a loop.
  void rewind();

  /// Starts an epoch. With a shard, the loop reads and returns only these rows of each batch; there
  /// may be none if a batch has fewer than there are shards. Positions are those of whole batches.
  Iterator begin(const BatchShard& shard = {});
  std::default_sentinel_t end() const { return {}; }  // the end of the epoch

 private:
  Checkpoint data() const;

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::size_t size_;
  mutable std::optional<Checkpoint> description_;  // of the data, once a state was made
  Position position_;
  std::uint64_t order_seed_ = 0;  // of the epoch of position_
  bool loaded_ = true;            // the next loop starts at position_, even inside an epoch
  std::uint64_t loop_ = 0;        // the number of the loop that moves position_
};

/// A single-pass input iterator; `end()` is its sentinel.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using difference_type = std::int64_t;
  using value_type = Batch;

  const Batch& operator*() const { return batch_; }
  Batch take() { return std::move(batch_); }  // the batch, which the loop then lacks
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return at_end_; }

  /// The batch after this one, if there is one in its epoch: a model can read ahead what it needs.
  std::optional<Batch> next() const {
    return next_.batch < loader_->size_ ? std::optional(read()) : std::nullopt;
  }

 private:
  friend class DataLoader;

  Iterator(DataLoader& loader, const BatchShard& shard, std::optional<ExampleOrder> order);
  Batch read() const;

  DataLoader* loader_;
  std::uint64_t loop_;                 // its number
  BatchShard shard_;                   // the rows of each batch that it reads
  std::optional<ExampleOrder> order_;  // of the epoch, if it is shuffled
  Position next_;                      // of the batch after batch_
  Batch batch_;
  bool at_end_ = false;  // behind the last batch
};

}  // namespace rowgrad
