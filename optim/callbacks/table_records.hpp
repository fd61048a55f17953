#pragma once

// Builds the records `table` and `rows` of a run's log, which examples/rowgrad/report/FORMAT.md
// describes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// TableHistory::Row::steps of each tracked row when it was last written; 0 or absent for rows that
/// were not written.
using WrittenSteps = std::vector<std::int64_t>;

/// Returns the record `table`.
Json table_record(const TableHistory& table);

/// Returns the rows to write as indices into TableHistory::ids(), sorted by id. Includes all new
/// rows and, up to 2,000 rows in total, the rows with the most gradients since they were written.
/// If `whole`, returns all rows. In tables of n-grams, always returns at most 2,000 rows.
std::vector<std::size_t> places_to_write(const TableHistory& table, const WrittenSteps& written,
                                         bool whole);

struct RowsRecordOptions {
  std::uint64_t step = 0;                // current step
  std::uint64_t since = 0;               // unless `whole`, omits reasons without a step after this
  bool whole = false;                    // true for the record at the end of a run
  const Tokenizer* tokenizer = nullptr;  // for labels of n-grams; may be null
};

/// Returns the record `rows` for these rows. Some rows include the steps that moved them farthest.
Json rows_record(const TableHistory& table, std::span<const std::size_t> indices,
                 const RowsRecordOptions& options);

}  // namespace rowgrad
