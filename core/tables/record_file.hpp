#pragma once

// Memory-mapped files of records that survive a crash.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rowgrad/core/base/file.hpp>
#include <rowgrad/core/base/undo_journal.hpp>

namespace rowgrad {

class RecordWriter;

/// A file of records of one size. FORMAT.md describes the file, its journals, and what a crash
/// leaves. Error messages call the file a table and a record a row.
///
/// Only modify() gives write access to records. It stores records that are not stored yet. Records
/// that are not stored take no space, because the file is sparse. Reading changes nothing.
///
/// A record is verified when it is first used after the file was opened. A damaged record or
/// journal throws std::runtime_error. Only verify() finds damage to a record that was already
/// verified, and zeros in place of a stored record.
///
/// Only one program at a time can open the file, and only one thread can use it. All functions
/// throw std::system_error if the files cannot be used. After a failed write, functions that use
/// records throw std::logic_error until the file is opened again. A record index out of range
/// throws std::invalid_argument.
class RecordFile {
 public:
  /// Constants of the owner, such as sizes.
  using Facts = std::array<std::uint64_t, 6>;

  /// Variables of the owner, which are restored with the records.
  struct State {
    std::uint64_t flags;
    std::uint64_t generation;  // 1 at first; an increment makes all stored records outdated
    std::array<std::uint64_t, 24> notes;
  };

  /// A kind of file, which its owner defines.
  struct Kind {
    std::string_view magic;  // the first 7 bytes of the file; the format is the next byte

    /// Returns the number of records and the bytes of content per record. Throws
    /// std::runtime_error if these facts are not valid.
    std::pair<std::size_t, std::size_t> (*layout)(const Facts& facts,
                                                  const std::filesystem::path& path);

    /// Fills the content of a new record, initially all zeros.
    void (*fill)(const Facts& facts, std::size_t record, std::byte* content);

    /// Clears the outdated part of a record's content.
    void (*renew)(const Facts& facts, std::byte* content);
  };

  /// Creates a file, which gets its name once it is complete. Throws std::system_error if the path
  /// exists.
  RecordFile(const std::filesystem::path& path, const Kind& kind, const Facts& facts);

  /// Opens a file as it was at its last checkpoint. Throws std::runtime_error for another kind of
  /// file, an unknown format, and a damaged header, and if the journal is missing, damaged, or
  /// belongs to another file.
  RecordFile(const std::filesystem::path& path, const Kind& kind);

  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  /// Returns the absolute path.
  const std::filesystem::path& path() const { return file_->path(); }
  std::size_t size() const { return size_; }  // returns the number of records
  /// Returns the number of stored records.
  std::uint64_t stored() const { return header().version.stored; }
  const Facts& facts() const { return header().facts; }          // returns the owner's constants
  const State& state() const { return header().version.state; }  // returns the owner's variables
  State& state() { return header().version.state; }              // returns writable variables

  /// Reads records from the disk, all at once, unless they are in memory, and verifies them.
  void fault_in(std::span<const std::int32_t> ids) const;

  /// Starts reading records that are not in memory, in another thread.
  void prefetch(std::span<const std::int32_t> ids);

  /// Returns the verified content of a record, or an empty span if the record is not stored. The
  /// span is valid as long as this object exists.
  std::span<const std::byte> read(std::size_t record) const {
    if (failed_ || record >= size_ || !is_verified(record)) verify_first(record);
    if (head_of(record).generation == 0) return {};
    return {bytes_of(record) + sizeof(Head), content_bytes_};
  }

  /// Returns true if the record is stored and not outdated. Requires: fault_in() has verified it.
  bool is_current(std::size_t record) const {
    return head_of(record).generation == state().generation;
  }

  /// Returns RecordWriter::note(record), or 0 if the record is not current. Requires: see
  /// is_current().
  std::uint64_t note(std::size_t record) const {
    return is_current(record) ? head_of(record).note : 0;
  }

  /// Prepares records for changes: stores them, makes them current, and writes their contents at
  /// the last checkpoint to the journal on the disk. If this throws, no contents have changed.
  RecordWriter modify(std::span<const std::int32_t> ids);

  /// Returns true if records or the state have changed since the last checkpoint.
  bool has_changed() const;

  /// Makes the current contents the last checkpoint, which is on the disk when this returns. Keeps
  /// the previous checkpoint, and drops older ones. Does nothing if nothing has changed.
  void commit();

  /// Returns the id of the last checkpoint. It depends only on facts(), changes and commits. Throws
  /// std::logic_error if the file has changed since.
  std::string checkpoint_id() const;

  /// Goes back to the last checkpoint or the one before. Throws std::invalid_argument if `id` names
  /// neither, and std::runtime_error if the required journal is damaged.
  void rollback(std::string_view id);

  /// Checks the id and the journal as rollback() does.
  void check_rollback(std::string_view id) const { journal_before(id); }

  /// Reads all stored records and returns their number. Throws std::runtime_error if records are
  /// damaged or missing, and std::logic_error if the file has changed since its last checkpoint.
  std::uint64_t verify() const;

 private:
  friend class RecordWriter;

  struct Version {                // restored together with the records
    std::uint64_t number;         // checkpoint number, from 0
    std::uint64_t id, id_before;  // ids of this checkpoint and the one before
    std::uint64_t stored;
    State state;
  };
  struct Header {
    std::array<char, 8> magic;
    Facts facts;
    std::uint64_t checksum;  // checksum of the fields above
    Version version;
    std::uint64_t journal_bytes;  // length of the checkpoint's journal on the disk
    std::uint64_t identity;       // random, so that other files' records and journals do not match
  };
  struct Head {  // the beginning of a record, before its content
    std::uint64_t note;
    std::uint32_t journal;     // the last checkpoint whose journal has the record, counted from 1
    std::uint32_t generation;  // 0 if the record is not stored
  };
  static constexpr std::size_t kHeaderBytes = 4096;                     // one page
  static constexpr std::size_t kChecksumBytes = sizeof(std::uint64_t);  // at the end of a record

  static std::uint64_t checksum_of(const Header& header);
  void set_layout(const Facts& facts, const std::filesystem::path& path);
  std::filesystem::path journal_path(std::uint64_t number) const;
  std::unique_ptr<UndoJournal> new_journal(const Version& version) const;
  std::unique_ptr<UndoJournal> open_journal(const Version& version, std::uint64_t bytes) const;
  void remove_journal(std::uint64_t number) const;
  std::unique_ptr<UndoJournal> journal_before(std::string_view id) const;
  std::uint64_t seal();
  void take_back_changes();
  void write_header(const Version& version, const UndoJournal& journal);
  void sync();
  void check_usable() const;
  void check_unchanged() const;
  void check_id(std::size_t record) const;
  std::uint64_t checksum_of(std::size_t record, const std::byte* bytes) const;
  bool is_whole(std::size_t record, const std::byte* bytes) const;
  void verify_first(std::size_t record) const;
  bool any_not_resident(std::span<const std::int32_t> ids) const;
  void fetch(std::span<const std::int32_t> ids) const;
  void store(std::size_t record);

  bool is_verified(std::size_t record) const {
    return (verified_[record / 64] >> record % 64 & 1) != 0;
  }
  Header& header() const { return *reinterpret_cast<Header*>(mapped_.data()); }
  std::size_t offset_of(std::size_t record) const { return kHeaderBytes + record * stride_; }
  std::byte* bytes_of(std::size_t record) const { return mapped_.data() + offset_of(record); }
  Head& head_of(std::size_t record) const { return *reinterpret_cast<Head*>(bytes_of(record)); }
  std::uint32_t journal_number() const {
    return static_cast<std::uint32_t>(header().version.number + 1);
  }

  const Kind kind_;
  std::unique_ptr<LockedFile> file_;
  std::span<std::byte> mapped_;
  std::size_t size_ = 0, content_bytes_ = 0, stride_ = 0;
  // One bit for each record, set once the record is verified. Only touched pages take memory.
  std::unique_ptr<std::uint64_t[], decltype(&std::free)> verified_{nullptr, &std::free};
  std::unique_ptr<UndoJournal> journal_;
  std::vector<std::byte> new_record_;  // a record before it is stored
  std::future<void> prefetching_;
  bool failed_ = false;  // true if the file must be opened again
};

/// Write access to records that modify() has prepared. Valid while the RecordFile exists.
class RecordWriter {
 public:
  /// Returns the content of a record. Throws std::logic_error if modify() has not prepared the
  /// record since the last checkpoint.
  template <class Value>
  Value* content(std::size_t record) const {
    return reinterpret_cast<Value*>(prepared(record) + sizeof(RecordFile::Head));
  }

  /// Returns the note of a record, for its owner. It is 0 in a new record, and modify() resets it
  /// in an outdated record. Throws like content().
  std::uint64_t& note(std::size_t record) const {
    return *reinterpret_cast<std::uint64_t*>(prepared(record));
  }

  /// Returns the content of record 0, for loops over prepared records: record i is i · stride()
  /// bytes further. Nothing is checked.
  template <class Value>
  Value* first_content() const {
    return reinterpret_cast<Value*>(file_->bytes_of(0) + sizeof(RecordFile::Head));
  }

  /// Returns the note of record 0, like first_content().
  std::uint64_t* first_note() const { return &file_->head_of(0).note; }
  /// Returns the bytes from one record to the next.
  std::size_t stride() const { return file_->stride_; }

 private:
  friend class RecordFile;
  explicit RecordWriter(const RecordFile& file) : file_(&file) {}
  std::byte* prepared(std::size_t record) const;

  const RecordFile* file_;
};

}  // namespace rowgrad
