#pragma once

// Journals that take a file of records back to a checkpoint.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <rowgrad/core/base/file.hpp>

namespace rowgrad {

/// A journal of the records that were changed since a checkpoint of their file: write-ahead logging
/// of old values (Gray & Reuter 1993, "Transaction Processing", chapter 9). All records have one
/// length. Records are added before they are changed. So whatever a crash leaves of the changed
/// file, putting back the records of the journal restores the checkpoint. core/tables/FORMAT.md
/// describes the file. All functions throw std::system_error if the file cannot be used.
class UndoJournal {
 public:
  /// The checkpoint that the journal goes back to.
  struct Header {
    std::uint64_t id = 0;  // of this checkpoint of this file
    std::uint64_t record_bytes = 0;
    std::array<std::uint64_t, 32> notes = {};  // other facts of the checkpoint
  };

  /// Creates a journal, on the disk when this returns. It replaces a journal, or the beginning of
  /// one. Throws std::runtime_error if `path` has another file.
  UndoJournal(const std::filesystem::path& path, const Header& header);

  /// Opens a journal. Throws std::runtime_error if it has another id or record length or a later
  /// format, and if any of its first `bytes` is damaged.
  struct Expected {
    std::uint64_t id = 0;
    std::uint64_t record_bytes = 0;
    std::uint64_t bytes = 0;  // from the beginning on; later groups may be incomplete
  };
  UndoJournal(const std::filesystem::path& path, const Expected& expected);

  /// Removes a journal, or the beginning of one. Throws std::runtime_error for any other file.
  static void remove(const std::filesystem::path& path);

  const Header& header() const { return start_.header; }  // facts that begin the journal
  std::uint64_t size_bytes() const { return end_; }       // on the disk
  bool empty() const { return end_ == sizeof(Start); }    // true if it has no records

  /// Adds a record as it is before its change. The record must not change before flush() returns.
  void add(std::uint64_t record, std::span<const std::byte> before);

  /// Returns when all added records are on the disk. If this or add() throws, the records that were
  /// added since the last flush() are dropped.
  void flush();

  /// A group of records.
  struct Records {
    std::vector<std::uint64_t> numbers;
    std::vector<std::byte> bytes;  // of all records, one after another
  };

  /// Calls body(records) for each group. A record that was added twice comes twice.
  void for_each_group(const std::function<void(const Records&)>& body) const;

  /// Removes all records.
  void clear();

 private:
  struct Start {  // of the file
    std::array<char, 8> magic;
    Header header;
    std::uint64_t checksum;
  };
  struct Group {  // the start of a group; the numbers and bytes of its records follow
    std::uint64_t records;
    std::uint64_t checksum;
  };

  static Start start_for(const Header& header, std::string_view format);
  std::uint64_t checksum_of(const Records& records, std::uint64_t at) const;
  static void check_replaceable(const LockedFile& file);
  std::uint64_t bytes_of_group(std::uint64_t records) const;
  void write_group();
  std::uint64_t read_group(std::uint64_t at, Records& records) const;
  void forget_unfinished() noexcept;

  LockedFile file_;
  Start start_;                            // in the file
  std::uint64_t end_ = sizeof(Start);      // end of the groups that are on the disk
  std::uint64_t written_ = sizeof(Start);  // end of the groups that are written
  Records group_;                          // not written yet
};

}  // namespace rowgrad
