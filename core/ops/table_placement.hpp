#pragma once

// Tables that are split over several processes. An Embedding with a TablePlacement trains and saves
// the rows of this process. Its lookups read a full-size table that holds only the fetched rows.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {

/// Rows of a table to fetch. Ids may repeat.
struct TableLookup {
  const Parameter* table;
  std::vector<std::int32_t> ids;
};

/// An interface that assigns table rows to processes, and fetches rows from other processes.
class TablePlacement {
 public:
  TablePlacement() = default;
  TablePlacement(const TablePlacement&) = delete;
  TablePlacement& operator=(const TablePlacement&) = delete;
  virtual ~TablePlacement() = default;

  /// Returns this process's range of a table with `rows` rows.
  virtual IndexRange rows_here(std::size_t rows) const = 0;

  /// Returns the table [rows, width] that lookups read instead of `here`, which holds rows_here()
  /// or is in a file. Returns `here` itself if this is the only process. Otherwise fetch() applies
  /// max_norm and norm_type of `lookup`, so lookups must not apply them.
  virtual Parameter& whole_table(Parameter& here, std::size_t rows,
                                 const EmbeddingLookup& lookup) = 0;

  /// Fetches rows, which can be read until rows of the same table are fetched again or the table
  /// changes. Looking up other rows throws std::logic_error. Skips tables whose rows are all in
  /// this process.
  virtual void fetch(std::span<const TableLookup> lookups) = 0;
};

}  // namespace rowgrad
