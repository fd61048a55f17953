#pragma once

// Tables whose rows are sharded over ranks: each rank holds some rows with their optimizer state.
// core/parallel/README.md shows how to use one.
//
// Invalid arguments throw std::invalid_argument, and calls in the wrong order std::logic_error.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/ops/table_placement.hpp>

namespace rowgrad {

/// The number of parts of a sharded table.
constexpr std::size_t kTableParts = 4096;

/// Returns the rows of a table that a rank holds. The table is cut into 4,096 consecutive parts,
/// and each rank has a range of parts. So the order of ranks is the order of rows, also in sums of
/// norms, in gradients and in files.
IndexRange rows_of_rank(std::size_t rows, std::size_t rank, std::size_t ranks);

/// A table [rows, width] with a shard of its rows on each rank. An optimizer trains the shard, and
/// checkpoints save it, like any parameter. Lookups read table(), which has only the rows that were
/// fetched. With one rank, table() is shard().
class ShardedTable {
 public:
  /// Borrows `shard`, which must have the rows rows_of_rank() or, in a file, all rows. fetch()
  /// applies the max_norm of `lookup`. All ranks must construct the table together. Throws
  /// std::runtime_error naming a rank whose table has another shape.
  ShardedTable(ProcessGroup& ranks, Parameter& shard, std::size_t rows,
               const EmbeddingLookup& lookup = {});

  /// Returns the rows of this rank.
  Parameter& shard() const { return shard_; }
  Parameter& table() { return table_ ? *table_ : shard_; }
  /// Returns true if there is only one rank.
  bool is_whole() const { return !table_; }
  /// Returns the index of the shard's row 0 in the table.
  std::size_t first_row() const { return first_; }
  /// Returns the number of rows of the table.
  std::size_t rows() const { return shape_.front(); }

  /// Fetches rows from the ranks that hold them. These ranks bring the rows up to date and, if
  /// `scales`, apply max_norm. All ranks must call it together, each with its own ids. Forward
  /// passes do not communicate otherwise.
  void fetch(std::span<const std::int32_t> ids, bool scales);

  /// Adds this rank's rows of the gradient `of_table` to the shard's gradient. If `watched`, also
  /// adds all rows to the gradient of table().
  void add_gradient(Gradient of_table, bool watched);

 private:
  class FetchedRows;

  std::vector<IndexRange> by_rank(std::span<const std::int32_t> sorted) const;
  std::vector<std::int32_t> in_shard(std::span<const std::int32_t> ids) const;
  Tensor read_shard(std::span<const std::int32_t> ids, bool scales) const;

  ProcessGroup& ranks_;
  Parameter& shard_;
  Shape shape_;  // shape of the table
  std::size_t first_;
  EmbeddingLookup lookup_;
  FetchedRows* fetched_ = nullptr;  // owned by table_
  std::optional<Parameter> table_;  // null if there is one rank
};

}  // namespace rowgrad
