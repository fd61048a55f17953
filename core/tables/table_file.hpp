#pragma once

// Tables larger than memory, whose rows are in a memory-mapped file.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

class RecordWriter;

/// Options of a new table.
struct TableFileOptions {
  std::size_t rows = 0;   // at least 1
  std::size_t width = 0;  // values in a row, at least 1
  /// The number of slots (arrays of optimizer state): 1 for SGD with momentum, Adagrad and RMSprop,
  /// 2 for Adam and AdamW, and one more for each of amsgrad, centered, and RMSprop's momentum.
  std::size_t slots = 0;
  /// Initial values are normal(0, init_std), and depend only on the options and the row's index.
  std::uint64_t seed = 0;
  double init_std = 1;
};

/// A table [rows, width] in a file, for an Embedding that need not fit into memory:
///
///   TableFile words("words.table", {.rows = 100'000'000, .width = 64, .slots = 1});
///   Embedding embedding(words);
///
/// core/tables/README.md explains usage and cost. Each row is stored next to its optimizer state,
/// and takes space from its first change on.
///
/// Even if the program or the machine crashes, the table opens as it was at its last checkpoint().
/// Layer::state_dict() saves this checkpoint's id, and load_state_dict() restores the checkpoint.
///
/// Only one program can open a table at a time, and only one layer and one thread can use it. The
/// table must outlive the layer. RecordFile lists the detected damage and failures. A full disk
/// throws std::system_error on file systems that overwrite blocks of 4 KiB in place (ext4, XFS). On
/// other file systems (Btrfs, tmpfs), and if the disk cannot be read, the operating system kills
/// the program (SIGBUS).
class TableFile {
 public:
  static constexpr std::size_t kMaxSlots = 8;  // per table

  /// Creates a table in a new file. Throws std::invalid_argument if the path exists, and for
  /// options that are out of range.
  TableFile(const std::filesystem::path& path, const TableFileOptions& options);

  /// Opens a table as it was at its last checkpoint. Throws std::runtime_error if the file is
  /// damaged, is not a table of `real`, or has an unknown format, and if its undo file is missing.
  explicit TableFile(const std::filesystem::path& path);
  ~TableFile();

  const std::filesystem::path& path() const;  // returns the file's path
  std::size_t rows() const;
  std::size_t width() const;
  Shape shape() const { return {rows(), width()}; }  // returns [rows, width]
  std::size_t slots() const;                         // returns TableFileOptions::slots
  std::uint64_t stored_rows() const;                 // returns the number of stored rows

  /// Reads all stored rows and returns their number. Throws std::runtime_error if rows are damaged
  /// or missing, and std::logic_error if the table has changed since its last checkpoint.
  std::uint64_t verify() const;

  /// Makes the current rows the last checkpoint, which is on the disk when this returns. The
  /// previous checkpoint can still be restored. Does nothing if nothing has changed. Throws
  /// std::logic_error if rows have deferred updates of an optimizer that was destroyed.
  void checkpoint();

  /// Returns the id of the last checkpoint. It depends only on the options and on all changes, so
  /// ranks with equal tables have equal ids. Throws std::logic_error if the table has changed
  /// since.
  std::string checkpoint_id() const;
  [[deprecated("use checkpoint_id()")]] std::string mark() const { return checkpoint_id(); }
  [[deprecated("use slots()")]] std::size_t states() const { return slots(); }

  using Lease = std::shared_ptr<const bool>;  // a layer's right to use the table

  /// Goes back to the last checkpoint or the one before. Throws std::invalid_argument if `id` names
  /// neither, std::runtime_error if an undo file is damaged, and std::logic_error if a layer uses
  /// the table and `lease` is not its lease.
  void restore(std::string_view id, const Lease& lease = {});

  /// Checks the id and the undo files as restore() does.
  void check_restore(std::string_view id) const;

  // --- For parameters and optimizers -------------------------------------------------------------

  /// Returns the lease for the parameter that uses the table. Throws std::invalid_argument if
  /// another parameter has it.
  Lease lease();

  /// Reads and verifies rows.
  void fault_in(std::span<const std::int32_t> ids) const;

  /// Starts reading rows in another thread.
  void prefetch(std::span<const std::int32_t> ids);

  /// Copies a row's values and then its slots, up to the size of `out`.
  void read(std::size_t row, std::span<real> out) const;

  /// Copies the values of rows: out[i] = row ids[i].
  void read(std::span<const std::int32_t> ids, real* out) const;

  /// Prepares rows for changes (RecordFile::modify). The content of a record is the row's values
  /// and then its slots, `width` elements each. The note is the step that the row is up to date
  /// with (see OptimizedParameter).
  RecordWriter modify(std::span<const std::int32_t> ids);

  /// Returns true if the row has been modified since the last clear_slots(). Requires: fault_in()
  /// has verified the row.
  bool is_current(std::size_t row) const;

  /// Returns the step that a row is up to date with, or 0 unless is_current(row). Requires: see
  /// is_current().
  std::uint64_t step(std::size_t row) const;

  /// Returns true if rows have deferred updates, which need the optimizer's state.
  bool has_deferred() const;

  /// Makes has_deferred() true.
  void set_deferred();

  /// Records whether the optimizer was destroyed without saving its state.
  void set_lost(bool lost);

  /// Throws std::logic_error if the optimizer's state is lost.
  void check_not_lost() const;

  /// Returns the index of the slot with this name, or nullopt.
  std::optional<std::size_t> find_slot(std::string_view name) const;

  /// Names the next slot and returns its index. Throws std::logic_error if none is left or `name`
  /// exceeds 23 bytes.
  std::size_t add_slot(std::string_view name);

  /// Clears all slots and their names, for another optimizer.
  void clear_slots();
  std::size_t named_slots() const;  // returns the number of named slots

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace rowgrad
