#pragma once

// What records of a file were before they were changed: it takes the file back to a checkpoint.

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

/// A journal of the records, all of one length, that were changed since a checkpoint of their file:
/// write-ahead logging of old values (Gray & Reuter 1993, "Transaction Processing", chapter 9).
/// Records are added before they are changed. So whatever the system has written of the changed
/// file when a program or the machine stops, putting back what the journal has restores the
/// checkpoint. Records come in groups. The checksum of a group covers its place and the journal's
/// head, so a group of another journal does not count. A group that was not finished does not
/// count either: nothing was changed yet. All functions throw std::system_error if the file cannot
/// be used.
class UndoJournal {
 public:
  /// What the journal goes back to.
  struct Begin {
    std::uint64_t mark = 0;                    // of the checkpoint of this one file
    std::uint64_t record_bytes = 0;            // the length of each record
    std::array<std::uint64_t, 32> notes = {};  // what else the checkpoint had
  };

  /// A new journal, on the disk when this returns. Throws std::runtime_error if `path` has a file
  /// that is no journal, nor the beginning of one; a journal is replaced.
  UndoJournal(const std::filesystem::path& path, const Begin& begin);

  /// Opens a journal. Throws std::runtime_error if it is of something else or of a later format,
  /// and if any of its first `bytes` is damaged.
  struct Expected {
    std::uint64_t mark = 0;          // that the journal must have
    std::uint64_t record_bytes = 0;  // that its records must have
    std::uint64_t bytes = 0;         // from its beginning on, which must be whole
  };
  UndoJournal(const std::filesystem::path& path, const Expected& expected);

  /// Removes a journal, or the beginning of one. Throws std::runtime_error for any other file.
  static void remove(const std::filesystem::path& path);

  const Begin& begin() const { return head_.begin; }  // what it goes back to

  /// The length of what is on the disk.
  std::uint64_t size_bytes() const { return end_; }
  bool empty() const { return end_ == sizeof(Head); }  // whether it has no records

  /// Adds a record as it is before it is changed. It must not be changed before flush() returns.
  void add(std::uint64_t record, std::span<const std::byte> before);

  /// Returns when all that was added is on the disk. If this or add() throws, none of what was
  /// added since the last flush() counts.
  void flush();

  /// Some records with their numbers.
  struct Records {
    std::vector<std::uint64_t> numbers;  // one for each record
    std::vector<std::byte> bytes;        // of all of them, one after another
  };

  /// Calls body(records) with each group of records. A record that was added twice comes twice.
  void for_each_group(const std::function<void(const Records&)>& body) const;

  /// Forgets all records.
  void clear();

 private:
  struct Head {
    std::array<char, 8> magic;
    Begin begin;
    std::uint64_t checksum;
  };
  struct Group {  // before its records' numbers and their bytes
    std::uint64_t records;
    std::uint64_t checksum;
  };

  static Head head_for(const Begin& begin, std::string_view format);
  std::uint64_t checksum_of(const Records& records, std::uint64_t at) const;
  static void check_replaceable(const LockedFile& file);
  std::uint64_t bytes_of_group(std::uint64_t records) const;
  void write_group();
  std::uint64_t read_group(std::uint64_t at, Records& records) const;
  void forget_unfinished() noexcept;

  LockedFile file_;
  Head head_;                             // as the file has it
  std::uint64_t end_ = sizeof(Head);      // of the groups that are on the disk
  std::uint64_t written_ = sizeof(Head);  // of those that are written
  Records group_;                         // that are not
};

}  // namespace rowgrad
