#pragma once

// Lists the rows of a table at the end of a run, including rows that never learned.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_history.hpp>

namespace rowgrad {

/// How far a row has come.
enum class Learned {
  kNo,      // never looked up
  kHardly,  // moved less than a tenth of the median distance of rows that were looked up
  kYes      // moved farther
};
const char* name_of(Learned learned);  // "no", "hardly" or "yes"

/// The history of a row in short, and its values at the end.
struct ListedRow {
  std::int32_t id = 0;             // the number of the row
  std::uint64_t lookups = 0;       // the number of lookups of its id
  std::uint64_t steps = 0;         // the number of steps that looked it up: see TableHistory::Row
  double gradient_norm = 0;        // root of the sum of squares of its gradients in these steps
  double norm = 0;                 // the norm of its values at the end
  double moved = 0;                // see TableHistory::moved(); NaN if that is not known
  Learned learned = Learned::kNo;  // how far the row has come
};

/// Returns all rows of a table in the order of ids. If it has more than TableHistory::kMaxRows
/// rows, returns the followed ones only.
std::vector<ListedRow> list_rows(const TableHistory& history);

/// Returns the text of a token, or its id if there is no tokenizer or it has no such token (models
/// may have more rows than tokens).
std::string token_label(const Tokenizer* tokenizer, std::int32_t id);

/// The names of rows. A row of a memory's table is named by the n-grams that fell into it, "" if
/// there are none. Other rows have the names that layers give them, tokens the strings of the
/// tokenizer if there is one. All others are named by their numbers.
class RowLabels {
 public:
  /// Borrows both; of n-grams, those that were counted so far.
  RowLabels(const TableHistory& history, const Tokenizer* tokenizer);

  std::string of(std::int32_t id) const;  // a row's label

  /// The n-grams that fell into a row; none in other tables.
  std::span<const NgramCounts::Ngram> ngrams(std::int32_t id) const;

 private:
  const TableHistory& history_;
  const Tokenizer* tokenizer_;
  std::map<std::int32_t, std::vector<NgramCounts::Ngram>> ngrams_;
};

}  // namespace rowgrad
