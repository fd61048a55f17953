#pragma once

// Undo files, which restore a file of records to a checkpoint.

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

/// An undo file: a journal of the old contents of records that changed since a checkpoint of their
/// file (write-ahead logging; Gray & Reuter 1993, "Transaction Processing", chapter 9). All records
/// have the same length. Records must be added before they change. After a crash, writing the
/// journal's records back restores the checkpoint. core/tables/FORMAT.md describes the file. All
/// functions throw std::system_error if the file cannot be used.
class UndoJournal {
 public:
  /// The checkpoint that the journal restores.
  struct Header {
    std::uint64_t id = 0;  // identifies this checkpoint of this file
    std::uint64_t record_bytes = 0;
    std::array<std::uint64_t, 32> notes = {};  // for the caller
  };

  /// Creates a journal and syncs it to the disk. Replaces an older, possibly incomplete journal.
  /// Throws std::runtime_error for any other file.
  UndoJournal(const std::filesystem::path& path, const Header& header);

  /// The expected contents of a journal.
  struct Expected {
    std::uint64_t id = 0;
    std::uint64_t record_bytes = 0;
    std::uint64_t bytes = 0;  // synced length; groups after it may be incomplete
  };

  /// Opens a journal. Throws std::runtime_error if its id, record length or format does not match,
  /// or if any of its first `expected.bytes` bytes is damaged.
  UndoJournal(const std::filesystem::path& path, const Expected& expected);

  /// Removes a journal, even an incomplete one. Throws std::runtime_error for any other file.
  static void remove(const std::filesystem::path& path);

  const Header& header() const { return start_.header; }  // returns the checkpoint's header
  std::uint64_t size_bytes() const { return end_; }       // returns the synced length
  bool empty() const { return end_ == sizeof(Start); }    // true without synced records

  /// Adds the old contents of a record. The record must not change before flush() returns.
  void add(std::uint64_t record, std::span<const std::byte> before);

  /// Waits until all added records are on the disk. If this or add() throws, the records added
  /// since the last flush() are dropped.
  void flush();

  /// A group of records.
  struct Records {
    std::vector<std::uint64_t> numbers;  // indices of the records
    std::vector<std::byte> bytes;        // contents of all records, concatenated
  };

  /// Calls body(records) for each group. A record that was added twice occurs twice.
  void for_each_group(const std::function<void(const Records&)>& body) const;

  /// Removes all records.
  void clear();

 private:
  struct Start {  // beginning of the file
    std::array<char, 8> magic;
    Header header;
    std::uint64_t checksum;
  };
  struct Group {  // beginning of a group; the indices and bytes of its records follow
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
  Start start_;
  std::uint64_t end_ = sizeof(Start);      // end of the synced groups
  std::uint64_t written_ = sizeof(Start);  // end of the written groups
  Records group_;                          // not written yet
};

}  // namespace rowgrad
