#pragma once

// The optimizer state of a parameter: slots (momentum, for example), each as large as the values,
// and the last step that was applied to each row.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tensor/state_dict.hpp>
#include <rowgrad/optim/slots/row_records.hpp>

namespace rowgrad {

class Parameter;
class SlotStore;
class TableFile;

constexpr std::size_t kMaxSlots = 8;  // limit of slots for one optimizer

/// One row: its values, its slots (null if not in use), and the last step of the history that was
/// applied to it.
template <std::size_t N>
struct StoredRow {
  std::array<real*, N> arrays;  // the values, then the slots
  std::uint64_t* step;
};

/// Memory for a copy of a row that must not be changed in place.
struct RowCopy {
  std::vector<real> values;  // the values of the row, then its slots
  std::uint64_t step = 0;
};

/// The addresses of rows, for loops over rows. In files and arrays, row i is `i` strides after the
/// first row. If there are records, they hold slots and steps.
struct RowView {
  // Pointers to the values of row 0 and to its slots in use (in record 0 if there are records).
  std::array<real*, 1 + kMaxSlots> first{};
  std::size_t stride = 0;                // distance from one row to the next, in values
  std::size_t width = 0;                 // values in a row
  RowRecords* records = nullptr;         // null if slots are in a file or arrays
  std::uint64_t* steps = nullptr;        // the step of row 0; null if all rows are up to date
  std::size_t step_stride = 1;           // distance from one row's step to the next
  const SlotStore* copied_by = nullptr;  // copies rows, if reading must not change them

  /// Returns false if there are records, but none for row i. If so, row() returns the row's values,
  /// which may change, and the slots of record 0, which must not.
  bool has_record(std::size_t i) const { return records == nullptr || records->number_of(i) != 0; }

  /// Returns row i. N is one more than the number of slots.
  template <std::size_t N>
  StoredRow<N> row(std::size_t i) const {
    if (records == nullptr)
      return {at<N>(i * stride), steps != nullptr ? steps + i * step_stride : nullptr};
    real* const zero = records->at(0);
    real* const record = records->at(records->number_of(i));
    StoredRow<N> result{.arrays = {first[0] + i * stride}, .step = records->step(record)};
    for (std::size_t k = 1; k < N; ++k)
      if (first[k] != nullptr) result.arrays[k] = record + (first[k] - zero);
    return result;
  }

  /// Prefetches row i and its slots. Call prefetch_record_number() some rows earlier.
  template <std::size_t N>
  void prefetch(std::size_t i) const {
    kernels::prefetch_row(first[0] + i * stride, width);
    if (records != nullptr)
      kernels::prefetch_row(records->at(records->number_of(i)), records->stride());
    else
      for (std::size_t k = 1; k < N; ++k)
        if (first[k] != nullptr) kernels::prefetch_row(first[k] + i * stride, width);
  }
  void prefetch_record_number(std::size_t i) const {
    if (records != nullptr) __builtin_prefetch(&records->number_of(i));
  }

  /// Returns pointers to the value at `offset` and its slots. Requires: there are no records.
  template <std::size_t N>
  std::array<real*, N> at(std::size_t offset) const {
    std::array<real*, N> result;
    for (std::size_t k = 0; k < N; ++k)
      result[k] = first[k] != nullptr ? first[k] + offset : nullptr;
    return result;
  }

  /// Returns a row on which steps can be replayed before reading. With copied_by, the result is a
  /// copy unless the row is stored and replays(step of the row) is false.
  template <std::size_t N>
  StoredRow<N> readable(std::size_t i, const auto& replays, RowCopy& copy) const;
};

/// Rows of a table: ids[begin] … ids[end − 1], or begin … end − 1 without ids.
struct RowRange {
  const RowView& rows;      // all rows of the table
  const std::int32_t* ids;  // row indices; null for all rows from begin to end
  std::size_t begin, end;   // range of `ids`, or of row indices if `ids` is null

  std::size_t operator[](std::size_t i) const {  // returns the row index of element i
    return ids != nullptr ? static_cast<std::size_t>(ids[i]) : i;
  }
};

/// The optimizer state of one parameter: slots, and for each row the last step applied to it,
/// counted in the history of deferred steps. A store in memory has records for the rows that were
/// changed in place (row_records.hpp) or, once all rows need slots, an array for each slot.
/// Several optimizers can train a table in memory in turn. A file has the slots next to the values,
/// for one optimizer at a time.
class SlotStore {
 public:
  /// Names for messages and saving, which must outlive the store.
  struct Owner {
    std::string_view optimizer;
    const std::string& parameter;
    std::span<const std::string_view> names;  // slot names
  };

  /// The slots that a step uses, and their initial values.
  struct Needs {
    std::array<bool, kMaxSlots> uses{};      // true if the step uses the slot
    std::array<double, kMaxSlots> starts{};  // initial value of the slot
  };

  /// Creates a store without slots.
  explicit SlotStore(const Owner& owner) : owner_(owner) {}
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;
  virtual ~SlotStore() = default;

  /// Returns true if a step needs slots that do not exist yet. Throws std::invalid_argument if a
  /// file has no space for the slots, or cannot store them because their initial values are not
  /// zero.
  virtual bool lacks(const Needs& needs) const = 0;

  /// Creates the slots that a step needs and that do not exist yet.
  virtual void create(const Needs& needs) = 0;

  /// Returns a view of the rows, valid until create() or make_all() is called or the values are
  /// moved.
  virtual RowView rows() = 0;

  /// Reads rows of a file from the disk. Call it before rows are used. Throws std::runtime_error if
  /// a row is damaged, or is at a step after `last` (written by another optimizer).
  virtual void fault_in(std::span<const std::int32_t> /*ids*/, std::uint64_t /*last*/) {}

  /// Prepares to change rows, slots and steps: creates records, or writes the old rows of a file to
  /// its journal. Requires: fault_in(). Earlier views stay valid.
  virtual void prepare_write(std::span<const std::int32_t> ids) = 0;

  /// Allocates slots and steps for all rows.
  virtual void make_all() {}

  /// Sets the steps of all rows to 0. If there are records, visits only the records.
  virtual void reset_steps() {}

  /// Tells a file that it has stale rows, which only this optimizer can bring up to date.
  virtual void note_deferred() {}

  /// Tells a file that the optimizer is destroyed. If rows have changed since the last save,
  /// checkpoint() then throws.
  virtual void abandon() noexcept {}

  /// Returns true if a row and its slots are stored in the file (see RowView::copied_by).
  virtual bool is_stored(std::size_t /*row*/) const { return true; }
  /// Copies any row, with its slots and step.
  virtual void copy(std::size_t /*row*/, RowCopy& /*to*/) const {}

  /// Adds the slots to `state`, by name: their values, or the checkpoint id of their file.
  virtual void save(StateDict& state) const = 0;

  /// Loads each slot i whose saved[i] is true into this new store. Throws std::invalid_argument if
  /// values are missing or have another shape, or if the file is at another checkpoint (with
  /// values_follow: if it cannot be restored to the saved checkpoint).
  virtual void load(const StateDict& state, const std::array<bool, kMaxSlots>& saved,
                    bool values_follow) = 0;

  /// Adds the stored values of all rows to `state` as "values" and their steps as "at", or the
  /// checkpoint id of the file as "file".
  virtual void save_rows(StateDict& state) const = 0;

  /// Loads saved rows and steps. Throws like load(), and if a step is after `last`. Only rows()
  /// shows the loaded values until commit().
  virtual void load_rows(const StateDict& state, std::uint64_t last, bool values_follow) = 0;
  /// Replaces the values of the parameter with the loaded values.
  virtual void commit() noexcept {}

 protected:
  const Owner owner_;  // for messages and saved names
};

/// Returns all names that SlotStore::save may add for the slots `names`.
std::vector<std::string> saved_names(std::span<const std::string_view> names);

/// Returns an empty store for a parameter, in memory or in its table file. Throws
/// std::invalid_argument if the rows are elsewhere.
std::unique_ptr<SlotStore> slots_of(Parameter& parameter, const SlotStore::Owner& owner);

/// Returns a store in memory. Borrows the values.
std::unique_ptr<SlotStore> slots_in_memory(Tensor& values, const SlotStore::Owner& owner);
/// Returns a store in a file, next to the values. Borrows the file.
std::unique_ptr<SlotStore> slots_in_file(TableFile& file, const SlotStore::Owner& owner);

template <std::size_t N>
StoredRow<N> RowView::readable(std::size_t i, const auto& replays, RowCopy& copy) const {
  if (copied_by == nullptr || (copied_by->is_stored(i) && !replays(*row<N>(i).step)))
    return row<N>(i);
  copied_by->copy(i, copy);
  // Values and slots have the same offsets in the copy as in the file.
  StoredRow<N> result{.arrays = {copy.values.data()}, .step = &copy.step};
  for (std::size_t k = 1; k < N; ++k)
    if (first[k] != nullptr) result.arrays[k] = copy.values.data() + (first[k] - first[0]);
  return result;
}

}  // namespace rowgrad
