#pragma once

// What rows tells about a table: its rows with a gradient, and what they stand for.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>

namespace rowgrad {

/// A table with row gradients after the last step. Borrows the history and the tokenizer.
class TableReport {
 public:
  TableReport(const TableHistory& history, const Tokenizer& tokenizer);

  std::string name() const;  // "token", "t5", "memories.0"

  /// How many rows that had no gradient are not, in every bit, what they were in `start`.
  std::size_t changed_without_gradient(const Tensor& start) const;

  /// At most `limit` rows: those of n-grams begin with the ones that most n-grams share, others
  /// with the first or with those that moved farthest.
  void print(std::size_t limit, bool farthest_first) const;

  Json to_json() const;

  /// A line for each row with a gradient, in the columns of kCsvTitles.
  void append_csv(std::ostream& csv) const;
  static constexpr const char* kCsvTitles =
      "table,row,kind,label,looked_up,steps,gradient_norm,norm,moved,learned\n";

 private:
  /// A head of a memory, and what the n-grams of its length do in its part of the table.
  struct Head {
    std::size_t order = 0;
    std::size_t head = 0;
    std::size_t rows = 0;
    std::size_t touched = 0;
    std::size_t ngrams = 0;
    std::size_t sharing = 0;  // n-grams whose row is that of others, too,
    std::size_t shared = 0;   // such rows,
    std::size_t most = 0;     // and the most n-grams in one
  };

  std::size_t size() const { return history_.table().shape()[0]; }
  bool was_touched(std::size_t row) const {
    return history_.had_gradient(static_cast<std::int32_t>(row));
  }
  std::string untouched_rows() const;
  std::string shown(std::int32_t row) const;
  std::vector<Head> heads() const;
  void print_heads() const;

  const TableHistory& history_;
  const Tokenizer& tokenizer_;
  RowLabels labels_;
  std::vector<ListedRow> rows_;  // in increasing order; of very many, the first ones
};

}  // namespace rowgrad
