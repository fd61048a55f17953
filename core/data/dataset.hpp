#pragma once

// Examples to train on, by their number: windows of a text (TokenWindows), arrays in memory
// (TensorDataset), or a class of one's own. Wrong arguments throw std::invalid_argument, and change
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

/// Bags of ids, one for each example and of any length: what an EmbeddingBag takes.
struct RaggedIds {
  Ids ids;      // [count]: the ids of all bags, one bag after another
  Ids offsets;  // [rows]: where each bag begins in `ids`; they start at 0 and do not decrease
};

/// Some examples: arrays whose first axis is that of the examples. What each array means is between
/// the data and the model.
struct Batch {
  std::vector<Ids> ids = {};         // each [rows, …]
  std::vector<Tensor> tensors = {};  // each [rows, …]
  std::vector<RaggedIds> bags = {};  // each with `rows` bags

  /// Of a text, with a window in each row: the ids of the windows, and those that follow them or
  /// targets of their own, both [rows, context]. Refused if there are not these two arrays.
  const Ids& inputs() const { return of_text(0); }
  const Ids& targets() const { return of_text(1); }

  /// Returns the number of examples. Refuses arrays that differ in it, arrays without axes, offsets
  /// that do not fit their ids, bags with more than 2^31 - 1 ids, and a batch without arrays.
  std::size_t rows() const;

  /// Returns copies of these rows, in this order. Checks the whole batch first.
  Batch select(std::span<const std::int64_t> indices) const;

 private:
  friend class TensorDataset;

  const Ids& of_text(std::size_t array) const;
  // Copies rows of a batch that has been checked and has `count` rows.
  Batch copies_of(std::span<const std::int64_t> indices, std::size_t count) const;
};

/// The unit of a run's speed.
struct DataUnit {
  std::string name = "examples";  // several of them
  std::size_t per_example = 1;    // how many of them an example has
};

/// Examples, which never change.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of examples, at least 1.
  virtual std::size_t size() const = 0;

  /// The examples with these numbers, in this order; there may be none.
  virtual Batch batch(std::span<const std::int64_t> examples) const = 0;

  /// Reads examples for a loader. Override it for examples that are made with random numbers:
  /// negatives, dropped words, augmentation. The default is batch(examples).
  ///
  /// `random` depends only on the order of the epoch, the number of the batch, and the slice. So a
  /// resumed run, an evaluation and any number of ranks with the same slices repeat the draws.
  virtual Batch draw(std::span<const std::int64_t> examples, Random& random) const;

  /// Integers by name that tell these examples from others. A loader adds its own (batch,
  /// draw_order, drop_last, seed, shuffle). The default is the number of examples.
  virtual StateDict description() const;

  /// Throws std::runtime_error if a file was changed after it was opened.
  virtual void check_unchanged() const {}

  /// The unit of speeds. The default counts examples.
  virtual DataUnit unit() const { return {}; }
};

/// Examples in memory, example i in row i of each array:
///
///   TensorDataset ratings({.ids = {users, films}, .tensors = {stars}});
class TensorDataset : public Dataset {
 public:
  /// Refuses what Batch::select() refuses, and arrays without rows.
  explicit TensorDataset(Batch examples);

  std::size_t size() const override { return size_; }  // the number of rows
  Batch batch(std::span<const std::int64_t> examples) const override;

  /// The number of examples, and a checksum of all values.
  StateDict description() const override;

 private:
  Batch examples_;
  std::size_t size_;
};

}  // namespace rowgrad
