#pragma once

// Training examples, accessed by index: windows of token ids (TokenWindows), arrays in memory
// (TensorDataset), or your own class. Invalid arguments throw std::invalid_argument, and change
// nothing.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/tensor/ids.hpp>
#include <rowgrad/core/tensor/random.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

/// Bags of ids of any length, one bag per example: the input of an EmbeddingBag.
struct RaggedIds {
  Ids ids;      // [count]: the ids of all bags, concatenated
  Ids offsets;  // [rows]: where each bag begins in `ids`; non-decreasing from 0
};

/// A set of examples: arrays whose first axis indexes the examples. The dataset and the model must
/// agree on the meaning of each array.
struct Batch {
  std::vector<Ids> ids = {};         // each [rows, …]
  std::vector<Tensor> tensors = {};  // each [rows, …]
  std::vector<RaggedIds> bags = {};  // each with `rows` bags
  std::vector<Ids> shared = {};      // of the whole batch, such as negatives; without rows

  /// Returns the inputs of windows [rows, context]: the first array of `ids`. Throws unless `ids`
  /// has exactly two arrays.
  const Ids& inputs() const { return window_ids(0); }
  /// Returns the targets of inputs(): the second array. Throws as inputs() does.
  const Ids& targets() const { return window_ids(1); }

  /// Returns the number of examples. Throws if the batch has no arrays, arrays differ in their
  /// number of rows or have no axes, offsets do not fit their ids, or bags have more than 2^31 − 1
  /// ids.
  std::size_t rows() const;

  /// Returns copies of the rows `indices`, in this order, and of `shared`. Validates the whole
  /// batch first.
  Batch select(std::span<const std::int64_t> indices) const;

 private:
  friend class TensorDataset;

  const Ids& window_ids(std::size_t array) const;
  // Copies rows of a validated batch that has `count` rows.
  Batch copies_of(std::span<const std::int64_t> indices, std::size_t count) const;
};

/// The unit in which a run reports its speed.
struct DataUnit {
  std::string name = "examples";  // plural name
  std::size_t per_example = 1;    // units per example
};

/// An immutable collection of examples.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Returns the number of examples, at least 1.
  virtual std::size_t size() const = 0;

  /// Returns the examples with these indices, in this order. `examples` may be empty.
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;

  /// Reads examples for a loader. Override it for randomized examples, such as negative sampling,
  /// word dropout or augmentation. The default returns batch(examples).
  ///
  /// `random` depends only on Progress::order_seed, the batch and the slice. So resumed runs,
  /// repeated evaluations, and any number of ranks with the same slices make the same draws.
  virtual Batch draw(std::span<const std::int64_t> examples, Random& random) const;

  /// Returns named integers that identify this dataset. A loader adds its options (batch,
  /// draw_order, drop_last, seed, shuffle). The default returns the number of examples.
  virtual StateDict description() const;

  /// Throws std::runtime_error if a file has changed since it was opened. The default does nothing.
  virtual void check_unchanged() const {}

  /// Returns the unit of a run's speed, by default examples.
  virtual DataUnit unit() const { return {}; }
};

/// Examples in memory: example i is row i of each array.
///
///   TensorDataset ratings({.ids = {users, films}, .tensors = {stars}});
class TensorDataset : public Dataset {
 public:
  /// Takes examples. Throws if examples.rows() throws or is 0.
  explicit TensorDataset(Batch examples);

  std::size_t size() const override { return size_; }  // number of rows
  Batch batch(std::span<const std::int64_t> examples) const override;

  /// Returns the number of examples, and a checksum of all values.
  StateDict description() const override;

 private:
  Batch examples_;
  std::size_t size_;
};

}  // namespace rowgrad
