#pragma once

// The values of a parameter as they are stored, in memory or in a file, with what optimizers keep
// for each row: nothing else knows where they are.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

class TableFile;

/// A tensor of any shape in memory or a table [rows, width] in a file, which must outlive this
/// object. `name` is that of the parameter, for messages; it must outlive this object, too.
class RowTable {
 public:
  RowTable(const std::string& name, Tensor values);  // keeps the values in memory

  /// Throws std::invalid_argument if another parameter has the file.
  RowTable(const std::string& name, TableFile& file);

  const Shape& shape() const { return shape_; }  // the shape of the tensor, or of the table

  /// All values. Throws std::logic_error naming `function` for a table in a file.
  Tensor& whole(const char* function) {
    if (file_ != nullptr) refuse_whole(function);
    return values_;
  }
  const Tensor& whole(const char* function) const {
    return const_cast<RowTable*>(this)->whole(function);
  }

  /// Whether anything may pass over all rows: not if they are in a file.
  bool allows_passes() const { return file_ == nullptr; }

  /// Throws std::invalid_argument for a table in a file. The message begins with `reason`: what
  /// would take a pass over all rows.
  void check_whole(const auto&... reason) const {
    if (file_ != nullptr) refuse_pass(concat(reason...));
  }

  /// out[i] = row ids[i], plus row i of `added`, unless it is null (see kernels::gather_rows).
  /// Throws std::logic_error for a table in a file whose rows have pending updates.
  void read(std::span<const std::int32_t> ids, real* out, const Tensor* added) const;

  /// See TableFile::read_ahead; nothing if the values are in memory.
  void read_ahead(std::span<const std::int32_t> ids) const;

  /// Replaces rows, whose pending updates are known and applied, or there are none.
  void assign(std::span<const std::int32_t> ids, const real* values);

  /// Throws std::logic_error if rows have pending updates that only the state of an optimizer
  /// knows.
  void check_none_pending() const;

  /// The mark of the checkpoint that a file is at (TableFile::mark); none if values are in memory.
  std::optional<std::string> mark() const;

  /// Throws std::invalid_argument if `state` has no such value of this shape or, for a file, no
  /// mark that it can go back to.
  void check_saved(const Checkpoint& state, const std::string& name) const;

  /// Takes a file back to a mark; returns false if the values are in memory.
  bool restore(const Checkpoint& state, const std::string& name);

 private:
  friend class RowStates;

  [[noreturn]] void refuse_whole(const char* function) const;
  [[noreturn]] void refuse_pass(const std::string& reason) const;

  const std::string& name_;
  Tensor values_;
  Shape shape_;
  TableFile* file_ = nullptr;
  std::shared_ptr<const bool> lease_;  // of the file
};

constexpr std::size_t kMostStates = 8;  // the most states that an optimizer has

/// One row: its values and then its states, null for a state that is not in use, and the step of an
/// optimizer that all of them are of.
template <std::size_t N>
struct Row {
  std::array<real*, N> arrays;  // the values, then the states
  std::uint64_t* step;          // the step that values and states are of
};

/// Memory for a row that is read from a file.
struct RowCopy {
  std::vector<real> values;  // the values of the row, then its states
  std::uint64_t step = 0;    // the step that all of them are of
};

/// Where rows are, for loops over them: row i is `i` strides after row 0, in memory and in a file.
class RowView {
 public:
  /// N: one more than the number of states. The step is for tables whose steps have begun.
  template <std::size_t N>
  Row<N> row(std::size_t i) const {
    return {arrays<N>(i), steps_ + i * step_stride_};
  }

  /// The same without the step.
  template <std::size_t N>
  std::array<real*, N> arrays(std::size_t i) const {
    return at<N>(i * stride_);
  }

  /// The same for value `offset` of a tensor in memory.
  template <std::size_t N>
  std::array<real*, N> at(std::size_t offset) const {
    std::array<real*, N> result;
    for (std::size_t k = 0; k < N; ++k)
      result[k] = arrays_[k] != nullptr ? arrays_[k] + offset : nullptr;
    return result;
  }

  std::size_t width() const { return width_; }  // the number of values in a row

  /// A view of a single row of zeros instead, of step 0 and with the same states in use.
  RowView zeros(RowCopy& memory) const;

  /// A row to read, whose steps may be replayed before. As a file changes only in steps, this is a
  /// copy unless `replays(step)` says that none of the steps since `step` has to be replayed.
  template <std::size_t N>
  Row<N> readable(std::size_t i, const auto& replays, RowCopy& copy) const {
    if (file_ == nullptr || (is_stored(i) && !replays(*row<N>(i).step))) return row<N>(i);
    read(i, copy);
    Row<N> result{.arrays = {copy.values.data()}, .step = &copy.step};
    for (std::size_t k = 1; k < N; ++k)
      if (arrays_[k] != nullptr) result.arrays[k] = copy.values.data() + (arrays_[k] - arrays_[0]);
    return result;
  }

 private:
  friend class RowStates;

  bool is_stored(std::size_t i) const;
  void read(std::size_t i, RowCopy& copy) const;

  std::array<real*, 1 + kMostStates> arrays_{};
  std::size_t stride_ = 0;
  std::uint64_t* steps_ = nullptr;
  std::size_t step_stride_ = 1;
  std::size_t width_ = 0;
  const TableFile* file_ = nullptr;
};

/// What one optimizer keeps for the values of a table, or of any parameter: states (momentum, for
/// example), each as large as the values, and for each row the step that it is of. In memory these
/// are arrays of its own, so several optimizers can use a table in turn; a file has them beside the
/// values, for one optimizer at a time.
class RowStates {
 public:
  /// `names` are those of the states. `owner`, for messages, is the name of the optimizer. All
  /// arguments must outlive this object.
  RowStates(RowTable& table, std::string_view owner, std::span<const std::string_view> names)
      : table_(table), owner_(owner), names_(names) {}
  RowStates(const RowStates&) = delete;
  RowStates& operator=(const RowStates&) = delete;

  /// Which states a step uses, and the values that they start as.
  struct Needs {
    std::array<bool, kMostStates> uses{};      // whether it uses each state
    std::array<double, kMostStates> starts{};  // what a new state is filled with
  };

  /// States that a step needs and that have not begun.
  struct New {
    std::array<bool, kMostStates> missing{};                // whether each state has to begin
    std::array<real, kMostStates> starts{};                 // what each of them is filled with
    std::array<std::optional<Tensor>, kMostStates> arrays;  // their memory, if values are in memory
    /// Their places beside the values, in a file.
    std::array<std::optional<std::size_t>, kMostStates> in_file;
    /// Whether there are any.
    bool any() const { return std::ranges::find(missing, true) != missing.end(); }
  };

  /// They begin in three parts: missing() checks, and throws std::invalid_argument if a file has no
  /// room for them or if they do not start as zeros there; make() may run out of memory; begin()
  /// cannot fail, and has them count. `sparse`: whether few rows of them are expected to change.
  New missing(const Needs& needs) const;
  void make(New& states, bool sparse);
  void begin(New& states) noexcept;

  /// Makes all rows those of step 0. May run out of memory.
  void begin_steps();

  /// Rows as they are now; valid until states begin or the values get other memory.
  RowView view();

  /// To be called before rows are read or changed: a file reads them from the disk, and has their
  /// previous content in its journal. Throw std::runtime_error for rows that are damaged, or of a
  /// step after `last`: they are another optimizer's.
  void prepare_read(std::span<const std::int32_t> ids, std::uint64_t last);
  void prepare_change(std::span<const std::int32_t> ids, std::uint64_t last);

  /// Whether steps may be replayed on the stored rows when these are read.
  bool changes_when_read() const { return table_.file_ == nullptr; }

  /// How many rows a pass over all rows has: none, in a file.
  std::size_t rows_in_pass() const { return table_.file_ == nullptr ? table_.shape_[0] : 0; }

  /// Notes that rows have pending updates; a file does not forget it.
  void note_pending();

  /// Throws std::logic_error if rows have pending updates from before this object began.
  void check_all_known() const;

  /// Puts the states that have begun into `state`, by name: their values or, if a file has them,
  /// the mark of its checkpoint. Reads those that are there or that `always` says must be there,
  /// for a new object; throws std::invalid_argument for values that are missing or of another
  /// shape, and if the file is at another mark or, where the values follow and it will go back to
  /// theirs, cannot go back to this one.
  void save(Checkpoint& state) const;
  void load(const Checkpoint& state, const std::array<bool, kMostStates>& always,
            bool values_follow);

  /// The same for the stored values of rows and their steps: "values", "at", or "file": the mark of
  /// the file's checkpoint. The loaded values replace the table's in take_over(), which cannot
  /// fail; until then they are seen by view() only. No step may be after `last`.
  void save_rows(Checkpoint& state) const;
  void load_rows(const Checkpoint& state, std::uint64_t last, bool values_follow);
  void take_over() noexcept;

 private:
  void check_steps(std::span<const std::int32_t> ids, std::uint64_t last) const;
  void check_mark(const std::string& saved, bool values_follow) const;

  RowTable& table_;
  std::string_view owner_;
  std::span<const std::string_view> names_;
  std::array<std::optional<Tensor>, kMostStates> arrays_;
  std::array<std::optional<std::size_t>, kMostStates> in_file_;  // their indices beside the values
  std::vector<std::uint64_t> steps_;
  std::optional<Tensor> loaded_;
};

/// All names that RowStates::save may put for states of these names.
std::vector<std::string> saved_names(std::span<const std::string_view> names);

}  // namespace rowgrad
