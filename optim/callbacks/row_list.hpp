#pragma once

// Lists the rows of a table at the end of a run, including rows that learned nothing.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// A classification of the distance that a row has moved.
enum class Learned {
  kNo,      // never looked up, or not tracked
  kHardly,  // moved at most a tenth of the median of looked-up rows, or an unknown distance
  kYes      // moved farther
};
/// Returns "no", "hardly" or "yes".
const char* name_of(Learned learned);

/// A summary of the history of a row and of its final values.
struct ListedRow {
  std::int32_t id = 0;             // index of the row
  std::uint64_t lookups = 0;       // 0 if not tracked
  std::uint64_t steps = 0;         // see TableHistory::Row::steps
  double gradient_norm = 0;        // root of the sum of its squared gradients in these steps
  double norm = 0;                 // norm of its final values
  double moved = 0;                // see TableHistory::moved(); NaN if unknown
  Learned learned = Learned::kNo;  // by the distance moved
};

/// Returns all rows of a table, sorted by id. If there are more than TableHistory::kMaxRows rows,
/// returns only tracked rows.
std::vector<ListedRow> list_rows(const TableHistory& history);

/// Returns the text of a token, or its id if the tokenizer is null or lacks the id (models may have
/// more rows than tokens).
std::string token_label(const Tokenizer* tokenizer, std::int32_t id);

/// The labels of rows. In an n-gram memory's table, the label lists the n-grams that looked up the
/// row, or is "". Rows of other tables have the names given by layers. Unnamed tokens have the
/// tokenizer's strings, if any. Otherwise, the label is the id.
class RowLabels {
 public:
  /// Borrows both arguments. Includes the n-grams counted so far.
  RowLabels(const TableHistory& history, const Tokenizer* tokenizer);

  /// Returns the label of a row.
  std::string of(std::int32_t id) const;

  /// Returns the n-grams that looked up a row; none in tables without n-grams.
  std::span<const NgramCounts::Ngram> ngrams(std::int32_t id) const;

 private:
  const TableHistory& history_;
  const Tokenizer* tokenizer_;
  std::map<std::int32_t, std::vector<NgramCounts::Ngram>> ngrams_;
};

}  // namespace rowgrad
