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

// Batches of examples, in order or shuffled. Invalid arguments throw std::invalid_argument.

namespace rowgrad {

/// A position between two batches of a loader.
struct Progress {
  std::size_t epoch = 0;         // epoch number, from 0
  std::size_t batch = 0;         // index of the next batch in the epoch, from 0
  std::uint64_t order_seed = 0;  // seed of the epoch's order; see DataLoader::start()
  bool operator==(const Progress&) const = default;
};

/// One of `count` slices of every batch. Sizes of slices differ by at most one row.
struct BatchSlice {
  std::size_t index = 0;  // index of this slice, less than `count`
  std::size_t count = 1;  // number of slices

  /// Returns the rows of this slice in a batch of `rows` rows.
  IndexRange of(std::size_t rows) const { return range_of(rows, index, count); }
};

/// Options of DataLoader. `shuffle` and `drop_last` have PyTorch's defaults.
struct DataLoaderOptions {
  /// The number of examples in a batch.
  std::size_t batch = 8;
  /// If true, each epoch takes the examples in a new random order. For up to 2^24 examples, this is
  /// the order of torch.randperm and takes 4 bytes per example. Longer orders take no memory.
  bool shuffle = false;
  /// The seed of all orders and of the random streams of Dataset::draw(), unless draw_order is set.
  /// An order also depends on the epoch number and the number of examples.
  std::uint64_t seed = 0;
  /// If true, each epoch drops the examples left over after the last full batch. Otherwise they
  /// form a shorter batch.
  bool drop_last = false;
  /// If true, start() draws each epoch's seed from its `random`, as PyTorch's DataLoader draws from
  /// the global generator (torch.manual_seed). It draws 64 bits that the order ignores and, if
  /// `shuffle`, 64 bits whose lower half seeds the order. PyTorch's `generator` option gives a
  /// different order.
  bool draw_order = false;
};

/// The batches of a dataset, by epoch and index:
///
///   for (const Batch& batch : loader.epoch(n)) { … }
///
/// A loader is immutable, so any number of loops may run at once. Callers keep their position as a
/// Progress. Copies share the dataset.
class DataLoader {
 public:
  class Epoch;
  class Iterator;

  /// Stores a copy of the dataset or, given a pointer, shares it.
  template <std::derived_from<Dataset> Data>
  explicit DataLoader(Data dataset, const DataLoaderOptions& options = {})
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<Data>(std::move(dataset))),
                   options) {}
  explicit DataLoader(std::shared_ptr<const Dataset> dataset,
                      const DataLoaderOptions& options = {});

  /// Returns the number of batches in an epoch, which may be 0.
  std::size_t batches() const { return batches_; }

  /// Returns the number of rows in a batch, before slicing.
  std::size_t rows(std::size_t batch) const;

  /// Returns the dataset.
  const std::shared_ptr<const Dataset>& dataset() const { return dataset_; }

  /// Returns the start of an epoch. If draw_order is set, draws the epoch's seed from `random`.
  Progress start(std::size_t epoch, Random& random) const;

  /// Returns the batches of epoch `number`, from `from_batch` on. They contain only the rows of
  /// `slice`, and may be empty. Throws if draw_order is set. Throws std::runtime_error if a file
  /// has changed since it was opened.
  Epoch epoch(std::size_t number, std::size_t from_batch = 0, const BatchSlice& slice = {}) const;

  /// Returns the batches of an epoch, from `progress` on, even if draw_order is set.
  Epoch epoch(const Progress& progress, const BatchSlice& slice = {}) const;

  /// Returns integers that identify this loader: the dataset's description and the options.
  StateDict description() const;

  /// Returns `progress` and description() as a state dict.
  StateDict state_dict(const Progress& progress) const;

  /// Returns the saved progress. Throws if the state is from a loader with another description.
  Progress progress(const StateDict& state) const;

 private:
  std::uint64_t seed_of(std::size_t epoch) const;

  std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::size_t batches_;
  struct Description {  // computed when first needed
    std::once_flag once;
    StateDict of_data;
  };
  std::shared_ptr<Description> description_ = std::make_shared<Description>();
};

/// The batches of an epoch, as a range or by index. An Epoch may outlive its loader.
class DataLoader::Epoch {
 public:
  /// Reads the first batch and returns an iterator to it.
  Iterator begin() const;
  std::default_sentinel_t end() const { return {}; }

  /// Reads the epoch's slice of a batch, or `slice`. Throws std::runtime_error if an example cannot
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
  std::optional<ExampleOrder> order_;  // null if not shuffled
};

/// A single-pass input iterator over an Epoch, which must outlive the iterator. Its sentinel is
/// `end()`.
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
  std::size_t number_;  // index of batch_
  Batch batch_;
};

}  // namespace rowgrad
