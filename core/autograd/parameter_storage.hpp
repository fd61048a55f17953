#pragma once

// Where the values of a parameter are, with what optimizers keep for each row: in memory, or
// elsewhere (in a file: core/tables). Nothing but the classes behind these interfaces knows.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/autograd/row_records.hpp>
#include <rowgrad/core/kernels/rows.hpp>
#include <rowgrad/core/tensor/checkpoint.hpp>

namespace rowgrad {

constexpr std::size_t kMaxSlots = 8;  // the most states that an optimizer has

/// One row: its values and then its states, null for a state that is not in use, and the step of an
/// optimizer that all of them are of.
template <std::size_t N>
struct StoredRow {
  std::array<real*, N> arrays;  // the values, then the states
  std::uint64_t* step;          // the step that values and states are of
};

/// Memory for a row that cannot be read where it is.
struct RowCopy {
  std::vector<real> values;  // the values of the row, then its states
  std::uint64_t step = 0;    // the step that all of them are of
};

class SlotStore;
class Parameter;

/// Where rows are, for loops over them: row i is `i` strides after row 0, in memory and in a file.
/// The states and steps of single rows in memory are in records instead.
struct RowView {
  // Row 0: its values, then the states in use; those of record 0, if there are records.
  std::array<real*, 1 + kMaxSlots> first{};
  std::size_t stride = 0;                // from one row to the next, in numbers
  std::size_t width = 0;                 // the number of values in a row
  RowRecords* records = nullptr;         // of states and steps
  std::uint64_t* steps = nullptr;        // the step of row 0; null if steps have not begun
  std::size_t step_stride = 1;           // from one row's step to the next
  const SlotStore* copied_by = nullptr;  // has rows that must not change when they are read

  /// Returns false if row i has no record. Then row() returns the states of record 0, which must
  /// not be changed; the values may be.
  bool has_record(std::size_t i) const { return records == nullptr || records->number_of(i) != 0; }

  /// Row i. N is one more than the number of states.
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

  /// Prefetches row i, with all states. The number of its record should have been, some rows
  /// before.
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

  /// Value number `offset` of a tensor in memory, and its states.
  template <std::size_t N>
  std::array<real*, N> at(std::size_t offset) const {
    std::array<real*, N> result;
    for (std::size_t k = 0; k < N; ++k)
      result[k] = first[k] != nullptr ? first[k] + offset : nullptr;
    return result;
  }

  /// A row to read, whose steps may be replayed before. As a file changes only in steps, this is a
  /// copy there unless `replays(step)` says that none of the steps since `step` has to be replayed.
  template <std::size_t N>
  StoredRow<N> readable(std::size_t i, const auto& replays, RowCopy& copy) const;
};

/// What one optimizer keeps for the values of a parameter: states (momentum, for example), each as
/// large as the values, and for each row the step that it is of. In memory these are of its own, so
/// several optimizers can use a table in turn: records of the rows that ever had a gradient
/// (row_records.hpp) or, from the first dense gradient on, an array for each state. A file has them
/// beside the values, for one optimizer at a time. What has nothing to do for rows in memory does
/// nothing by default.
class SlotStore {
 public:
  /// Whose states they are, for messages and for saving. All must outlive the states.
  struct Owner {
    std::string_view optimizer;               // its name
    const std::string& parameter;             // its name
    std::span<const std::string_view> names;  // of the states
  };

  /// Which states a step uses, and the values that they start as.
  struct Needs {
    std::array<bool, kMaxSlots> uses{};      // whether it uses each state
    std::array<double, kMaxSlots> starts{};  // what a new state is filled with
  };

  /// States of which none has begun.
  explicit SlotStore(const Owner& owner) : owner_(owner) {}
  SlotStore(const SlotStore&) = delete;
  SlotStore& operator=(const SlotStore&) = delete;
  virtual ~SlotStore() = default;

  /// Whether a step needs states that have not begun. Throws std::invalid_argument if a file has no
  /// room for them, or if they do not start as zeros there.
  virtual bool lacks(const Needs& needs) const = 0;

  /// Has all states that a step needs begin.
  virtual void ensure(const Needs& needs) = 0;

  /// Gives these rows the memory of their states and step, if they have none yet. To be called
  /// before these change. Earlier views stay valid.
  virtual void make_records(std::span<const std::int32_t> /*ids*/) {}

  /// Does the same for all rows. Earlier views become invalid.
  virtual void make_all() {}

  /// Makes all rows those of step 0. Visits only rows that have records.
  virtual void begin_steps() {}

  /// Rows as they are now; valid until states begin or the values get other memory.
  virtual RowView view() = 0;

  /// To be called before rows are read, and before they are changed: a file reads them from the
  /// disk. Throws std::runtime_error for rows that are damaged, or of a step after `last`: they are
  /// another optimizer's.
  virtual void bring_in(std::span<const std::int32_t> /*ids*/, std::uint64_t /*last*/) {}

  /// To be called after bring_in(), before rows are changed: a file puts what they were into its
  /// journal.
  virtual void begin_change(std::span<const std::int32_t> /*ids*/) {}

  /// For rows that must not change when they are read (RowView::copied_by): whether a row is stored
  /// with its states, and a copy of one that need not be.
  virtual bool is_stored(std::size_t /*row*/) const { return true; }
  virtual void copy(std::size_t /*row*/, RowCopy& /*to*/) const {}

  /// Puts the states that have begun into `state`, by name: their values or, if a file has them,
  /// the mark of its checkpoint. Reads the states that are `saved`, for a new object; throws
  /// std::invalid_argument for values that are missing or of another
  /// shape, and if the file is at another mark or, where the values follow and it will go back to
  /// theirs, cannot go back to this one.
  virtual void save(Checkpoint& state) const = 0;
  virtual void load(const Checkpoint& state, const std::array<bool, kMaxSlots>& saved,
                    bool values_follow) = 0;

  /// Puts the stored values of rows into `state`, as "values", and their steps, as "at"; or, as
  /// "file", the mark of the file's checkpoint. Reads them as load() does; no step may be after
  /// `last`. The values that were read replace the parameter's in take_over(), which cannot fail;
  /// until then they are seen by view() only.
  virtual void save_rows(Checkpoint& state) const = 0;
  virtual void load_rows(const Checkpoint& state, std::uint64_t last, bool values_follow) = 0;
  virtual void take_over() noexcept {}

 protected:
  const Owner owner_;  // whose states they are
};

/// All names that SlotStore::save may put for states of these names.
std::vector<std::string> saved_names(std::span<const std::string_view> names);

/// The values of a parameter: a tensor of any shape in memory, or a table [rows, width] elsewhere.
/// What has nothing to do for values in memory does nothing by default.
class ParameterStorage {
 public:
  /// Values of this shape.
  explicit ParameterStorage(Shape shape)
      : place{0, shape.empty() ? 0 : shape[0]}, shape_(std::move(shape)) {}
  ParameterStorage(const ParameterStorage&) = delete;
  ParameterStorage& operator=(const ParameterStorage&) = delete;
  virtual ~ParameterStorage() = default;

  /// The shape of all values.
  const Shape& shape() const { return shape_; }

  /// Which rows of a larger table they are, as SplitRows sets: those from `first` on, of `rows`.
  struct Place {
    std::size_t first, rows;
    bool is_split = false;  // whether the table is split over ranks

    /// Marks all values of a state as rows of the table, if it is split.
    void mark(Checkpoint& state) const {
      for (const std::string& name : state.names())
        if (is_split) state.mark_split(name, rows);
    }
  } place;

  /// Of a table that is split over ranks, the rows that this rank has: a parameter of their own,
  /// which is what optimizers train and checkpoints have. Null for all others.
  virtual Parameter* own() { return nullptr; }

  /// True if max_norm scales rows where own() is, before lookups read them.
  virtual bool scales_when_fetched() const { return false; }

  /// All values; null if nothing may pass over all of them.
  virtual Tensor* all() = 0;
  bool allows_passes() { return all() != nullptr; }

  /// out[i] = row ids[i], plus row i of `added`, unless it is null (see kernels::gather_rows).
  virtual void read(std::span<const std::int32_t> ids, real* out, const Tensor* added) = 0;

  /// Replaces rows.
  virtual void assign(std::span<const std::int32_t> ids, const real* values) = 0;

  /// What a new optimizer keeps for them.
  virtual std::unique_ptr<SlotStore> states(const SlotStore::Owner& owner) = 0;

  /// For messages: the path of the file, or the ranks that have parts.
  virtual std::string path() const { return {}; }

  /// See Parameter::read_ahead.
  virtual void read_ahead(std::span<const std::int32_t> /*ids*/) {}

  /// Whether rows have deferred updates that only the state of an optimizer knows, which a file
  /// does not forget.
  virtual bool has_deferred() const { return false; }
  virtual void set_deferred() {}

  /// Notes whether nobody can save the state of that optimizer any more: then a file makes no
  /// further checkpoint.
  virtual void set_lost(bool /*lost*/) {}

  /// The mark of the checkpoint that a file is at, and the way back to one. check_mark throws
  /// std::invalid_argument for a mark that it cannot go back to.
  virtual std::string mark() const { return {}; }
  virtual void check_mark(const std::string& /*mark*/) const {}
  virtual void restore(const std::string& /*mark*/) {}

 private:
  Shape shape_;
};

/// Values in memory.
std::unique_ptr<ParameterStorage> values_in_memory(Tensor values);

template <std::size_t N>
StoredRow<N> RowView::readable(std::size_t i, const auto& replays, RowCopy& copy) const {
  if (copied_by == nullptr || (copied_by->is_stored(i) && !replays(*row<N>(i).step)))
    return row<N>(i);
  copied_by->copy(i, copy);
  // The copy has values and states at the same distances as the file has them.
  StoredRow<N> result{.arrays = {copy.values.data()}, .step = &copy.step};
  for (std::size_t k = 1; k < N; ++k)
    if (first[k] != nullptr) result.arrays[k] = copy.values.data() + (first[k] - first[0]);
  return result;
}

}  // namespace rowgrad
