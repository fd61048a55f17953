#pragma once

// Reports the rows of a table that had a gradient, for `rowgrad rows`.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/callbacks/row_list.hpp>

namespace rowgrad {

/// The report of a table. Borrows the history and the tokenizer.
class TableReport {
 public:
  TableReport(const TableHistory& history, const Tokenizer& tokenizer);

  /// Returns a short name, such as "token".
  std::string name() const;

  /// Returns the number of rows without a gradient whose bits differ from `start`.
  std::size_t changed_without_gradient(const Tensor& start) const;

  /// Prints at most `limit` rows. Rows shared by the most n-grams come first. Ties are sorted by id
  /// or, if `farthest_first`, by distance moved.
  void print(std::size_t limit, bool farthest_first) const;

  Json to_json() const;

  /// Appends a line for each row with a gradient, in the columns of kCsvTitles.
  void append_csv(std::ostream& csv) const;
  static constexpr const char* kCsvTitles =
      "table,row,kind,label,looked_up,steps,gradient_norm,norm,moved,learned\n";

 private:
  /// A head of an n-gram memory, and the use of its rows.
  struct Head {
    std::size_t order = 0;
    std::size_t head = 0;
    std::size_t rows = 0;
    std::size_t touched = 0;
    std::size_t ngrams = 0;
    std::size_t sharing = 0;  // n-grams that share their row
    std::size_t shared = 0;   // rows shared by n-grams
    std::size_t most = 0;     // largest number of n-grams of one row
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
  std::vector<ListedRow> rows_;  // rows with a gradient
};

}  // namespace rowgrad
