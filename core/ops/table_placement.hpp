#pragma once

// Tables of which a process has only some rows. An Embedding whose options name a TablePlacement
// trains and saves the rows that are here. Its lookups read a table of all rows, which knows those
// that were fetched.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/base/ranges.hpp>
#include <rowgrad/core/ops/embedding.hpp>

namespace rowgrad {

/// Rows of a table that will be read. Ids may repeat.
struct TableLookup {
  const Parameter* table;
  std::vector<std::int32_t> ids;
};

/// Decides which rows of tables are in this process, and fetches others.
class TablePlacement {
 public:
  TablePlacement() = default;
  TablePlacement(const TablePlacement&) = delete;
  TablePlacement& operator=(const TablePlacement&) = delete;
  virtual ~TablePlacement() = default;

  /// Returns the rows that this process has of a table with `rows` rows.
  virtual IndexRange rows_here(std::size_t rows) const = 0;

  /// Returns the table [rows, width] that lookups read instead of `here`, which has rows_here() or
  /// is a table in a file; it is `here` itself if all rows are here. Only max_norm and norm_type of
  /// `lookup` are used: fetch() scales rows, lookups in another table than `here` must not.
  virtual Parameter& whole_table(Parameter& here, std::size_t rows,
                                 const EmbeddingLookup& lookup) = 0;

  /// Fetches rows, so that they can be read until the same table is fetched or changes next.
  /// Looking up other rows is a std::logic_error. Does nothing for tables whose rows are all here.
  virtual void fetch(std::span<const TableLookup> lookups) = 0;
};

}  // namespace rowgrad
