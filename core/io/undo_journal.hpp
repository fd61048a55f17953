#pragma once

// What records of a file were before they were changed: it takes the file back to a checkpoint.

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include <rowgrad/core/io/file.hpp>

namespace rowgrad {

/// A journal of the records, all of one length, that were changed since a checkpoint of their file:
/// write-ahead logging of old values (Gray & Reuter 1993, "Transaction Processing", chapter 9).
/// Records are added before they are changed. So whatever the system has written of the changed
/// file when a program or the machine stops, putting back what the journal has restores the
/// checkpoint. Records come in groups with checksums; a group that was not finished is ignored, as
/// nothing was changed yet. All functions throw std::system_error if the file cannot be used.
class UndoJournal {
 public:
  /// What the journal belongs to.
  struct Begin {
    std::uint64_t file = 0;        // the identity of the changed file
    std::uint64_t checkpoint = 0;  // its number
    std::uint64_t record_bytes = 0;
    std::array<std::uint64_t, 2> notes = {};  // what else the checkpoint had

    bool operator==(const Begin&) const = default;
  };

  /// A new journal, on the disk when this returns; replaces a file at `path`.
  UndoJournal(const std::filesystem::path& path, const Begin& begin);

  /// Opens a journal. Throws std::runtime_error if it belongs to something else, whatever its
  /// notes.
  struct Expected {
    Begin begin;
  };
  UndoJournal(const std::filesystem::path& path, const Expected& expected);

  const Begin& begin() const { return begin_; }

  /// Whether it has no records.
  bool empty() const { return end_ == sizeof(Head); }

  /// Adds a record as it is before it is changed. It must not be changed before flush() returns.
  void add(std::uint64_t record, std::span<const std::byte> before);

  /// Returns when all that was added is on the disk. If this or add() throws, none of what was
  /// added since the last flush() counts.
  void flush();

  /// Calls put_back(record, bytes) for all records. Throws std::runtime_error if the disk cannot
  /// read them.
  using PutBack = std::function<void(std::uint64_t record, std::span<const std::byte> bytes)>;
  void undo(const PutBack& put_back) const;

  /// Forgets all records.
  void clear();

 private:
  struct Head {
    std::array<char, 8> magic;
    Begin begin;
    std::uint64_t checksum;
  };
  struct Group {
    std::uint64_t records;
    std::uint64_t checksum;
  };

  static Head head_for(const Begin& begin);
  std::size_t entry_bytes() const { return sizeof(std::uint64_t) + begin_.record_bytes; }
  void write_group();
  std::uint64_t read_group(std::uint64_t at, std::vector<std::byte>& entries) const;

  LockedFile file_;
  Begin begin_;
  std::uint64_t end_ = sizeof(Head);      // of the groups that are on the disk
  std::uint64_t written_ = sizeof(Head);  // of those that are written
  std::vector<std::byte> group_;          // records that are not, each after its number
};

}  // namespace rowgrad
