#pragma once

// Tables larger than memory: rows of numbers in a file that is mapped into memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rowgrad/core/autograd/parameter_storage.hpp>
#include <rowgrad/core/tables/record_file.hpp>

namespace rowgrad {

/// Options of a new file.
struct TableFileOptions {
  std::size_t rows = 0;   // at least 1
  std::size_t width = 0;  // numbers in a row, at least 1
  /// How many numbers an optimizer keeps beside each value: 1 for SGD with momentum, Adagrad and
  /// RMSprop, 2 for Adam and AdamW, one more for each of amsgrad, centered, and RMSprop's momentum.
  std::size_t states = 0;
  /// Rows start as normal(0, deviation), each drawn for itself from the seed and its number.
  std::uint64_t seed = 0;
  double deviation = 1;
};

/// A table [rows, width] in a file, for an Embedding that need not fit into memory:
///
///   TableFile words("words.table", {.rows = 100'000'000, .width = 64, .states = 1});
///   Embedding embedding(words);
///
/// core/tables/README.md says how to use one, and what it costs. Row r is at 4096 + r · stride: its
/// head (RowHead), its values, the optimizer's states of it, and their checksum at the last
/// checkpoint, so that one page has them. A row that never changed takes no place on the disk (the
/// file is sparse), and reading changes nothing.
///
/// checkpoint() marks what the table has now. Whenever the program or the machine stops, the table
/// opens again as it was marked last, because each row's previous content goes to a journal beside
/// it (PATH.undo-N, see undo_journal.hpp) before its first change after a checkpoint. The mark
/// belongs into the checkpoint of the model: Layer::state_dict puts it there, and load_state_dict
/// takes the table back to it, if it is the last one or the one before; what came later is then
/// gone.
///
/// A row is verified by its checksum when it is first touched after the table was opened. Whatever
/// has changed in it, or in a journal, is a std::runtime_error, instead of a wrong row. What this
/// cannot see: damage to a row after that, while the program goes on; and a row whose place has
/// become zeros, as if it had never been stored (but verify() reads and counts all rows).
///
/// Only one program can have a table open, one layer use it, and one thread at a time, also to
/// read. It must outlive the layer. A disk that is full is an exception, before anything changes,
/// if the file system overwrites blocks of 4 KiB in place (ext4, XFS); on others (Btrfs, tmpfs),
/// and if the disk cannot be read, the system ends the program (SIGBUS), and the table opens at its
/// last checkpoint. All functions throw std::system_error if the files cannot be used. After a
/// failure to write or sync the table, it has to be opened again: until then, all that reads or
/// changes it throws std::logic_error.
class TableFile {
 public:
  /// Makes a table in a new file, which gets its name when it is whole. Throws
  /// std::invalid_argument if the path has a file, and for sizes of 0 or too large, more than 8
  /// states, and a deviation that is negative or not finite.
  TableFile(const std::filesystem::path& path, const TableFileOptions& options);

  /// Opens a table as it was at its last checkpoint. Throws std::runtime_error for a file that is
  /// none, has a damaged head, is of a later format, or has numbers of another type, and for a
  /// journal that is missing, damaged, or of another table.
  explicit TableFile(const std::filesystem::path& path);

  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  /// The path of the table, beside which its journals are.
  const std::filesystem::path& path() const { return records_->path(); }

  /// How many rows the table has, of how many values, and how many states are beside each value.
  std::size_t rows() const { return records_->size(); }
  std::size_t width() const;
  Shape shape() const { return {rows(), width()}; }
  std::size_t states() const;

  /// How many rows have a place on the disk.
  std::uint64_t rows_stored() const { return records_->stored(); }

  /// Reads all rows that have a place on the disk, and returns how many they are. Throws
  /// std::runtime_error if rows are damaged or missing, and std::logic_error if the table has
  /// changed since its last checkpoint.
  std::uint64_t verify() const { return records_->verify(); }

  /// Makes what the table has now its checkpoint, on the disk when this returns; the last but one
  /// is forgotten. Does nothing if the table has not changed since the last one. Throws
  /// std::logic_error if rows have deferred updates of an optimizer that was destroyed.
  void checkpoint();

  /// The name of the last checkpoint, which depends on nothing but the table and its history:
  /// tables of several ranks have the same. Throws std::logic_error if the table has changed since.
  std::string mark() const { return records_->checkpoint_id(); }

  /// Takes the table back to the checkpoint with this mark. check_mark() throws
  /// std::invalid_argument for any other than the last one and the one before, and
  /// std::runtime_error if the journal that is needed is damaged; restore() does so before anything
  /// changes. After that only writing can fail: then the table has to be opened again, and can go
  /// back to the same mark. Throws std::logic_error while a layer uses the table, unless that
  /// passes its lease.
  using Lease = std::shared_ptr<const bool>;
  void restore(std::string_view mark, const Lease& lease = {});
  void check_mark(std::string_view mark) const { records_->check_rollback(mark); }

  // --- For parameters and optimizers -------------------------------------------------------------
  // Row numbers must be inside the table.

  /// For the one parameter that uses the table, for as long as it does. Throws
  /// std::invalid_argument while there is another.
  Lease lease();

  /// Has the system read rows from the disk, all at once, if they are not in memory, and verifies
  /// them. To be called before rows are read.
  void bring_in(std::span<const std::int32_t> ids) { records_->fault_in(ids); }

  /// Has another thread ask the system for rows that are not in memory, which will be brought in
  /// later, while something else is computed. Waits until those of the call before were asked for.
  void read_ahead(std::span<const std::int32_t> ids) { records_->prefetch(ids); }

  /// Copies a row: its values, and as many of its states as `out` has room for.
  void read(std::size_t row, std::span<real> out) const;

  /// Prepares rows for changes (RecordFile::modify), and returns the only access to rows that can
  /// be written. The content of a record is the row's values and then its states, `width` numbers
  /// each. The note is the step up to which an optimizer has brought the row (see
  /// OptimizedParameter).
  RecordWriter modify(std::span<const std::int32_t> ids) { return records_->modify(ids); }
  std::size_t stride_bytes() const { return records_->stride(); }  // from one row to the next

  /// Returns the step of a row; 0 if it is not current.
  std::uint64_t step(std::size_t row) const { return records_->read(row).note; }

  /// Whether a row is stored, with states of the optimizer that began last.
  bool is_current(std::size_t row) const { return records_->read(row).is_current; }

  /// Whether rows have deferred updates that only the state of an optimizer knows.
  bool has_deferred() const { return records_->state().flags != 0; }
  void set_deferred();

  /// Notes whether nobody can save that state any more.
  void set_lost(bool lost) { is_lost_ = lost; }

  /// The place of the state with this name among the states of a row, if it has begun, and how many
  /// have begun. begin_state() gives the next place to a name. An optimizer that begins anew calls
  /// forget_states() first, which makes all states of all rows zeros.
  std::optional<std::size_t> state_place(std::string_view name) const;
  std::size_t states_begun() const;
  void forget_states();
  std::size_t begin_state(std::string_view name);

 private:
  std::unique_ptr<RecordFile> records_;
  std::weak_ptr<const bool> lease_;
  bool is_lost_ = false;  // whether what is deferred can no longer be saved
};

/// The rows of a table for a parameter: `Parameter words("words", file_rows(file))`. The file must
/// outlive it. Throws std::invalid_argument if another parameter has the file.
std::unique_ptr<ParameterStorage> file_rows(TableFile& file);

}  // namespace rowgrad
