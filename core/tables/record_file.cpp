#include <algorithm>
#include <cstring>
#include <random>
#include <tuple>

#include <rowgrad/core/base/check.hpp>
#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/tables/record_file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr char kFormat = '3', kLegacyFormat = '2';  // version 0.2.0 wrote 2, with LegacyChecksum
constexpr std::size_t kRecordAlignment = 16;
constexpr std::size_t kVerifiedBytes = std::size_t{1} << 20;  // bytes that verify() reads at a time

std::string id_text(std::uint64_t number, std::uint64_t id) {
  return concat("checkpoint ", number, " (", checksum_digits(id), ')');
}

// Calls body with an empty checksum of the file's format, and returns the result.
auto with_checksum(char format, const auto& body) {
  return format == kLegacyFormat ? body(LegacyChecksum()) : body(Checksum());
}

}  // namespace

std::uint64_t RecordFile::checksum_of(const Header& header) {
  return with_checksum(header.magic.back(), [&](auto sum) {
    sum.add_bytes(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
    return sum.value();
  });
}

void RecordFile::set_layout(const Facts& facts, const fs::path& path) {
  static_assert(sizeof(Header) <= 512);  // disks write a sector as a whole
  std::tie(size_, content_bytes_) = kind_.layout(facts, path);
  const std::size_t bytes = sizeof(Head) + content_bytes_ + kChecksumBytes;
  stride_ = (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
  verified_.reset(static_cast<std::uint64_t*>(std::calloc(size_ / 64 + 1, sizeof(std::uint64_t))));
  if (verified_ == nullptr) throw std::bad_alloc();
}

RecordFile::RecordFile(const fs::path& path, const Kind& kind, const Facts& facts) : kind_(kind) {
  set_layout(facts, path);
  Header made{};
  std::ranges::copy(kind.magic, made.magic.begin());
  made.magic.back() = kFormat;
  made.facts = facts;
  made.checksum = checksum_of(made);
  made.version.id = splitmix64(made.checksum);
  made.version.state.generation = 1;
  std::random_device device;
  made.identity = std::uint64_t{device()} << 32 | device();
  file_ = std::make_unique<LockedFile>(fs::absolute(resolve_symlinks(path)),
                                       LockedFile::Open::kCreateNew);
  file_->truncate(kHeaderBytes + size_ * stride_);
  file_->write(0, std::as_bytes(std::span(&made, 1)));
  mapped_ = file_->map();
  journal_ = new_journal(made.version);
  try {
    header().journal_bytes = journal_->size_bytes();
    file_->publish();
  } catch (...) {
    journal_.reset();
    remove_journal(0);
    throw;
  }
}

RecordFile::RecordFile(const fs::path& path, const Kind& kind)
    : kind_(kind),
      file_(std::make_unique<LockedFile>(fs::absolute(resolve_symlinks(path)),
                                         LockedFile::Open::kOpenExisting)) {
  const std::string name = this->path().string();
  const std::uint64_t bytes = file_->size_bytes();
  if (bytes >= kHeaderBytes) mapped_ = file_->map();
  check_runtime(
      !mapped_.empty() && std::memcmp(mapped_.data(), kind.magic.data(), kind.magic.size()) == 0,
      name, ": not a rowgrad table, or incompletely written");
  const char format = header().magic.back();
  check_runtime(format == kFormat || format == kLegacyFormat, name, ": is a table of format ",
                format, ", expected ", kLegacyFormat, " or ", kFormat);
  check_runtime(header().checksum == checksum_of(header()), name, ": the table header is damaged");
  set_layout(facts(), this->path());
  check_runtime(bytes == kHeaderBytes + size_ * stride_, name, ": has ", bytes, " bytes, expected ",
                kHeaderBytes + size_ * stride_);
  const Version version = header().version;
  journal_ = open_journal(version, header().journal_bytes);
  take_back_changes();
  // An interrupted checkpoint can leave these files.
  remove_journal(version.number + 1);
  if (version.number >= 2) remove_journal(version.number - 2);
}

// --- Checkpoints --------------------------------------------------------------------------------

fs::path RecordFile::journal_path(std::uint64_t number) const {
  return fs::path(path()) += concat(".undo-", number);
}

std::unique_ptr<UndoJournal> RecordFile::new_journal(const Version& version) const {
  UndoJournal::Header start{.id = version.id ^ header().identity, .record_bytes = stride_};
  static_assert(sizeof start.notes >= sizeof version + sizeof(std::uint64_t));
  std::memcpy(start.notes.data(), &version, sizeof version);
  start.notes.back() = journal_ ? journal_->size_bytes() : 0;  // length of the previous journal
  return std::make_unique<UndoJournal>(journal_path(version.number), start);
}

std::unique_ptr<UndoJournal> RecordFile::open_journal(const Version& version,
                                                      std::uint64_t bytes) const {
  const fs::path path = journal_path(version.number);
  check_runtime(file_exists(path), path.string(), ": undo file is missing; the table ",
                this->path().string(), " cannot be opened without it");
  const UndoJournal::Expected expected{
      .id = version.id ^ header().identity, .record_bytes = stride_, .bytes = bytes};
  return std::make_unique<UndoJournal>(path, expected);
}

// Removes a journal. Ignores errors, as a leftover journal only takes up space.
void RecordFile::remove_journal(std::uint64_t number) const {
  try {
    UndoJournal::remove(journal_path(number));
  } catch (const std::runtime_error&) {
  }
}

void RecordFile::check_usable() const {
  if (failed_) check_state(false, path().string(), ": writing the table failed; open it again");
}

void RecordFile::check_unchanged() const {
  check_state(!has_changed(), path().string(),
              ": the table has changed since its last checkpoint; call checkpoint() first");
}

// Syncs the file. If this fails, the operating system may have dropped changes, so the file is
// unusable.
void RecordFile::sync() {
  failed_ = true;
  file_->sync();
  failed_ = false;
}

// Writes the header in one call, so that a killed program leaves the old or the new header.
void RecordFile::write_header(const Version& version, const UndoJournal& journal) {
  Header changed = header();
  changed.version = version;
  changed.journal_bytes = journal.size_bytes();
  file_->write(0, std::as_bytes(std::span(&changed, 1)));
}

bool RecordFile::has_changed() const {
  check_usable();
  return !journal_->empty() ||
         std::memcmp(&header().version, journal_->header().notes.data(), sizeof(Version)) != 0;
}

// Updates the checksums of the changed records. Returns the id of the current contents, computed
// from the last id and the changed records.
std::uint64_t RecordFile::seal() {
  Checksum sum(header().version.id);
  journal_->for_each_group([&](const UndoJournal::Records& records) {
    for (const std::uint64_t record : records.numbers) {
      const std::uint64_t record_sum = checksum_of(record, bytes_of(record));
      sum.add(record_sum);
      const std::uint64_t own = record_sum ^ header().identity;
      if (head_of(record).generation != 0)  // 0 if the disk was full
        std::memcpy(bytes_of(record) + stride_ - kChecksumBytes, &own, kChecksumBytes);
    }
  });
  sum.add_bytes(std::as_bytes(std::span(&header().version, 1)));
  return splitmix64(sum.value());
}

// The order matters. Whenever this is interrupted, the header names a checkpoint whose journal
// exists and has all records that changed since.
void RecordFile::commit() {
  if (!has_changed()) return;
  Version next = header().version;
  ++next.number;
  next.id_before = next.id;
  next.id = seal();
  sync();
  auto journal = new_journal(next);
  failed_ = true;  // until the header and the journal agree
  write_header(next, *journal);
  journal_ = std::move(journal);
  sync();
  if (next.number >= 2) remove_journal(next.number - 2);
}

std::string RecordFile::checkpoint_id() const {
  check_unchanged();
  return id_text(header().version.number, header().version.id);
}

// Returns null if `id` names the last checkpoint, or the journal of the previous checkpoint if `id`
// names the previous checkpoint.
std::unique_ptr<UndoJournal> RecordFile::journal_before(std::string_view id) const {
  check_usable();
  Version before = header().version;
  if (id == id_text(before.number, before.id)) return nullptr;
  const bool last_but_one = before.number > 0 && file_exists(journal_path(before.number - 1)) &&
                            id == id_text(before.number - 1, before.id_before);
  check_argument(last_but_one, path().string(), ": cannot restore '", id, "', expected '",
                 id_text(before.number, before.id), "' or the checkpoint before it");
  --before.number;
  before.id = before.id_before;
  return open_journal(before, journal_->header().notes.back());
}

void RecordFile::rollback(std::string_view id) {
  auto journal = journal_before(id);
  take_back_changes();
  if (!journal) return;
  failed_ = true;
  const std::uint64_t last = header().version.number;
  Version before{};
  std::memcpy(&before, journal->header().notes.data(), sizeof before);
  write_header(before, *journal);
  journal_ = std::move(journal);
  sync();
  take_back_changes();
  remove_journal(last);
}

// Undoes all changes since the checkpoint in the header. Can be repeated if it was interrupted.
void RecordFile::take_back_changes() {
  if (!has_changed()) return;
  failed_ = true;
  journal_->for_each_group([&](const UndoJournal::Records& records) {
    for (const std::uint64_t record : records.numbers) {
      check_runtime(record < size_, path().string(), ": the undo file has row ", record,
                    ", but the table has ", size_, " rows");
      file_->fetch(offset_of(record), stride_);
    }
    // Equal bytes are not written: a record that is not stored may have no block on the disk.
    for (std::size_t i = 0; i < records.numbers.size(); ++i) {
      const std::byte* before = records.bytes.data() + i * stride_;
      std::byte* present = bytes_of(records.numbers[i]);
      if (std::memcmp(present, before, stride_) != 0) std::memcpy(present, before, stride_);
    }
  });
  std::memcpy(&header().version, journal_->header().notes.data(), sizeof(Version));
  header().journal_bytes = 0;  // before clear(), so that the journal never looks too short
  sync();
  failed_ = true;
  journal_->clear();
  failed_ = false;
}

// --- Reading ------------------------------------------------------------------------------------

void RecordFile::check_id(std::size_t record) const {
  if (record >= size_)
    check_argument(false, path().string(), ": row ", static_cast<std::int64_t>(record),
                   " is out of range: the table has ", size_, " rows");
}

void RecordFile::fault_in(std::span<const std::int32_t> ids) const {
  check_usable();
  for (const std::int32_t id : ids) check_id(static_cast<std::size_t>(id));
  if (any_not_resident(ids)) fetch(ids);
  for (const std::int32_t id : ids) {
    const auto record = static_cast<std::size_t>(id);
    if (!is_verified(record)) verify_first(record);
    __builtin_prefetch(bytes_of(record));  // callers read all heads next
  }
}

void RecordFile::prefetch(std::span<const std::int32_t> ids) {
  check_usable();
  for (const std::int32_t id : ids) check_id(static_cast<std::size_t>(id));
  if (!any_not_resident(ids)) return;
  // A disk takes a limited number of requests at once. A thread with more requests would wait, so
  // another thread makes them. The new thread first waits for the previous thread and drops the
  // previous future, so that futures do not keep each other alive.
  try {
    prefetching_ =
        std::async(std::launch::async, [this, before = std::move(prefetching_),
                                        records = std::vector(ids.begin(), ids.end())]() mutable {
          before = {};
          fetch(records);
        });
  } catch (const std::system_error&) {  // no thread could start; records are read on use
  }
}

// Returns true if any record of a sample is not in memory. If all are in memory, fetch() is not
// worth its system calls.
bool RecordFile::any_not_resident(std::span<const std::int32_t> ids) const {
  constexpr std::size_t kSampled = 32;
  const std::size_t step = ids.size() / kSampled + 1;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < ids.size(); i += step)
    missing += !file_->is_in_memory(offset_of(static_cast<std::size_t>(ids[i])));
  return missing > 0;
}

void RecordFile::fetch(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids) file_->fetch(offset_of(static_cast<std::size_t>(id)), stride_);
}

// Verifies a record that has not been used since the file was opened.
void RecordFile::verify_first(std::size_t record) const {
  check_usable();
  check_id(record);
  if (!is_whole(record, bytes_of(record)))
    check_runtime(false, path().string(), ": row ", record, " is damaged");
  verified_[record / 64] |= std::uint64_t{1} << record % 64;
}

std::uint64_t RecordFile::checksum_of(std::size_t record, const std::byte* bytes) const {
  return with_checksum(header().magic.back(), [&](auto sum) {
    sum.add(record);
    sum.add_bytes({bytes, stride_ - kChecksumBytes});
    return sum.value();
  });
}

// Returns true if the record is valid: not stored, or stored with the right checksum.
bool RecordFile::is_whole(std::size_t record, const std::byte* bytes) const {
  const Head& head = *reinterpret_cast<const Head*>(bytes);
  if (head.generation == 0) return head.note == 0 && head.journal == 0;
  if (head.generation > state().generation || head.journal == 0 ||
      head.journal > header().version.number)
    return false;
  std::uint64_t found = 0;
  std::memcpy(&found, bytes + stride_ - kChecksumBytes, kChecksumBytes);
  return found == (checksum_of(record, bytes) ^ header().identity);
}

std::uint64_t RecordFile::verify() const {
  check_unchanged();
  const std::size_t most = std::max<std::size_t>(1, kVerifiedBytes / stride_);  // records at a time
  std::vector<std::byte> records;
  std::uint64_t found = 0, damaged = 0;
  std::size_t first_damaged = 0, record = 0;
  while (record < size_) {
    const auto [begin, end] = file_->stored_from(offset_of(record));
    record = std::max(record, (begin - kHeaderBytes) / stride_);
    const std::size_t count =
        std::min({size_ - record, most, (end - offset_of(record) + stride_ - 1) / stride_});
    records.resize(count * stride_);
    if (count == 0) break;  // nothing is stored from here on
    file_->read(offset_of(record), records);
    for (std::size_t i = 0; i < count; ++i, ++record) {
      const std::byte* bytes = records.data() + i * stride_;
      if (!is_whole(record, bytes) && damaged++ == 0) first_damaged = record;
      found += reinterpret_cast<const Head*>(bytes)->generation != 0;
    }
  }
  check_runtime(damaged == 0, path().string(), ": ", damaged,
                damaged == 1 ? " row is" : " rows are", " damaged, the first is row ",
                first_damaged);
  check_runtime(found == stored(), path().string(), ": has ", found, " stored rows, expected ",
                stored());
  return found;
}

// --- Changes ------------------------------------------------------------------------------------

RecordWriter RecordFile::modify(std::span<const std::int32_t> ids) {
  fault_in(ids);
  for (const std::int32_t id : ids)
    if (const auto record = static_cast<std::size_t>(id);
        head_of(record).journal != journal_number())
      journal_->add(record, {bytes_of(record), stride_});
  journal_->flush();
  if (!ids.empty()) header().journal_bytes = journal_->size_bytes();
  for (const std::int32_t id : ids) {  // stored records first, as preparing them cannot fail
    const auto record = static_cast<std::size_t>(id);
    Head& head = head_of(record);
    if (head.generation == 0) continue;
    head.journal = journal_number();
    if (head.generation == state().generation) continue;
    kind_.renew(facts(), bytes_of(record) + sizeof head);
    head.note = 0;
    head.generation = static_cast<std::uint32_t>(state().generation);
  }
  for (const std::int32_t id : ids)
    if (const auto record = static_cast<std::size_t>(id); head_of(record).generation == 0)
      store(record);
  return RecordWriter(*this);
}

// Writes a new record with system calls, because a full disk would kill a program that writes
// through the mapping. The head is written last, because it marks the record as stored.
void RecordFile::store(std::size_t record) {
  const Head head{.note = 0,
                  .journal = journal_number(),
                  .generation = static_cast<std::uint32_t>(state().generation)};
  new_record_.assign(stride_, std::byte{0});
  kind_.fill(facts(), record, new_record_.data() + sizeof head);
  file_->write(offset_of(record) + sizeof head,
               std::span<const std::byte>(new_record_).subspan(sizeof head));
  file_->write(offset_of(record), std::as_bytes(std::span(&head, 1)));
  ++header().version.stored;
}

std::byte* RecordWriter::prepared(std::size_t record) const {
  if (record >= file_->size_ || file_->head_of(record).journal != file_->journal_number())
    check_state(false, file_->path().string(), ": row ", record, " is not prepared for changes; ",
                "pass it to modify() after the last checkpoint");
  return file_->bytes_of(record);
}

}  // namespace rowgrad
