#pragma once

// The state that an optimizer keeps for the rows of a parameter (momentum, for example): slots,
// each as large as the values, and the step that each row is of.

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

constexpr std::size_t kMaxSlots = 8;  // of one optimizer

/// One row: its values, its slots (null for a slot that is not in use), and the step of the history
/// that all of them are of.
template <std::size_t N>
struct StoredRow {
  std::array<real*, N> arrays;  // the values, then the slots
  std::uint64_t* step;
};

/// Memory for a row that must not change where it is.
struct RowCopy {
  std::vector<real> values;  // the values of the row, then its slots
  std::uint64_t step = 0;
};

/// The addresses of rows, for loops over them. In a file and in arrays, row i is `i` strides after
/// row 0. The slots and steps of single rows in memory are in records instead.
struct RowView {
  // Row 0: its values, then the slots in use, of record 0 if there are records.
  std::array<real*, 1 + kMaxSlots> first{};
  std::size_t stride = 0;                // from one row to the next, in values
  std::size_t width = 0;                 // the number of values in a row
  RowRecords* records = nullptr;         // of slots and steps
  std::uint64_t* steps = nullptr;        // the step of row 0; null if all rows are up to date
  std::size_t step_stride = 1;           // from one row's step to the next
  const SlotStore* copied_by = nullptr;  // has rows that must not change when they are read

  /// Returns false if row i has no record. Then row() returns the slots of record 0, which must
  /// not be changed; the values may be.
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

  /// Prefetches row i with its slots. Prefetch the number of its record some rows earlier.
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

  /// Returns value number `offset` of a tensor in memory, and its slots.
  template <std::size_t N>
  std::array<real*, N> at(std::size_t offset) const {
    std::array<real*, N> result;
    for (std::size_t k = 0; k < N; ++k)
      result[k] = first[k] != nullptr ? first[k] + offset : nullptr;
    return result;
  }

  /// Returns a row to read, on which steps may be replayed before. A file changes only in steps, so
  /// this is a copy there, unless replays(step of the row) is false.
  template <std::size_t N>
  StoredRow<N> readable(std::size_t i, const auto& replays, RowCopy& copy) const;
};

/// Some rows of a table: ids[begin] … ids[end − 1], or begin … end − 1 without ids.
struct RowRange {
  const RowView& rows;      // where the rows of the table are
  const std::int32_t* ids;  // row numbers; null for all rows from begin to end
  std::size_t begin, end;   // places in ids, or row numbers if that is null

  std::size_t operator[](std::size_t i) const {  // the row at place i
    return ids != nullptr ? static_cast<std::size_t>(ids[i]) : i;
  }
};

/// The optimizer state of one parameter: slots, and for each row the step that it is of, counted in
/// the history of deferred steps. A store in memory has records of the rows that a step or a
/// deferred step has changed in place (row_records.hpp) or, from the first dense gradient on, an
/// array for each slot; several optimizers can use a table in turn. A file has the slots next to
/// the values, for one optimizer at a time.
class SlotStore {
 public:
  /// Whose slots they are, for messages and for saving. All must outlive the store.
  struct Owner {
    std::string_view optimizer;
    const std::string& parameter;
    std::span<const std::string_view> names;  // of the slots
  };

  /// The slots that a step uses, and the values that they start as.
  struct Needs {
    std::array<bool, kMaxSlots> uses{};      // true if it uses the slot
    std::array<double, kMaxSlots> starts{};  // the initial value of a slot
  };

  /// Makes a store without slots.
  explicit SlotStore(const Owner& owner) : owner_(owner) {}
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;
  virtual ~SlotStore() = default;

  /// Returns true if a step needs slots that do not exist yet. Throws std::invalid_argument if a
  /// file has no place for them, or if they do not start as zeros there.
  virtual bool lacks(const Needs& needs) const = 0;

  /// Creates the slots that a step needs and that do not exist yet.
  virtual void create(const Needs& needs) = 0;

  /// Returns the rows as they are now. Valid until slots are created, make_all() is called, or the
  /// values get other memory.
  virtual RowView rows() = 0;

  /// Call before rows are read: a file reads them from the disk. Throws std::runtime_error for rows
  /// that are damaged, or of a step after `last`, which belong to another optimizer.
  virtual void fault_in(std::span<const std::int32_t> /*ids*/, std::uint64_t /*last*/) {}

  /// Call before rows with their slots and steps change: gives them records, or puts what they were
  /// into the journal of a file. Requires: fault_in(). Earlier views stay valid.
  virtual void prepare_write(std::span<const std::int32_t> ids) = 0;

  /// Gives all rows memory for their slots and steps.
  virtual void make_all() {}

  /// Makes all rows those of step 0. Visits only rows that have records.
  virtual void reset_steps() {}

  /// Notes that from now on only this optimizer can bring the rows up to date.
  virtual void note_deferred() {}

  /// Notes that the optimizer is gone. If rows have changed since the last save, a file refuses
  /// further checkpoints.
  virtual void abandon() noexcept {}

  /// For reads that must not change the rows (RowView::copied_by): is_stored() returns true if a
  /// row and its slots are in the file, and copy() copies any row.
  virtual bool is_stored(std::size_t /*row*/) const { return true; }
  virtual void copy(std::size_t /*row*/, RowCopy& /*to*/) const {}

  /// Puts the slots into `state`, by name: their values or, if a file has them, the id of its
  /// checkpoint.
  virtual void save(StateDict& state) const = 0;

  /// Reads the slots that are `saved` into a new store. Throws std::invalid_argument for values
  /// that are missing or of another shape, and if the file is at another checkpoint or, where the
  /// values follow and take it back, cannot go back to this one.
  virtual void load(const StateDict& state, const std::array<bool, kMaxSlots>& saved,
                    bool values_follow) = 0;

  /// Puts the stored values of rows into `state` as "values" and their steps as "at"; or the id of
  /// the file's checkpoint as "file".
  virtual void save_rows(StateDict& state) const = 0;

  /// Reads them as load() does; no step may be after `last`. The values replace those of the
  /// parameter in commit(), which cannot fail; until then only rows() shows them.
  virtual void load_rows(const StateDict& state, std::uint64_t last, bool values_follow) = 0;
  virtual void commit() noexcept {}

 protected:
  const Owner owner_;  // whose slots they are
};

/// Returns all names that SlotStore::save may put for slots of these names.
std::vector<std::string> saved_names(std::span<const std::string_view> names);

/// Returns a new, empty store for the values of a parameter, wherever they are.
std::unique_ptr<SlotStore> slots_of(Parameter& parameter, const SlotStore::Owner& owner);

/// Returns a store in memory, and one in a file next to the values. Both borrow the values.
std::unique_ptr<SlotStore> slots_in_memory(Tensor& values, const SlotStore::Owner& owner);
std::unique_ptr<SlotStore> slots_in_file(TableFile& file, const SlotStore::Owner& owner);

template <std::size_t N>
StoredRow<N> RowView::readable(std::size_t i, const auto& replays, RowCopy& copy) const {
  if (copied_by == nullptr || (copied_by->is_stored(i) && !replays(*row<N>(i).step)))
    return row<N>(i);
  copied_by->copy(i, copy);
  // The copy has values and slots at the same distances as the file has them.
  StoredRow<N> result{.arrays = {copy.values.data()}, .step = &copy.step};
  for (std::size_t k = 1; k < N; ++k)
    if (first[k] != nullptr) result.arrays[k] = copy.values.data() + (first[k] - first[0]);
  return result;
}

}  // namespace rowgrad
