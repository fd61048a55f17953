#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/data/dataset.hpp>
#include <rowgrad/core/data/example_order.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>

// Batches of examples, in order or shuffled. Wrong arguments throw std::invalid_argument.

namespace rowgrad {

/// A position in the batches of a loader, between two batches.
struct Progress {
  std::size_t epoch = 0;         // number of the epoch, from 0
  std::size_t batch = 0;         // number of the next batch in the epoch, from 0
  std::uint64_t order_seed = 0;  // seed of the epoch's order: see DataLoader::start()
  bool operator==(const Progress&) const = default;
};

/// One of `count` parts of every batch. The parts differ by at most one row.
struct BatchSlice {
  std::size_t index = 0;
  std::size_t count = 1;

  /// The rows of a batch of `rows` rows that belong to the slice.
  IndexRange of(std::size_t rows) const { return range_of(rows, index, count); }
};

/// All defaults except `batch` are as in PyTorch.
struct DataLoaderOptions {
  /// The number of examples in a batch.
  std::size_t batch = 8;
  /// If true, each epoch takes the examples in a new random order: up to 2^24 examples in the order
  /// of torch.randperm, which takes 4 bytes an example. The order of more examples takes no memory.
  bool shuffle = false;
  /// The order depends only on this seed, the number of the epoch and the number of examples. The
  /// random numbers of Dataset::draw() also depend on the batch and the slice.
  std::uint64_t seed = 0;
  /// If true, each epoch drops the examples left over after the last full batch. Otherwise they
  /// form a shorter batch.
  bool drop_last = false;
  /// If true, start() draws the seed of an epoch from a generator instead, as PyTorch's DataLoader
  /// draws it from the global generator (torch.manual_seed): 64 bits that the order does not use
  /// and, to shuffle, 64 bits that seed the permutation. This is not PyTorch's option `generator`,
  /// which gives another order.
  bool draw_order = false;
};

/// The batches of a data set, by epoch and number:
///
///   for (const Batch& batch : loader.epoch(n)) { … }
///
/// A loader never changes, so any number of loops may run at the same time. A run keeps and saves
/// its position as a Progress. Copies share the data.
class DataLoader {
 public:
  class Epoch;
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
  std::size_t batches() const { return batches_; }

  /// The number of rows of a whole batch of an epoch, whatever the slice.
  std::size_t rows(std::size_t batch) const;

  /// The data set.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

  /// Returns the beginning of an epoch. Draws its order from `random` if draw_order is set.
  Progress start(std::size_t epoch, Random& random) const;

  /// Returns the batches of epoch `number`, from `from_batch` on. With a slice, only the rows of
  /// the slice are read; it may have none of a batch. Refused for an order that is drawn. Throws
  /// std::runtime_error if a file was changed after it was opened.
  Epoch epoch(std::size_t number, std::size_t from_batch = 0, const BatchSlice& slice = {}) const;

  /// Returns the batches of an epoch from a progress on, also for an order that is drawn.
  Epoch epoch(const Progress& progress, const BatchSlice& slice = {}) const;

  /// Integers that tell this loader from others: the description of the data, and the options.
  StateDict description() const;

  /// A progress as the state of a run, with the description.
  StateDict state_dict(const Progress& progress) const;

  /// Returns the progress in a state. Refuses the state of a loader with another description.
  Progress progress(const StateDict& state) const;

 private:
  std::uint64_t seed_of(std::size_t epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::size_t batches_;
  struct Description {  // is made by the first call that asks for it
    std::once_flag once;
    StateDict of_data;
  };
  std::shared_ptr<Description> description_ = std::make_shared<Description>();
};

/// A range of the batches of an epoch, and access to each of them. It may outlive the loader.
class DataLoader::Epoch {
 public:
  /// Reads the first batch.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  /// Reads a batch of the epoch, or a slice of it. Throws std::runtime_error if an example cannot
  /// be read.
  Batch read(std::size_t batch) const { return read(batch, slice_); }
  Batch read(std::size_t batch, const BatchSlice& slice) const;

 private:
  friend class DataLoader;
  friend class Iterator;

  Epoch(DataLoader loader, const Progress& start, const BatchSlice& slice);

  DataLoader loader_;
  Progress start_;
  BatchSlice slice_;
  std::optional<ExampleOrder> order_;  // if it is shuffled
};

/// A single-pass input iterator over an Epoch, which must outlive it. `end()` is its sentinel.
class DataLoader::Iterator {
 public:
  using iterator_concept = std::input_iterator_tag;
  using difference_type = std::int64_t;
  using value_type = Batch;

  const Batch& operator*() const { return batch_; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  bool operator==(std::default_sentinel_t) const { return number_ == epoch_->loader_.batches_; }

 private:
  friend class Epoch;

  explicit Iterator(const Epoch& epoch) : epoch_(&epoch), number_(epoch.start_.batch) { read(); }
  void read();

  const Epoch* epoch_;
  std::size_t number_;  // of batch_
  Batch batch_;
};

}  // namespace rowgrad
