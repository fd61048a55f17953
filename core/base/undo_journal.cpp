#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/base/undo_journal.hpp>

namespace rowgrad {
namespace {

constexpr std::string_view kJournalName = "rgundo";  // magic bytes; the format follows
constexpr std::string_view kFormat = "02";
constexpr std::string_view kLegacyFormat = "01";           // uses LegacyChecksum, without a seed
constexpr std::size_t kGroupBytes = std::size_t{4} << 20;  // bytes after which a group is written

template <class Value>
std::span<const std::byte> bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class Value>
std::span<std::byte> writable_bytes_of(Value& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

using Magic = std::array<char, 8>;

std::string_view format_of(const Magic& magic) {
  return std::string_view(magic.data(), magic.size()).substr(kJournalName.size());
}

bool is_ours(const Magic& magic) {
  const std::string_view format = format_of(magic);
  return std::string_view(magic.data(), magic.size()).starts_with(kJournalName) &&
         format >= kLegacyFormat && format <= "99";
}

}  // namespace

auto UndoJournal::start_for(const Header& header, std::string_view format) -> Start {
  Start start{.magic = {}, .header = header, .checksum = 0};
  std::ranges::copy(kJournalName, start.magic.begin());
  std::ranges::copy(format, start.magic.begin() + kJournalName.size());
  const auto with = [&](auto sum) {
    sum.add_bytes(bytes_of(header));
    return sum.value();
  };
  start.checksum = format == kLegacyFormat ? with(LegacyChecksum()) : with(Checksum());
  return start;
}

std::uint64_t UndoJournal::checksum_of(const Records& records, std::uint64_t at) const {
  const auto with = [&](auto sum) {
    sum.add_bytes(std::as_bytes(std::span(records.numbers)));
    sum.add_bytes(records.bytes);
    return sum.value();
  };
  return format_of(start_.magic) == kLegacyFormat ? with(LegacyChecksum())
                                                  : with(Checksum(start_.checksum + at));
}

// Throws unless the file is a journal, or is empty or all zeros. A crash during the creation of a
// journal may leave an empty file or zeros.
void UndoJournal::check_replaceable(const LockedFile& file) {
  const std::uint64_t size = file.size_bytes();
  Start start{}, none{};
  file.read(0, writable_bytes_of(start).first(std::min<std::uint64_t>(size, sizeof start)));
  const bool unwritten = size <= sizeof start && std::memcmp(&start, &none, sizeof start) == 0;
  const bool is_known = is_ours(start.magic) && format_of(start.magic) <= kFormat;
  check_runtime(unwritten || is_known, file.path().string(),
                ": is not an undo file, but has the name of one; move it away");
}

UndoJournal::UndoJournal(const std::filesystem::path& path, const Header& header)
    : file_(path, LockedFile::Open::kOpenOrCreate), start_(start_for(header, kFormat)) {
  check_replaceable(file_);
  file_.truncate(0);
  file_.write(0, bytes_of(start_));
  file_.sync();
  sync_folder(path.parent_path());
}

UndoJournal::UndoJournal(const std::filesystem::path& path, const Expected& expected)
    : file_(path, LockedFile::Open::kOpenExisting) {
  file_.read(0, writable_bytes_of(start_));
  const std::string_view format = format_of(start_.magic);
  check_runtime(!is_ours(start_.magic) || format <= kFormat, path.string(),
                ": undo file of format ", format, ", expected at most ", kFormat);
  const Start right = start_for(header(), format <= kLegacyFormat ? kLegacyFormat : kFormat);
  check_runtime(std::memcmp(&start_, &right, sizeof right) == 0 && header().id == expected.id &&
                    header().record_bytes == expected.record_bytes,
                path.string(), ": is damaged, or is not the undo file of this checkpoint");
  Records records;
  while (const std::uint64_t bytes = read_group(end_, records)) end_ += bytes;
  written_ = end_;
  check_runtime(end_ >= expected.bytes, path.string(), ": is damaged at byte ", end_, " of ",
                expected.bytes);
}

void UndoJournal::remove(const std::filesystem::path& path) {
  check_replaceable(LockedFile(path, LockedFile::Open::kOpenExisting));
  std::filesystem::remove(path);
}

void UndoJournal::forget_unfinished() noexcept {
  group_.numbers.clear();
  group_.bytes.clear();
  written_ = end_;
}

void UndoJournal::add(std::uint64_t record, std::span<const std::byte> before) {
  try {
    group_.numbers.push_back(record);
    group_.bytes.insert(group_.bytes.end(), before.begin(), before.end());
    if (group_.bytes.size() >= kGroupBytes) write_group();
  } catch (...) {
    forget_unfinished();
    throw;
  }
}

void UndoJournal::flush() {
  try {
    write_group();
    if (written_ > end_) file_.sync();
    end_ = written_;
  } catch (...) {
    forget_unfinished();
    throw;
  }
}

std::uint64_t UndoJournal::bytes_of_group(std::uint64_t records) const {
  return sizeof(Group) + records * (sizeof(std::uint64_t) + header().record_bytes);
}

void UndoJournal::write_group() {
  if (group_.numbers.empty()) return;
  const Group group{group_.numbers.size(), checksum_of(group_, written_)};
  const auto numbers = std::as_bytes(std::span(group_.numbers));
  file_.write(written_, bytes_of(group));
  file_.write(written_ + sizeof group, numbers);
  file_.write(written_ + sizeof group + numbers.size(), group_.bytes);
  written_ += bytes_of_group(group.records);
  group_.numbers.clear();
  group_.bytes.clear();
}

// Reads the group at an offset. Returns its length, or 0 if the group is incomplete or damaged.
std::uint64_t UndoJournal::read_group(std::uint64_t at, Records& records) const {
  const std::uint64_t size = file_.size_bytes();
  Group group{};
  if (size < at + sizeof group) return 0;
  file_.read(at, writable_bytes_of(group));
  const std::uint64_t most = (size - at) / (sizeof(std::uint64_t) + header().record_bytes);
  if (group.records == 0 || group.records > most || size - at < bytes_of_group(group.records))
    return 0;
  records.numbers.resize(group.records);
  records.bytes.resize(group.records * header().record_bytes);
  const auto numbers = std::as_writable_bytes(std::span(records.numbers));
  file_.read(at + sizeof group, numbers);
  file_.read(at + sizeof group + numbers.size(), records.bytes);
  return checksum_of(records, at) == group.checksum ? bytes_of_group(group.records) : 0;
}

void UndoJournal::for_each_group(const std::function<void(const Records&)>& body) const {
  Records records;
  for (std::uint64_t at = sizeof(Start); at < end_; at += bytes_of_group(records.numbers.size())) {
    check_runtime(read_group(at, records) > 0, file_.path().string(), ": is damaged at byte ", at);
    body(records);
  }
}

void UndoJournal::clear() {
  file_.truncate(sizeof(Start));
  file_.sync();
  end_ = sizeof(Start);
  forget_unfinished();
}

}  // namespace rowgrad
