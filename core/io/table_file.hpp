#pragma once

// Tables larger than memory: rows of numbers in a file that is mapped into memory.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rowgrad/core/io/file.hpp>
#include <rowgrad/core/io/undo_journal.hpp>
#include <rowgrad/core/tensor/tensor.hpp>

namespace rowgrad {

struct TableFileOptions {
  std::size_t rows = 0;
  std::size_t width = 0;
  /// How many numbers an optimizer keeps beside each value: 1 for SGD with momentum, 2 for Adam.
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
/// A row is stored once it is looked up or changed, and what was never touched takes no place on
/// the disk (the file is sparse). The system brings pages of 4 KiB into memory when they are
/// touched, and removes them when memory is short; the states of a row follow its values, so that
/// one page has them. Row r is at 4096 + r · stride: the step up to which an optimizer has brought
/// it (8 bytes), which checkpoint's journal has it, whether it is stored (4 each), its values, its
/// states.
///
/// checkpoint() marks what the table has now. Whenever the program or the machine stops, the table
/// opens again as it was marked last, because each row's previous content goes to a journal beside
/// it (undo_journal.hpp) before its first change after a checkpoint. The mark belongs into the
/// checkpoint of the model: Layer::state_dict puts it there, and load_state_dict takes the table
/// back to it, if it is the last one or the one before.
///
///   words.checkpoint();
///   write_safetensors("run.safetensors", run.state_dict());
///
/// Only one program can open a table, and only one thread may use it at a time, also to read. A disk
/// that is full is an exception, before anything changes, if the file system has blocks of 4 KiB and
/// overwrites them in place; on others (Btrfs), and if the disk cannot be read, the system ends the
/// program (SIGBUS), and the table opens at its last checkpoint. All functions throw
/// std::system_error if the files cannot be used.
class TableFile {
 public:
  /// Makes a table in a new file. Throws std::invalid_argument if the path has a file, and for
  /// sizes of 0 or too large, more than 8 states, and a deviation that is negative or not finite.
  TableFile(std::filesystem::path path, const TableFileOptions& options);

  /// Opens a table as it was at its last checkpoint. Throws std::runtime_error for a file that is
  /// none, is damaged, or has numbers of another type, and if its journal is missing.
  explicit TableFile(std::filesystem::path path);

  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;

  const std::filesystem::path& path() const { return file_->path(); }
  Shape shape() const { return {head().rows, head().width}; }
  std::size_t rows() const { return head().rows; }
  std::size_t width() const { return head().width; }

  /// The number of rows that have a place on the disk.
  std::uint64_t rows_stored() const { return head().rows_stored; }

  /// Makes what the table has now its checkpoint, on the disk when this returns. The last but one
  /// is forgotten.
  void checkpoint();

  /// The name of the last checkpoint. Throws std::logic_error if the table has changed since.
  std::string mark() const;

  /// Takes the table back to the checkpoint with this mark. check_mark() throws
  /// std::invalid_argument if it has none, or no more.
  void restore(std::string_view mark);
  void check_mark(std::string_view mark) const { checkpoint_of(mark); }

  // --- For parameters and optimizers -------------------------------------------------------------

  /// Draws and stores the rows that are not stored yet. Ids must be inside the table.
  void make_ready(std::span<const std::int32_t> ids);

  /// The same for rows that are about to be changed: what they were at the last checkpoint is in
  /// the journal, on the disk, when this returns.
  void begin_change(std::span<const std::int32_t> ids);

  /// A row that is ready: its values, and then its states, `width` numbers each.
  real* row(std::size_t row) { return reinterpret_cast<real*>(record(row) + sizeof(RowHead)); }

  /// The step up to which an optimizer has brought a row that is ready (see LazyTable).
  std::uint64_t& step(std::size_t row) { return row_head(row).step; }

  /// Whether rows are owed steps that only the state of an optimizer knows.
  bool owed() const { return head().owed != 0; }
  void set_owed() { head().owed = 1; }

  /// Which of the states has this name: that of the next one that is free, if it is new. Throws
  /// std::invalid_argument if none is free.
  std::size_t state_place(std::string_view name);

 private:
  static constexpr std::size_t kMostStates = 8;
  static constexpr std::size_t kHeadBytes = 4096;  // a page, in which the head has its place

  using Name = std::array<char, 24>;  // zeros follow it
  struct Head {
    std::array<char, 8> magic;
    std::uint64_t number_bytes, states, rows, width, seed;
    double deviation;
    std::uint64_t identity;  // drawn when the table was made
    std::uint64_t checksum;  // of all above
    std::uint64_t checkpoint, rows_stored, owed;
    std::array<Name, kMostStates> names;
  };
  struct RowHead {
    std::uint64_t step;
    std::uint32_t journal;  // the last checkpoint whose journal has the row, counted from 1
    std::uint32_t stored;
  };

  static std::uint64_t checksum_of(const Head& head);
  UndoJournal::Begin journal_begin(std::uint64_t checkpoint) const;
  std::filesystem::path journal_path(std::uint64_t checkpoint) const;
  void remove_journal(std::uint64_t checkpoint) const;
  std::uint64_t checkpoint_of(std::string_view mark) const;
  void roll_back();
  void set_checkpoint(std::uint64_t number);

  const Head& head() const { return *reinterpret_cast<const Head*>(mapped_.data()); }
  Head& head() { return *reinterpret_cast<Head*>(mapped_.data()); }
  std::size_t record_offset(std::size_t row) const { return kHeadBytes + row * stride_; }
  std::byte* record(std::size_t row) { return mapped_.data() + record_offset(row); }
  RowHead& row_head(std::size_t row) { return *reinterpret_cast<RowHead*>(record(row)); }
  bool is_in_journal(std::size_t row) { return row_head(row).journal == head().checkpoint + 1; }
  void fetch(std::span<const std::int32_t> ids);
  void store(std::size_t row);

  std::unique_ptr<LockedFile> file_;
  std::span<std::byte> mapped_;
  std::size_t stride_ = 0;  // bytes from one row to the next
  std::unique_ptr<UndoJournal> journal_;
  std::vector<std::byte> drawn_;  // a row's record before it is stored
  bool cold_ = false;             // whether rows had to be read from the disk the last time
};

}  // namespace rowgrad
