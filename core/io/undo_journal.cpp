#include <algorithm>
#include <array>
#include <cstring>

#include <rowgrad/core/io/checksum.hpp>
#include <rowgrad/core/io/undo_journal.hpp>
#include <rowgrad/core/tensor/check.hpp>

namespace rowgrad {
namespace {

constexpr std::array<char, 8> kJournalMagic{'r', 'g', 'u', 'n', 'd', 'o', '0', '1'};
constexpr std::size_t kGroupBytes = std::size_t{4} << 20;  // of memory, about

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  Checksum sum;
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    sum.add(word);
  }
  sum.add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return sum.value();
}

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class Value>
std::span<std::byte> writable_bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

}  // namespace

auto UndoJournal::head_for(const Begin& begin) -> Head {
  return {kJournalMagic, begin, checksum_of(bytes_of(begin))};
}

UndoJournal::UndoJournal(const std::filesystem::path& path, const Begin& begin)
    : file_(path, LockedFile::Open::kEither), begin_(begin) {
  file_.truncate(0);
  file_.write(0, bytes_of(head_for(begin)));
  file_.sync();
  sync_folder(path.parent_path());
}

UndoJournal::UndoJournal(const std::filesystem::path& path, const Expected& expected)
    : file_(path, LockedFile::Open::kExisting) {
  Head head{};
  file_.read(0, writable_bytes_of(head));
  begin_ = expected.begin;
  begin_.notes = head.begin.notes;
  const Head right = head_for(begin_);
  check_runtime(std::memcmp(&head, &right, sizeof head) == 0, path.string(),
                ": is damaged, or no journal of this table");
  std::vector<std::byte> entries;
  while (const std::uint64_t bytes = read_group(end_, entries)) end_ += bytes;
  written_ = end_;
}

void UndoJournal::add(std::uint64_t record, std::span<const std::byte> before) {
  const auto number = bytes_of(record);
  group_.insert(group_.end(), number.begin(), number.end());
  group_.insert(group_.end(), before.begin(), before.end());
  if (group_.size() >= kGroupBytes) write_group();
}

void UndoJournal::flush() {
  try {
    write_group();
    if (written_ > end_) file_.sync();
    end_ = written_;
  } catch (...) {
    group_.clear();
    written_ = end_;
    throw;
  }
}

void UndoJournal::write_group() {
  if (group_.empty()) return;
  const Group group{group_.size() / entry_bytes(), checksum_of(group_)};
  file_.write(written_, bytes_of(group));
  file_.write(written_ + sizeof group, group_);
  written_ += sizeof group + group_.size();
  group_.clear();
}

// Reads the group at an offset and returns its length, or 0 if there is no whole one.
std::uint64_t UndoJournal::read_group(std::uint64_t at, std::vector<std::byte>& entries) const {
  const std::uint64_t size = file_.size_bytes();
  Group group{};
  if (size < at + sizeof group) return 0;
  file_.read(at, writable_bytes_of(group));
  const std::uint64_t left = size - at - sizeof group;
  if (group.records == 0 || group.records > left / entry_bytes()) return 0;
  entries.resize(group.records * entry_bytes());
  file_.read(at + sizeof group, entries);
  return checksum_of(entries) == group.checksum ? sizeof group + entries.size() : 0;
}

void UndoJournal::undo(const PutBack& put_back) const {
  std::vector<std::byte> entries;
  for (std::uint64_t at = sizeof(Head); at < end_;) {
    const std::uint64_t bytes = read_group(at, entries);
    check_runtime(bytes > 0, file_.path().string(), ": cannot be read again at byte ", at);
    for (std::span<const std::byte> rest = entries; !rest.empty();
         rest = rest.subspan(entry_bytes())) {
      std::uint64_t record;
      std::memcpy(&record, rest.data(), sizeof record);
      put_back(record, rest.subspan(sizeof record, begin_.record_bytes));
    }
    at += bytes;
  }
}

void UndoJournal::clear() {
  group_.clear();
  file_.truncate(sizeof(Head));
  file_.sync();
  written_ = end_ = sizeof(Head);
}

}  // namespace rowgrad
