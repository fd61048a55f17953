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

/// Classifies how far a row has moved.
enum class Learned {
  kNo,      // never looked up
  kHardly,  // moved less than a tenth of the median distance of rows that were looked up
  kYes      // moved farther
};
const char* name_of(Learned learned);  // "no", "hardly" or "yes"

/// Summarizes the history of a row, and its final values.
struct ListedRow {
  std::int32_t id = 0;             // index of the row
  std::uint64_t lookups = 0;       // number of lookups
  std::uint64_t steps = 0;         // see TableHistory::Row::steps
  double gradient_norm = 0;        // root of the sum of its squared gradients in these steps
  double norm = 0;                 // norm of its final values
  double moved = 0;                // see TableHistory::moved(); NaN if unknown
  Learned learned = Learned::kNo;  // how far it moved
};

/// Returns all rows of a table by id. If it has more than TableHistory::kMaxRows rows, returns
/// only the tracked ones.
std::vector<ListedRow> list_rows(const TableHistory& history);

/// Returns the text of a token, or its id if the tokenizer is null or does not have it (models may
/// have more rows than tokens).
std::string token_label(const Tokenizer* tokenizer, std::int32_t id);

/// Labels rows. A row of an n-gram memory's table is labelled with the n-grams that it was looked
/// up for, "" if there are none. Other rows have the names given by layers. Tokens have the
/// tokenizer's strings, if there is a tokenizer. All other rows are labelled with their ids.
class RowLabels {
 public:
  /// Borrows both. Knows the n-grams counted before this call.
  RowLabels(const TableHistory& history, const Tokenizer* tokenizer);

  std::string of(std::int32_t id) const;  // a row's label

  /// Returns the n-grams that a row was looked up for; none in other tables.
  std::span<const NgramCounts::Ngram> ngrams(std::int32_t id) const;

 private:
  const TableHistory& history_;
  const Tokenizer* tokenizer_;
  std::map<std::int32_t, std::vector<NgramCounts::Ngram>> ngrams_;
};

}  // namespace rowgrad
