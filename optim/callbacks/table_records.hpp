#pragma once

// The records of a table in the log of a run: examples/rowgrad/report/FORMAT.md describes `table`
// and `rows`.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// TableHistory::Row::steps of each followed row when it was written; 0, or nothing at the end, for
/// rows that were not.
using WrittenSteps = std::vector<std::int64_t>;

/// Returns the record `table`.
Json table_record(const TableHistory& table);

/// Returns the places of the rows that had a gradient since they were written: the new ones, and
/// others up to 2,000 rows, those with the most such steps first. If `whole`, returns the places of
/// all rows. The rows are in the order of their ids.
std::vector<std::size_t> places_to_write(const TableHistory& table, const WrittenSteps& written,
                                         bool whole);

struct RowsRecordOptions {
  std::uint64_t step = 0;   // now
  std::uint64_t since = 0;  // rows without a step after it are not explained, unless `whole`
  bool whole = false;       // true for the record at the end of a run
  const Tokenizer* tokenizer = nullptr;  // for the n-grams of rows; may be null
};

/// Returns the record `rows` with the rows at these places. Some have the steps that moved them
/// farthest.
Json rows_record(const TableHistory& table, std::span<const std::size_t> places,
                 const RowsRecordOptions& options);

}  // namespace rowgrad
