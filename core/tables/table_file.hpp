#pragma once

// Tables larger than memory: rows in a file that is mapped into memory.

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
  /// The number of slots, which are arrays of optimizer state: 1 for SGD with momentum, Adagrad and
  /// RMSprop, 2 for Adam and AdamW, and one more for each of amsgrad, centered, and RMSprop's
  /// momentum.
  std::size_t slots = 0;
  /// A row starts as normal(0, init_std), drawn from the seed and the number of the row.
  std::uint64_t seed = 0;
  double init_std = 1;
};

/// A table [rows, width] in a file, for an Embedding that need not fit into memory:
///
///   TableFile words("words.table", {.rows = 100'000'000, .width = 64, .slots = 1});
///   Embedding embedding(words);
///
/// core/tables/README.md says how to use one, and what it costs. Each row is next to its optimizer
/// state. A row takes space from its first change on.
///
/// Whenever the program or the machine stops, the table opens as it was at its last checkpoint().
/// Layer::state_dict() saves the id of that checkpoint, and load_state_dict() takes the table back
/// to it.
///
/// One program can open a table at a time, and one layer and one thread use it. The table must
/// outlive the layer. RecordFile says which damage and which failures are noticed. A full disk is a
/// std::system_error on file systems that overwrite blocks of 4 KiB in place (ext4, XFS). On others
/// (Btrfs, tmpfs), and if the disk cannot be read, the kernel ends the program (SIGBUS).
class TableFile {
 public:
  static constexpr std::size_t kMaxSlots = 8;  // next to each value

  /// Creates a table in a new file. Throws std::invalid_argument if the path exists, and for
  /// options that are out of range.
  TableFile(const std::filesystem::path& path, const TableFileOptions& options);

  /// Opens a table as it was at its last checkpoint. Throws std::runtime_error if the file is
  /// damaged, is not a table of `real`, or has a later format, and if its journal is missing.
  explicit TableFile(const std::filesystem::path& path);
  ~TableFile();

  const std::filesystem::path& path() const;  // its journals are next to it
  std::size_t rows() const;
  std::size_t width() const;
  Shape shape() const { return {rows(), width()}; }  // [rows, width]
  std::size_t slots() const;                         // the number of slots
  std::uint64_t stored_rows() const;                 // the number of rows that take space

  /// Reads all stored rows and returns their number. Throws std::runtime_error if rows are damaged
  /// or missing, and std::logic_error if the table has changed since its last checkpoint.
  std::uint64_t verify() const;

  /// Makes the present rows the last checkpoint, on the disk when this returns. The one before can
  /// still be restored. Does nothing if nothing has changed. Throws std::logic_error if rows have
  /// deferred updates of an optimizer that was destroyed.
  void checkpoint();

  /// Returns the name of the last checkpoint. It depends only on the options and on all changes, so
  /// ranks with equal tables have equal ids. Throws std::logic_error if the table has changed
  /// since.
  std::string checkpoint_id() const;
  [[deprecated("use checkpoint_id()")]] std::string mark() const { return checkpoint_id(); }
  [[deprecated("use slots()")]] std::size_t states() const { return slots(); }

  /// Goes back to the checkpoint with this id. Throws std::invalid_argument unless it is the last
  /// one or the one before, std::runtime_error if a journal is damaged, and std::logic_error while
  /// a layer uses the table and does not pass its lease. check_restore() throws the first two.
  using Lease = std::shared_ptr<const bool>;
  void restore(std::string_view id, const Lease& lease = {});
  void check_restore(std::string_view id) const;

  // --- For parameters and optimizers -------------------------------------------------------------

  /// Returns the lease for the parameter that uses the table. Throws std::invalid_argument while
  /// another parameter has it.
  Lease lease();

  /// Reads rows into memory, at once or in another thread: see RecordFile.
  void fault_in(std::span<const std::int32_t> ids) const;
  void prefetch(std::span<const std::int32_t> ids);

  /// Copies the values of a row, and then its slots as far as `out` has room.
  void read(std::size_t row, std::span<real> out) const;

  /// Copies the values of rows: out[i] = row ids[i].
  void read(std::span<const std::int32_t> ids, real* out) const;

  /// Prepares rows for changes (RecordFile::modify), and returns the only access to rows that can
  /// be written. The content of a record is the row's values and then its slots, `width` elements
  /// each. The note is the step that the row is up to date with (see OptimizedParameter).
  RecordWriter modify(std::span<const std::int32_t> ids);

  /// Returns true if the row has been modified since the last clear_slots(), and the step that it
  /// is up to date with, or else 0. Requires: fault_in() has verified the row.
  bool is_current(std::size_t row) const;
  std::uint64_t step(std::size_t row) const;

  /// Returns true if rows have deferred updates, which only the state of an optimizer can apply.
  bool has_deferred() const;
  void set_deferred();

  /// Sets whether that optimizer was destroyed without saving its state. check_not_lost() throws
  /// std::logic_error if so.
  void set_lost(bool lost);
  void check_not_lost() const;

  /// Returns the index of the slot with this name.
  std::optional<std::size_t> find_slot(std::string_view name) const;

  /// Names the next slot and returns its index. Throws std::logic_error if all slots have names.
  std::size_t add_slot(std::string_view name);

  /// Makes the slots of all rows zeros without names, for another optimizer.
  void clear_slots();
  std::size_t named_slots() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace rowgrad
