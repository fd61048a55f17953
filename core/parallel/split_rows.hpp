#pragma once

// Tables whose rows are split over ranks: each has some rows, with what the optimizer keeps for
// them, and those that a step looks up travel. core/parallel/README.md says how to use one.
//
// Wrong arguments throw std::invalid_argument, and calls in the wrong order std::logic_error.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rowgrad/core/autograd/parameter.hpp>
#include <rowgrad/core/base/process_group.hpp>
#include <rowgrad/core/base/ranges.hpp>

namespace rowgrad {

/// Into how many parts a split table is cut.
constexpr std::size_t kTableParts = 4096;

/// Which rows of a table a rank has: those of its share of 4,096 parts, into which the table is cut
/// in the order of rows. So each rank's rows follow those of the rank before, and what has to be in
/// the order of rows (sums of norms, gradients, files) is that of all ranks, one after another.
IndexRange rows_of_rank(std::size_t rows, std::size_t rank, std::size_t ranks);

/// The rows of a table [rows, width] of which this rank has its own, as a parameter of their own
/// (own()): an optimizer trains those as it trains any table, and catching up, states and files are
/// what they are there. The table itself has only the rows that were fetched.
///
/// All ranks have the same tables in the same order, and call the functions that exchange something
/// together.
class SplitRows final : public RowSource {
 public:
  /// `own` has this rank's rows (rows_of_rank) of so many, or is a file for all rows, of which only
  /// these are used; 0 for as many as `own` has. Throws std::runtime_error naming the rank if
  /// another has a table of another shape.
  SplitRows(ProcessGroup& ranks, std::unique_ptr<RowSource> own, std::size_t rows = 0);

  ProcessGroup& ranks() const { return ranks_; }
  Parameter* own() override { return &own_; }
  Tensor* dense() override { return nullptr; }
  std::string location() const override;

  /// Announces rows that fetch() is to get.
  void prefetch(std::span<const std::int32_t> ids) override;

  /// Gets the rows that this rank has announced since the last call from the ranks that have them,
  /// each once; a rank catches up a row for each of those that ask for it. From then on, until a
  /// step or a load changes rows, they can be read.
  void fetch() { fetch(true); }

  /// Reads fetched rows. Others are fetched without look_up, if this rank is alone or may have
  /// others do so (SplitTables), and a std::logic_error if not.
  void gather(std::span<const std::int32_t> ids, real* out, const Tensor* added) override;

  /// False for one rank: its lookups scale rows as those of a whole table do, also rows that were
  /// not announced, unless it reads while others would serve it.
  bool scales_when_fetched() const override { return ranks_.size() > 1 || number_ != kNone; }

  /// Changing rows from outside is a std::logic_error: their ranks do, in a step.
  void scatter(std::span<const std::int32_t> ids, const real* in) override;

  /// What reads rows of own() that were announced, where that is more than to read them: max_norm
  /// scales those down that are too large. Rows that were not announced stay as they are.
  std::function<Tensor(Parameter& own, std::span<const std::int32_t> ids)> look_up;

  /// Of a gradient, this rank's rows, as one of own().
  Gradient for_own(const RowGradient& rows);

 private:
  friend class SplitTables;

  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  void fetch(bool with_look_up);
  std::vector<IndexRange> by_rank(std::span<const std::int32_t> sorted) const;
  std::vector<std::int32_t> of_own(std::span<const std::int32_t> ids);

  ProcessGroup& ranks_;
  Parameter own_;
  std::vector<std::int32_t> announced_;
  std::vector<std::int32_t> fetched_;  // which rows, in increasing order
  Tensor values_;                      // theirs
  std::uint64_t version_ = 0;          // of own_ when they were fetched
  std::uint64_t number_ = kNone;       // among SplitTables, if others may be asked for any rows
};

/// The rows of a parameter that is split; null for any other.
SplitRows* split_rows_of(const Parameter& parameter);

/// The split tables among some parameters, which must outlive it.
class SplitTables {
 public:
  /// Those among these parameters, in their order, which is the same on all ranks.
  explicit SplitTables(std::span<Parameter* const> parameters);

  /// Whether there are none.
  bool empty() const { return tables_.empty(); }

  /// Over how many ranks they are split: 1 if there are none.
  std::size_t ranks() const { return empty() ? 1 : tables_.front()->ranks_.size(); }

  /// Gets the rows of all of them that were announced.
  void fetch() const {
    for (SplitRows* rows : tables_) rows->fetch();
  }

  /// Has all ranks do some work, each its own: the first one may read any rows meanwhile, which
  /// others send once they are at meet(), or through with their work. If it is to exchange anything
  /// itself, all ranks call meet() before.
  void work_while_first_reads(const std::function<void()>& work) const;

  /// Other ranks send what the first asks for until it comes here, too.
  void meet() const;

 private:
  std::vector<SplitRows*> tables_;
};

}  // namespace rowgrad
