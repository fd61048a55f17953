#pragma once

// Every row of a table at the end of a run, also those that never learned.

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
  kHardly,  // moved less than a tenth as far as the median of those that were
  kYes      // moved farther
};
const char* name_of(Learned learned);  // "no", "hardly" or "yes"

/// What a row has gone through, and what became of it.
struct ListedRow {
  std::int32_t id = 0;             // the number of the row
  std::uint64_t lookups = 0;       // how often its id was looked up
  std::uint64_t steps = 0;         // the number of steps that looked it up: see TableHistory::Row
  double gradient_norm = 0;        // root of the sum of squares of its gradients in these
  double norm = 0;                 // the norm of its values at the end
  double moved = 0;                // see TableHistory::moved(); NaN if that is not known
  Learned learned = Learned::kNo;  // whether the row learned, hardly did, or never
};

/// In the order of ids: all rows of a table, or, of one with more than TableHistory::kMostRows,
/// those that are followed.
std::vector<ListedRow> list_rows(const TableHistory& history);

/// Returns the text of a token, or its id if there is no tokenizer or it has no such token (models
/// may have more rows than tokens).
std::string token_label(const Tokenizer* tokenizer, std::int32_t id);

/// What rows stand for, as texts: rows of a memory's table by the n-grams that fell into them, ""
/// for none; others by the names that layers give them; tokens without names by the tokenizer, if
/// there is one; all others by their numbers.
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
