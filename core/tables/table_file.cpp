#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <limits>
#include <numbers>
#include <random>

#include <rowgrad/core/base/hash.hpp>
#include <rowgrad/core/tables/table_file.hpp>

namespace rowgrad {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTableMagic = "rgtable";  // and then the format
constexpr char kFormat = '3', kLegacyFormat = '2';   // 0.2.0's, with LegacyChecksum
constexpr std::size_t kMostRows = std::numeric_limits<std::int32_t>::max();  // ids are of 32 bits
constexpr std::size_t kMostBytes = std::size_t{1} << 62;
constexpr std::size_t kRowAlignment = 16;
constexpr std::size_t kVerifiedBytes = std::size_t{1} << 20;

// The bytes from one row to the next, where each has `other_bytes` beside its numbers; nullopt if
// the file would be too large.
std::optional<std::size_t> stride_of(std::size_t rows, std::size_t width, std::size_t states,
                                     std::size_t other_bytes) {
  __extension__ using Wide = unsigned __int128;
  const Wide bytes = Wide{width} * (1 + states) * sizeof(real) + other_bytes;
  const Wide stride = (bytes + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
  if (stride > kMostBytes || stride * rows > kMostBytes) return std::nullopt;
  return static_cast<std::size_t>(stride);
}

// Where the table really is, whatever the working folder will be.
fs::path whole_path(const fs::path& path) { return fs::absolute(without_links(path)); }

std::string mark_text(std::uint64_t number, std::uint64_t mark) {
  TextStream text;
  text << "checkpoint " << number << " (" << std::hex << std::setw(16) << std::setfill('0') << mark
       << ')';
  return std::move(text).str();
}

std::uint64_t random_identity() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::uint64_t* zero_bits(std::size_t count) {
  void* const bits = std::calloc(count / 64 + 1, sizeof(std::uint64_t));
  if (bits == nullptr) throw std::bad_alloc();
  return static_cast<std::uint64_t*>(bits);
}

}  // namespace

// Returns body(sum) with an empty checksum of the format's kind.
auto TableFile::with_checksum_of(const Head& head, const auto& body) {
  return head.magic.back() == kLegacyFormat ? body(LegacyChecksum()) : body(Checksum());
}

std::uint64_t TableFile::checksum_of(const Head& head) {
  return with_checksum_of(head, [&](auto sum) {
    sum.add_bytes(std::as_bytes(std::span(&head, 1)).first(offsetof(Head, checksum)));
    return sum.value();
  });
}

TableFile::TableFile(const fs::path& path, const TableFileOptions& options) {
  check_argument(options.rows > 0 && options.rows <= kMostRows && options.width > 0,
                 "TableFile: the shape is [", options.rows, ", ", options.width,
                 "], expected 1 to ", kMostRows, " rows of a width above 0");
  check_argument(options.states <= kMaxSlots, "TableFile: states is ", options.states,
                 ", expected at most ", kMaxSlots);
  check_argument(std::isfinite(options.deviation) && options.deviation >= 0,
                 "TableFile: deviation is ", options.deviation,
                 ", expected a finite number, not negative");
  const auto stride =
      stride_of(options.rows, options.width, options.states, sizeof(RowHead) + kChecksumBytes);
  check_argument(stride.has_value(), "TableFile: shape [", options.rows, ", ", options.width,
                 "] has more bytes than a file can have");
  check_argument(!file_exists(path), "TableFile: there is a file ", path.string(),
                 ", expected a new one; to open a table, give its path alone");
  Head made{.magic = {},
            .number_bytes = sizeof(real),
            .states = options.states,
            .rows = options.rows,
            .width = options.width,
            .seed = options.seed,
            .deviation = options.deviation,
            .checksum = 0,
            .version = {},
            .journal_bytes = 0,
            .identity = random_identity()};
  std::ranges::copy(kTableMagic, made.magic.begin());
  made.magic.back() = kFormat;
  made.checksum = checksum_of(made);
  made.version.mark = splitmix64(made.checksum);
  made.version.epoch = 1;
  stride_ = *stride;
  verified_.reset(zero_bits(options.rows));
  file_ = std::make_unique<LockedFile>(whole_path(path), LockedFile::Open::kNew);
  file_->truncate(kHeadBytes + options.rows * stride_);
  file_->write(0, std::as_bytes(std::span(&made, 1)));
  mapped_ = file_->map();
  journal_ = new_journal(made.version);
  try {
    head().journal_bytes = journal_->size_bytes();
    file_->publish();
  } catch (...) {
    journal_.reset();
    remove_journal(0);
    throw;
  }
}

TableFile::TableFile(const fs::path& path)
    : file_(std::make_unique<LockedFile>(whole_path(path), LockedFile::Open::kExisting)) {
  const std::string name = this->path().string();
  const std::uint64_t size = file_->size_bytes();
  check_runtime(size >= kHeadBytes, name, ": is no table, or one that was not finished");
  mapped_ = file_->map();
  check_runtime(std::ranges::equal(kTableMagic, std::span(head().magic).first(kTableMagic.size())),
                name, ": is no table, or one that was not finished");
  const char format = head().magic.back();
  check_runtime(format == kFormat || format == kLegacyFormat, name, ": is a table of format ",
                format, ", expected ", kLegacyFormat, " or ", kFormat);
  const Version version = head().version;
  check_runtime(head().checksum == checksum_of(head()) && head().states <= kMaxSlots &&
                    std::ranges::all_of(version.names, [](const Name& n) { return n.back() == 0; }),
                name, ": the head of the table is damaged");
  check_runtime(head().number_bytes == sizeof(real), name, ": has numbers of ", head().number_bytes,
                " bytes, expected ", sizeof(real));
  const auto stride = stride_of(rows(), width(), head().states, sizeof(RowHead) + kChecksumBytes);
  check_runtime(stride && size == kHeadBytes + rows() * *stride, name, ": has ", size,
                " bytes, which is not what a table [", rows(), ", ", width(), "] has");
  stride_ = *stride;
  verified_.reset(zero_bits(rows()));
  journal_ = open_journal(version, head().journal_bytes);
  roll_back();
  // What a checkpoint that was interrupted has left.
  remove_journal(version.number + 1);
  if (version.number >= 2) remove_journal(version.number - 2);
}

// --- Checkpoints --------------------------------------------------------------------------------

fs::path TableFile::journal_path(std::uint64_t number) const {
  return fs::path(path()) += concat(".undo-", number);
}

std::unique_ptr<UndoJournal> TableFile::new_journal(const Version& version) const {
  UndoJournal::Begin begin{.mark = journal_mark(version), .record_bytes = stride_};
  static_assert(sizeof begin.notes >= sizeof version + sizeof(std::uint64_t));
  std::memcpy(begin.notes.data(), &version, sizeof version);
  begin.notes.back() = journal_ ? journal_->size_bytes() : 0;  // of the one before
  return std::make_unique<UndoJournal>(journal_path(version.number), begin);
}

std::unique_ptr<UndoJournal> TableFile::open_journal(const Version& version,
                                                     std::uint64_t bytes) const {
  const fs::path path = journal_path(version.number);
  check_runtime(file_exists(path), path.string(), ": is missing; without this journal, which is a ",
                "part of the table ", this->path().string(), ", that cannot be opened");
  return std::make_unique<UndoJournal>(
      path, UndoJournal::Expected{
                .mark = journal_mark(version), .record_bytes = stride_, .bytes = bytes});
}

// A journal that cannot be removed takes space, no more.
void TableFile::remove_journal(std::uint64_t number) const {
  try {
    UndoJournal::remove(journal_path(number));
  } catch (const std::runtime_error&) {
  }
}

void TableFile::check_usable() const {
  if (failed_) check_state(false, path().string(), ": writing the table has failed; open it again");
}

// If it fails, the system may have dropped what it could not write: then the table is not usable.
void TableFile::sync() {
  failed_ = true;
  file_->sync();
  failed_ = false;
}

// Writes the head with another version, in one call, so that a kill finds all of it or nothing.
void TableFile::write_head(const Version& version, const UndoJournal& journal) {
  Head changed = head();
  changed.version = version;
  changed.journal_bytes = journal.size_bytes();
  file_->write(0, std::as_bytes(std::span(&changed, 1)));
}

bool TableFile::has_changed() const {
  return !journal_->empty() ||
         std::memcmp(&head().version, journal_->begin().notes.data(), sizeof(Version)) != 0;
}

// Gives the rows that changed their checksums. Returns the mark of what the table has now, from the
// mark before and these rows.
std::uint64_t TableFile::seal() {
  Checksum sum(head().version.mark);
  journal_->for_each_group([&](const UndoJournal::Records& records) {
    for (const std::uint64_t row : records.numbers) {
      const std::uint64_t of_row = checksum_of(row, bytes_of(row));
      sum.add(of_row);
      const std::uint64_t own = of_row ^ head().identity;
      if (row_head(row).epoch != 0)  // it was not stored if the disk was full
        std::memcpy(bytes_of(row) + stride_ - kChecksumBytes, &own, kChecksumBytes);
    }
  });
  sum.add_bytes(std::as_bytes(std::span(&head().version, 1)));
  return splitmix64(sum.value());
}

// The order matters: whenever this is interrupted, the journal of the checkpoint that the head
// names is there, and has all that was changed since.
void TableFile::checkpoint() {
  check_usable();
  if (!has_changed()) return;
  check_state(!is_lost_, path().string(),
              ": rows have deferred updates of an optimizer that was destroyed, so nothing could "
              "read them again; before, call checkpoint() and save the optimizer's state");
  Version next = head().version;
  ++next.number;
  next.mark_before = next.mark;
  next.mark = seal();
  sync();
  auto journal = new_journal(next);
  failed_ = true;  // until head and journal agree
  write_head(next, *journal);
  journal_ = std::move(journal);
  sync();
  if (next.number >= 2) remove_journal(next.number - 2);
}

std::string TableFile::mark() const {
  check_state(!has_changed(), path().string(),
              ": the table has changed since its last checkpoint; call TableFile::checkpoint() "
              "before its state is saved");
  return mark_text(head().version.number, head().version.mark);
}

// The journal of the checkpoint before the last one, if this is its mark; null for the last one's.
std::unique_ptr<UndoJournal> TableFile::journal_before(std::string_view mark) const {
  check_usable();
  Version before = head().version;
  if (mark == mark_text(before.number, before.mark)) return nullptr;
  const bool last_but_one = before.number > 0 && file_exists(journal_path(before.number - 1)) &&
                            mark == mark_text(before.number - 1, before.mark_before);
  check_argument(last_but_one, path().string(), ": has no '", mark, "', only its last one, '",
                 mark_text(before.number, before.mark), "', and the one before that");
  --before.number;
  before.mark = before.mark_before;
  return open_journal(before, journal_->begin().notes.back());
}

void TableFile::restore(std::string_view mark, const Lease& lease) {
  check_usable();
  check_state(lease == lease_.lock(), path().string(),
              ": a layer uses the table; load the layer's state instead");
  auto journal = journal_before(mark);
  roll_back();
  is_lost_ = false;
  if (!journal) return;
  failed_ = true;
  const std::uint64_t last = head().version.number;
  Version before{};
  std::memcpy(&before, journal->begin().notes.data(), sizeof before);
  write_head(before, *journal);
  journal_ = std::move(journal);
  sync();
  roll_back();
  remove_journal(last);
}

// Takes back all changes since the checkpoint in the head. May be interrupted and done again.
void TableFile::roll_back() {
  if (!has_changed()) return;
  failed_ = true;
  journal_->for_each_group([&](const UndoJournal::Records& records) {
    for (const std::uint64_t row : records.numbers) {
      check_runtime(row < rows(), path().string(), ": its journal has row ", row,
                    ", which is outside the table");
      file_->fetch(record_offset(row), stride_);
    }
    // What has not changed is not written: a row that is not stored may have no place on the disk.
    for (std::size_t i = 0; i < records.numbers.size(); ++i) {
      const std::byte* before = records.bytes.data() + i * stride_;
      std::byte* present = bytes_of(records.numbers[i]);
      if (std::memcmp(present, before, stride_) != 0) std::memcpy(present, before, stride_);
    }
  });
  std::memcpy(&head().version, journal_->begin().notes.data(), sizeof(Version));
  head().journal_bytes = 0;  // before it is cleared, so that it is never too short
  sync();
  failed_ = true;
  journal_->clear();
  failed_ = false;
}

// --- Rows ---------------------------------------------------------------------------------------

TableFile::Lease TableFile::lease() {
  check_argument(lease_.expired(), path().string(),
                 ": another layer uses the table; layers can share its parameter");
  auto lease = std::make_shared<const bool>(true);
  lease_ = lease;
  return lease;
}

void TableFile::bring_in(std::span<const std::int32_t> ids) {
  check_usable();
  if (are_on_disk(ids)) fetch(ids);
  verify_rows(ids);
}

void TableFile::read_ahead(std::span<const std::int32_t> ids) {
  check_usable();
  if (!are_on_disk(ids)) return;
  // A disk takes only so many requests at once: whoever has more waits, and that is another thread.
  // It waits for those before, too, and lets go of them: a task's state keeps what it captures.
  try {
    reading_ahead_ =
        std::async(std::launch::async, [this, before = std::move(reading_ahead_),
                                        rows = std::vector(ids.begin(), ids.end())]() mutable {
          before = {};
          fetch(rows);
        });
  } catch (const std::system_error&) {  // there is no thread, so they are read when they are used
  }
}

// Whether some of the rows have to come from the disk, of which a few tell: to fetch a row costs
// more than to touch one that is in memory.
bool TableFile::are_on_disk(std::span<const std::int32_t> ids) const {
  constexpr std::size_t kAsked = 32;
  const std::size_t step = ids.size() / kAsked + 1;
  std::size_t missing = 0;
  for (std::size_t i = 0; i < ids.size(); i += step)
    missing += !file_->is_in_memory(record_offset(static_cast<std::size_t>(ids[i])));
  return missing > 0;
}

void TableFile::fetch(std::span<const std::int32_t> ids) const {
  for (const std::int32_t id : ids)
    file_->fetch(record_offset(static_cast<std::size_t>(id)), stride_);
}

void TableFile::verify_rows(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    const auto row = static_cast<std::size_t>(id);
    std::uint64_t& bits = verified_[row / 64];
    const std::uint64_t bit = std::uint64_t{1} << row % 64;
    if ((bits & bit) != 0) continue;
    if (!is_whole(row, bytes_of(row)))
      check_runtime(false, path().string(), ": row ", row, " is damaged");
    bits |= bit;
  }
}

std::uint64_t TableFile::checksum_of(std::size_t row, const std::byte* record) const {
  return with_checksum_of(head(), [&](auto sum) {
    sum.add(row);
    sum.add_bytes({record, stride_ - kChecksumBytes});
    return sum.value();
  });
}

// Whether a row is as a checkpoint can have left it.
bool TableFile::is_whole(std::size_t row, const std::byte* record) const {
  RowHead of_row{};
  std::memcpy(&of_row, record, sizeof of_row);
  if (of_row.epoch == 0) return of_row.step == 0 && of_row.journal == 0;
  if (of_row.epoch > head().version.epoch || of_row.journal == 0 ||
      of_row.journal > head().version.number)
    return false;
  std::uint64_t found = 0;
  std::memcpy(&found, record + stride_ - kChecksumBytes, kChecksumBytes);
  return found == (checksum_of(row, record) ^ head().identity);
}

std::uint64_t TableFile::verify() const {
  check_usable();
  check_state(!has_changed(), path().string(),
              ": the table has changed since its last checkpoint; call TableFile::checkpoint() "
              "before it is verified");
  const std::size_t most = std::max<std::size_t>(1, kVerifiedBytes / stride_);  // rows at a time
  std::vector<std::byte> records;
  std::uint64_t stored = 0, damaged = 0;
  std::size_t first_damaged = 0, row = 0;
  while (row < rows()) {
    const auto [begin, end] = file_->stored_from(record_offset(row));
    row = std::max(row, (begin - kHeadBytes) / stride_);
    const std::size_t count =
        std::min({rows() - row, most, (end - record_offset(row) + stride_ - 1) / stride_});
    records.resize(count * stride_);
    if (count == 0) break;  // nothing is stored from here on
    file_->read(record_offset(row), records);
    for (std::size_t i = 0; i < count; ++i, ++row) {
      const std::byte* record = records.data() + i * stride_;
      if (!is_whole(row, record) && damaged++ == 0) first_damaged = row;
      stored += reinterpret_cast<const RowHead*>(record)->epoch != 0;
    }
  }
  check_runtime(damaged == 0, path().string(), ": ", damaged,
                damaged == 1 ? " row is" : " rows are", " damaged, the first is row ",
                first_damaged);
  check_runtime(stored == rows_stored(), path().string(), ": has ", stored,
                " rows, but there were ", rows_stored());
  return stored;
}

void TableFile::read(std::size_t row, std::span<real> out) const {
  const std::size_t known = is_current(row) ? out.size() : width();  // other states are zeros
  if (row_head(row).epoch != 0)
    std::copy_n(reinterpret_cast<const real*>(bytes_of(row) + sizeof(RowHead)), known, out.begin());
  else
    draw(row, out.data());
  std::ranges::fill(out.subspan(known), real{0});
}

void TableFile::begin_change(std::span<const std::int32_t> ids) {
  check_usable();
  bring_in(ids);
  for (const std::int32_t id : ids)
    if (const auto row = static_cast<std::size_t>(id); row_head(row).journal != journal_number())
      journal_->add(row, {bytes_of(row), stride_});
  journal_->flush();
  head().journal_bytes = journal_->size_bytes();
  for (const std::int32_t id : ids) {  // first those that have a place: this cannot fail
    const auto row = static_cast<std::size_t>(id);
    RowHead& of_row = row_head(row);
    if (of_row.epoch == 0) continue;
    of_row.journal = journal_number();
    if (is_current(row)) continue;
    std::fill_n(this->row(row) + width(), width() * head().states, real{0});
    of_row.step = 0;
    of_row.epoch = static_cast<std::uint32_t>(head().version.epoch);
  }
  for (const std::int32_t id : ids)
    if (const auto row = static_cast<std::size_t>(id); row_head(row).epoch == 0) store(row);
}

// Draws what a row starts as (Box & Muller 1958), from the numbers that SplitMix64 makes of the
// seed and the values' places.
void TableFile::draw(std::size_t row, real* values) const {
  const std::uint64_t key = splitmix64(head().seed) + row * ((width() + 1) / 2);
  for (std::size_t i = 0; i < width(); i += 2) {
    const std::uint64_t bits = splitmix64(key + i / 2);
    const double radius = head().deviation *
                          std::sqrt(-2 * std::log((static_cast<double>(bits >> 32) + 1) * 0x1p-32));
    const double angle = 2 * std::numbers::pi * static_cast<double>(bits & 0xFFFFFFFF) * 0x1p-32;
    // Through float, so that both libraries start with the same numbers.
    values[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < width()) values[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// Writes a new row, not through the mapping: if the disk is full, that would end the program. The
// head is written last, as the row is stored once it is there.
void TableFile::store(std::size_t row) {
  const RowHead stored{.step = 0,
                       .journal = journal_number(),
                       .epoch = static_cast<std::uint32_t>(head().version.epoch)};
  new_record_.assign(stride_, std::byte{0});
  draw(row, reinterpret_cast<real*>(new_record_.data() + sizeof stored));
  file_->write(record_offset(row) + sizeof stored,
               std::span<const std::byte>(new_record_).subspan(sizeof stored));
  file_->write(record_offset(row), std::as_bytes(std::span(&stored, 1)));
  ++head().version.rows_stored;
}

// --- States -------------------------------------------------------------------------------------

std::optional<std::size_t> TableFile::state_place(std::string_view name) const {
  for (std::size_t place = 0; place < states_begun(); ++place)
    if (std::string_view(head().version.names[place].data()) == name) return place;
  return std::nullopt;
}

std::size_t TableFile::states_begun() const {
  const auto& names = head().version.names;
  return static_cast<std::size_t>(
      std::ranges::find_if(names, [](const Name& name) { return name[0] == 0; }) - names.begin());
}

void TableFile::forget_states() {
  if (states_begun() == 0) return;
  head().version.names = {};
  ++head().version.epoch;
}

std::size_t TableFile::begin_state(std::string_view name) {
  const std::size_t place = states_begun();
  check_state(place < head().states && name.size() < sizeof(Name), path().string(),
              ": there is no place for state ", name);
  std::ranges::copy(name, head().version.names[place].begin());
  return place;
}

}  // namespace rowgrad
