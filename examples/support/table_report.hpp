#pragma once

// What inspect_rows tells about a table: its rows with a gradient, and what they stand for.

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <rowgrad/core/base/json.hpp>
#include <rowgrad/core/data/tokenizers/tokenizer.hpp>
#include <rowgrad/optim/training/row_list.hpp>

namespace rowgrad {

/// For each row a number that hardly stays the same if a bit of the row changes.
std::vector<std::uint64_t> fingerprints(const Parameter& table);

/// A table with row gradients after the last step.
class TableReport {
 public:
  /// `start` are the fingerprints before the first step. Borrows the history and the tokenizer.
  TableReport(const TableHistory& history, const std::vector<std::uint64_t>& start,
              const Tokenizer& tokenizer);

  std::string name() const;  // "token", "t5", "memories.0"

  /// How many rows without a gradient have changed in any bit. It must be 0.
  std::size_t changed_without_gradient() const { return changed_without_gradient_; }

  /// At most `limit` rows; those of n-grams begin with the ones that most n-grams share.
  void print(std::size_t limit) const;

  Json to_json() const;

  /// A line for each row, with a column for each of the meanings that rows of any table have.
  void append_csv(std::ostream& csv, const std::vector<std::string>& meanings) const;

 private:
  /// What happened to one row over all steps.
  struct Row {
    std::int32_t id = 0;
    std::string label = {};                       // see RowLabels
    std::vector<NgramCounts::Ngram> ngrams = {};  // that fell into it
    TableHistory::Row what = {};
    double moved = 0;  // distance from its first to its last value
  };

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
    return history_.was_touched(static_cast<std::int32_t>(row));
  }
  std::string untouched_rows() const;
  std::string shown(const Row& row) const;
  void add_heads(const RowLabels& labels);
  void print_heads() const;

  const TableHistory& history_;
  const Tokenizer& tokenizer_;
  std::vector<Row> rows_;    // in increasing order; of very many, the first ones
  std::vector<Head> heads_;  // of a memory
  std::size_t changed_without_gradient_ = 0;
};

/// What rows of these tables stand for, each once: "token", "position".
std::vector<std::string> meanings(const std::vector<TableHistory>& tables);

}  // namespace rowgrad
